"""Filter and score: which taints of a node the pod does not tolerate.

Nodes with NoSchedule and NoExecute taints take only pods that tolerate them; those with fewer
PreferNoSchedule taints are better. Readiness is covered too: the node lifecycle controller taints
nodes that are not ready.
"""

from collections.abc import Callable, Sequence

from kubeshare_py.framework.scores import reverse
from kubeshare_py.plugin import (
    BestCards,
    Depends,
    IntArray,
    NumberTable,
    ReasonTable,
    RowFilter,
    Rows,
    RowScore,
    Shape,
    Taint,
    Toleration,
)

_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_PREFERS_OTHERS = "PreferNoSchedule"


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether one of the tolerations covers this taint (k8s.io/api core/v1 ToleratesTaint).

    An empty key with Exists covers every taint, an empty effect every effect. Operators other than
    Equal and Exists cover nothing, because an unknown operator must not open a node; so Lt and Gt,
    as in kube-scheduler without its alpha feature TaintTolerationComparisonOperators.
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
    """The pod must tolerate every taint of the node that keeps pods away.

    A node without PreferNoSchedule taints that it does not tolerate gets 100 points, the node with
    the most of them 0, and the others in proportion.
    """

    name = "TaintToleration"
    depends = score_depends = Depends.STATIC
    normaliser = staticmethod(reverse)

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """One question for every pod."""
        mask = reasons.register(self.name, "node(s) had untolerated taint(s)", resolvable=False)
        return untolerated(shape.tolerations, mask)

    def score(self, shape: Shape) -> RowScore | None:
        """How many taints there are that the pod does not tolerate and that do not keep it away."""

        def count(taints: tuple[Taint, ...]) -> int:
            return sum(
                taint.effect == _PREFERS_OTHERS and not tolerates(shape.tolerations, taint)
                for taint in taints
            )

        counts = NumberTable(_taints, count, 0)

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return counts.of(rows)

        return ask


def untolerated(tolerations: tuple[Toleration, ...], mask: int) -> Callable[[Rows], IntArray]:
    """`mask` on rows with a taint that keeps pods with these tolerations away, else 0, (k,).

    There are few distinct sets of taints: each is judged once.
    """

    def refused(taints: tuple[Taint, ...]) -> bool:
        return any(
            taint.effect in _KEEPS_AWAY and not tolerates(tolerations, taint) for taint in taints
        )

    # Set 0 is the empty one, which refuses nothing.
    return NumberTable(_taints, lambda taints: mask if refused(taints) else 0, 0).of


def _taints(rows: Rows) -> tuple[IntArray, Sequence[tuple[Taint, ...]]]:
    return rows.taints()


# Filter: cordoned nodes take only pods that tolerate the cordon.


# spec.unschedulable means this taint (kube-scheduler, plugin NodeUnschedulable).
_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class NodeUnschedulable:
    """`kubectl cordon` keeps new pods away."""

    name = "NodeUnschedulable"
    depends = Depends.STATIC

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods that tolerate a cordon."""
        if tolerates(shape.tolerations, _CORDON):
            return None
        mask = reasons.register(self.name, "node(s) were unschedulable", resolvable=False)

        def ask(rows: Rows) -> IntArray:
            return rows.unschedulable * mask

        return ask
