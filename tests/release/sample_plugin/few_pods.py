import numpy as np

from kubeshare_py.plugin import BestCards, IntArray, Rows, RowScore, Shape


class FewPods:
    """Prefers nodes with few pods on their GPUs."""

    name = "FewPods"
    normaliser = None

    def score(self, shape: Shape) -> RowScore | None:
        """No say about pods without GPUs."""
        return _points if shape.claims else None


def _points(rows: Rows, cards: BestCards | None) -> IntArray:
    pods: IntArray = rows.tenants.sum(axis=1)
    return np.maximum(100 - pods, 0)
