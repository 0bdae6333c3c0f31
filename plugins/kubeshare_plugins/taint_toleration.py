"""Filter: nodes with a NoSchedule or NoExecute taint take only pods that tolerate it.

Readiness is covered too: the node lifecycle controller taints nodes that are not ready.
"""

from collections.abc import Sequence

from kubeshare_py.plugin import (
    Depends,
    IntArray,
    NumberTable,
    ReasonTable,
    RowFilter,
    Rows,
    Shape,
    Taint,
    Toleration,
)

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether one of the tolerations covers this taint (k8s.io/api core/v1 ToleratesTaint).

    An empty key with Exists covers every taint, an empty effect every effect. Operators other than
    Equal and Exists cover nothing, because an unknown operator must not open a node.
    """
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists":
            return True
        equal = toleration.operator in ("Equal", "")
        if equal and toleration.key and toleration.value == taint.value:
            return True
    return False


class TaintToleration:
    """The pod must tolerate every taint of the node that keeps pods away."""

    name = "TaintToleration"
    depends = Depends.STATIC

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """There are few distinct sets of taints: each is judged once."""
        mask = reasons.register(self.name, "node(s) had untolerated taint(s)", resolvable=False)

        def refused(taints: tuple[Taint, ...]) -> bool:
            return any(
                taint.effect in _KEEPS_AWAY and not tolerates(shape.tolerations, taint)
                for taint in taints
            )

        # Set 0 is the empty one, which refuses nothing.
        return NumberTable(_taints, lambda taints: mask if refused(taints) else 0, 0).of


def _taints(rows: Rows) -> tuple[IntArray, Sequence[tuple[Taint, ...]]]:
    return rows.taints()
