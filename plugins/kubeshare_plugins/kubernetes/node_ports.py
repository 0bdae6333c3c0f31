"""Filter: ports of the node that the pod asks for are not taken."""

from collections.abc import Collection, Iterator

import numpy as np

from kubeshare_py.domain.pod import HostPort
from kubeshare_py.plugin import (
    Depends,
    IntArray,
    ReasonTable,
    RowFilter,
    RowHeadroom,
    Rows,
    Shape,
    Shortfall,
)

_REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    """No pod on the node has the same port of one protocol, at the same address or at all of them.

    So a node takes one pod of a shape with ports. Ports of pods that leave are free when they are
    gone.
    """

    name = "NodePorts"
    only_for = ("host_ports",)
    depends = Depends.ROW

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without such ports."""
        if not shape.host_ports:
            return None
        mask, wanted = reasons.register(self.name, _REASON), shape.host_ports

        def ask(rows: Rows) -> IntArray:
            taken = [_conflict(wanted, held) for held in rows.host_ports()]
            return np.array(taken, np.int64) * mask

        return ask

    def queueing_hint(self, shape: Shape, row: Rows) -> bool:
        """Whether the ports are free."""
        return not shape.host_ports or not _conflict(shape.host_ports, row.host_ports()[0])

    def capacity_bound(self, shape: Shape) -> RowHeadroom | None:
        """One pod for each row."""
        return (lambda rows: np.ones(len(rows.index), np.int64)) if shape.host_ports else None

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each port that is taken."""
        (held,) = row.host_ports()
        for wanted in shape.host_ports:
            if _conflict((wanted,), held):
                resource = f"host port {wanted.port}/{wanted.protocol} at {wanted.address}"
                yield Shortfall(reason=_REASON, resource=resource, asked=1, free=0, unit="count")


def _conflict(wanted: Collection[HostPort], held: Collection[HostPort]) -> bool:
    return bool(held) and any(one.conflicts(other) for one in wanted for other in held)
