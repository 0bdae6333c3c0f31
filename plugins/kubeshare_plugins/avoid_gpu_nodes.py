"""Score: pods without GPUs prefer nodes without GPUs."""

import numpy as np

from kubeshare_py.plugin import BestCards, IntArray, Normaliser, Rows, RowScore, Shape


class AvoidGpuNodes:
    """100 for nodes without GPUs, 0 for others. Has no say about pods that claim GPUs."""

    name = "AvoidGpuNodes"
    normaliser: Normaliser | None = None

    def score(self, shape: Shape) -> RowScore | None:
        """Asked only for pods without a claim."""
        return None if shape.claims else _ask


def _ask(rows: Rows, cards: BestCards | None) -> IntArray:
    return np.where(rows.gpu_count == 0, 100, 0)
