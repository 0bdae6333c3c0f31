"""Filter: the node's kubelet declares the features that the pod needs."""

from collections.abc import Sequence

from kubeshare_py.plugin import (
    Depends,
    IntArray,
    NumberTable,
    ReasonTable,
    RowFilter,
    Rows,
    Shape,
)


class NodeDeclaredFeatures:
    """Pods that need a feature go to nodes that have it in `status.declaredFeatures`."""

    name = "NodeDeclaredFeatures"
    only_for = ("features",)
    depends = Depends.STATIC

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods that need none; each distinct set is judged once."""
        needed = frozenset(shape.features)
        if not needed:
            return None
        text = "node(s) didn't match Pod's required features"
        mask = reasons.register(self.name, text, resolvable=False)
        # Set 0 is the empty one.
        return NumberTable(_features, lambda found: 0 if needed <= {*found} else mask, mask).of


def _features(rows: Rows) -> tuple[IntArray, Sequence[tuple[str, ...]]]:
    return rows.features()
