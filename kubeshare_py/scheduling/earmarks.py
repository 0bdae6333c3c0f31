"""Capacity that belongs to somebody who waits: who has it, and who sees it as taken.

A holder is a gang or a pod. Whoever stands behind it in the queue finds its places taken, whoever
stands before it finds them as if there were no earmarks, and so does the holder itself: it is tried
in its turn like all others, and if it fits, wherever that is, its earmarks are over.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.scheduling.gangs import Gang
from kubeshare_py.scheduling.pod_queue import SortKey

#: Who has earmarks: a gang, or a pod that is tried for itself.
Nominee = Gang | PodUid
#: By pod, the place that belongs to it.
Places = Mapping[PodUid, Charge]


class Cause(Enum):
    """Why somebody has earmarks."""

    STARVES = auto()  # it stood first for long
    PREEMPTS = auto()  # others are evicted for it


@dataclass(slots=True, eq=False)
class Holder:
    """Somebody with earmarks. `key`: where it stands; `name`: for texts; `since`, `planned_at`: s.

    One that `STARVES` stays a holder when its places are gone: then it is to be planned anew.
    """

    nominee: Nominee
    key: SortKey
    name: str
    cause: Cause
    since: float
    planned_at: float = 0.0
    uids: list[PodUid] = field(default_factory=list)
    is_laid: bool = True
    #: Somebody took something on one of its nodes while its earmarks were lifted.
    is_broken: bool = False
    #: Its nodes as they were when it was planned.
    nodes: dict[NodeName, tuple[Node | None, tuple[Gpu, ...] | None]] = field(default_factory=dict)


class Earmarks:
    """Works on the ledger; between turns all earmarks are laid."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._of: dict[Nominee, Holder] = {}
        #: In queue order.
        self.holders: list[Holder] = []
        #: How often somebody ceased to be a holder.
        self.ended = 0

    def __bool__(self) -> bool:
        return bool(self.holders)

    def of(self, nominee: Nominee) -> Holder | None:
        """What this gang or pod has."""
        return self._of.get(nominee)

    def holder_of(self, uid: PodUid) -> Holder | None:
        """Whose earmark this pod's is."""
        return next((holder for holder in self.holders if uid in holder.uids), None)

    def starving(self) -> Holder | None:
        """The one that stood first for long."""
        return next((one for one in self.holders if one.cause is Cause.STARVES), None)

    def hold(self, holder: Holder, places: Places, now: float) -> None:
        """These places belong to the holder from now on, instead of those before."""
        ledger, earmarks = self._ledger, self._ledger.earmarks
        for uid in [uid for uid in holder.uids if uid not in places]:
            ledger.dissolve(uid)
        for uid, place in places.items():
            if not _same(earmarks.get(uid), place):
                ledger.earmark(uid, place.node, place.resources, place.allocation)
            elif not holder.is_laid:
                ledger.lay([uid])
        holder.uids = list(places)
        holder.is_laid, holder.is_broken, holder.planned_at = True, False, now
        holder.nodes = {place.node: self._node(place.node) for place in places.values()}
        self._of[holder.nominee] = holder
        self.holders = sorted(self._of.values(), key=lambda one: one.key)

    def end(self, nominee: Nominee) -> None:
        """It has no earmarks any more, if it ever had; who may fit now is woken by the ledger."""
        holder = self._of.pop(nominee, None)
        if holder is not None:
            self._dissolve(holder)
            self.holders.remove(holder)
            self.ended += 1

    def end_all(self) -> None:
        """Nobody has earmarks any more."""
        for holder in list(self.holders):
            self.end(holder.nominee)

    def changed(self, nominee: Nominee) -> None:
        """The holder is not what it was: its places are gone."""
        holder = self._of.get(nominee)
        if holder is not None:
            self._lose(holder)

    def takes_precedence(self, key: SortKey) -> bool:
        """Whether who stands there does not mind the earmarks of somebody."""
        return bool(self.holders) and key < self.holders[-1].key

    # --- in a turn -----------------------------------------------------------------------------

    def outdated(self) -> Iterator[Holder]:
        """Holders one of whose nodes is not as it was: their places are gone."""
        for holder in list(self.holders):
            if any(self._node(name) != then for name, then in holder.nodes.items()):
                self._lose(holder)
                yield holder

    def lift(self) -> None:
        """Show the cluster as if nobody had earmarks."""
        for holder in self.holders:
            self._lift(holder)

    def stand_at(self, key: SortKey) -> Holder | None:
        """Show what who stands there in the queue may take; a holder that must be tried first.

        That is one from whom somebody before took something: its places are gone.
        """
        for holder in self.holders:
            if not holder.key < key:
                self._lift(holder)
                continue
            if holder.is_broken:
                self._lose(holder)
                return holder
            self._lay(holder)
        return None

    def lay(self) -> list[Holder]:
        """Show the cluster as it is between turns; holders that must be tried again."""
        lost = []
        for holder in list(self.holders):
            if holder.is_broken:
                self._lose(holder)
                lost.append(holder)
            self._lay(holder)
        return lost

    def took(self, node: NodeName) -> None:
        """Somebody was placed on this node just now."""
        for holder in self.holders:
            if not holder.is_laid and node in holder.nodes:
                holder.is_broken = True

    # --- inside --------------------------------------------------------------------------------

    def _node(self, name: NodeName) -> tuple[Node | None, tuple[Gpu, ...] | None]:
        row = self._ledger.columns.row_of.get(name)
        node = None if row is None else self._ledger.columns.nodes[row]
        return node, self._ledger.inventory.get(name)

    def _lose(self, holder: Holder) -> None:
        if holder.cause is Cause.STARVES:
            self._dissolve(holder)
        else:
            self.end(holder.nominee)

    def _dissolve(self, holder: Holder) -> None:
        for uid in holder.uids:
            self._ledger.dissolve(uid)
        holder.uids.clear()
        holder.nodes.clear()
        holder.is_laid, holder.is_broken = True, False

    def _lift(self, holder: Holder) -> None:
        if holder.is_laid:
            self._ledger.lift(holder.uids)
            holder.is_laid = False

    def _lay(self, holder: Holder) -> None:
        if not holder.is_laid:
            self._ledger.lay(holder.uids)
            holder.is_laid = True


def _same(before: Charge | None, place: Charge) -> bool:
    """Whether the place is where it was, its token aside."""
    if before is None or before.node != place.node or before.resources != place.resources:
        return False
    old, new = before.allocation, place.allocation
    if old is None or new is None:
        return old is new
    return old.cards == new.cards and old.exclusive == new.exclusive
