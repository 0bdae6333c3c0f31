"""Score: pods without GPUs prefer nodes without GPUs."""

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import BestCards, Normaliser, RowScore


class AvoidGpuNodes:
    """100 for nodes without GPUs, 0 for others. Has no say about pods that claim GPUs."""

    name = "AvoidGpuNodes"
    normaliser: Normaliser | None = None

    def score(self, shape: Shape) -> RowScore | None:
        """Asked only for pods without a claim."""
        return None if shape.claims else _ask


def _ask(rows: Rows, cards: BestCards | None) -> IntArray:
    return np.where(rows.gpu_count == 0, 100, 0)
