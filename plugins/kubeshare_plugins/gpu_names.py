"""Filter: the node that has the GPU of the name which the pod gives.

A name belongs to a namespace and, as the virtual GPUs of KubeShare 1.0, to a node: pods that may
only use certain nodes, by their node selector and required node affinity, ask about these alone.
Where none of them has a GPU of the name, the pod may go to any. Which card of a node it gets is
GpuFit's, because the ledger enforces it.
"""

from collections.abc import Iterator

import numpy as np

from kubeshare_plugins.kubernetes.node_affinity import required_affinity
from kubeshare_py.framework.claim_fit import having_name
from kubeshare_py.plugin import Depends, IntArray, ReasonTable, RowFilter, Rows, Shape, Shortfall

ELSEWHERE = "the GPU of the name which the pod gives is on another node"


class GpuNames:
    """No question for pods that name no GPU."""

    name = "GpuNames"
    only_for = ("claim.tags",)
    depends = Depends.CLUSTER

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """Nodes with a card of the name, if any of those that the pod may use has one."""
        name = shape.card_name
        if name is None:
            return None
        elsewhere = reasons.register(self.name, ELSEWHERE, resolvable=False)
        has_name, affinity = having_name(name), required_affinity(shape)

        def ask(rows: Rows) -> IntArray | None:
            everywhere = rows.everywhere
            there = has_name(everywhere).any(1) & everywhere.present
            if affinity is not None:
                there &= affinity(everywhere)
            return np.where(there[rows.index], 0, elsewhere) if there.any() else None

        return ask

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """One line for a node, if another one has the card."""
        ask = self.filter(shape, ReasonTable())
        masks = None if ask is None else ask(row)
        if masks is not None and masks.any():
            yield Shortfall(reason=ELSEWHERE)
