"""Filter: cordoned nodes take only pods that tolerate the cordon."""

from kubeshare_plugins.kubernetes.taint_toleration import tolerates
from kubeshare_py.plugin import Depends, IntArray, ReasonTable, RowFilter, Rows, Shape, Taint

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
