"""Late members of a gang that must be in one domain with it and find no room there.

They wait in shape queues of their own, because room elsewhere does not help them. Such a shape
queue is woken when a row of its domain improves, and when the domain changes: members left or came,
or labels of nodes changed.
"""

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.scheduling.pod_groups.gang_places import GangPlaces
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves


class ConstrainedMembers:
    """Knows which gangs have such members."""

    def __init__(
        self,
        ledger: Ledger,
        queue: PodQueue,
        moves: QueueMoves,
        gangs: Gangs,
        places: GangPlaces,
    ) -> None:
        self._ledger = ledger
        self._queue = queue
        self._moves = moves
        self._gangs = gangs
        self._places = places
        #: The nodes of the other members when such members were last tried.
        self._nodes: dict[Gang, frozenset[NodeName]] = {}
        self._relabelled = 0

    def unschedulable(self, shape_queue: ShapeQueue, record: Record) -> None:
        """The first pod of a shape queue was tried and does not fit."""
        gang = self._gangs.of(record.pod.uid)
        if shape_queue.place_of is not None and gang is not None:
            self._nodes[gang] = frozenset(gang.nodes())

    def clear(self) -> None:
        """Forget all gangs."""
        self._nodes.clear()

    def among(self, shape_queue: ShapeQueue, rows: IntArray) -> IntArray:
        """Those of the rows, (k,) int64, where the pods of this shape queue may be."""
        head = shape_queue.head()
        gang = self._gangs.of(head[1]) if head is not None else None
        if shape_queue.place_of is None or gang is None:
            return rows
        at = self._places.rows_of(gang.nodes())
        found: IntArray = rows[self._places.allowed(shape_queue.place_of[2], at).take(rows)]
        return found

    def look(self) -> None:
        """Wake the shape queues if labels of nodes changed, because domains may have changed."""
        if self._relabelled != self._ledger.relabelled.end:
            self._relabelled = self._ledger.relabelled.end
            for gang in list(self._nodes):
                self._wake(gang)

    def changed(self, gang: Gang) -> None:
        """Wake the shape queues of a gang that is on other nodes now."""
        nodes = self._nodes.get(gang)
        if nodes is not None and (not gang.waiting or nodes != frozenset(gang.nodes())):
            self._wake(gang)

    def _wake(self, gang: Gang) -> None:
        del self._nodes[gang]
        for uid in gang.waiting:
            shape_queue = self._queue.queue_of(uid)
            if (
                shape_queue is not None
                and shape_queue.unschedulable
                and shape_queue.place_of is not None
            ):
                self._moves.woken(len(shape_queue.waiting))
                self._queue.activate(shape_queue)
