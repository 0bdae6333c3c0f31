"""Capacity kept for a waiting pod or gang: its holder, and which other pods see it as taken.

The holder itself is tried in its turn like all others, as if its earmarks were not there; if it
fits, in whatever place, its earmarks end. The holder of a preemption plan keeps its places from all
contenders except those that outrank it (`Holder.yields_to`). Any other holder keeps its places from
contenders behind it in the queue.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.pod_records import Record

#: What may have earmarks: a gang, or a pod that is tried alone.
Nominee = Gang | PodUid
#: The place of each pod.
Places = Mapping[PodUid, Charge]


class Cause(Enum):
    """Why a nominee has earmarks."""

    STARVES = auto()  # it was the first in the queue for long
    PREEMPTS = auto()  # victims are evicted for it


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A pod or gang that is tried. `key`: its sort key; `pods`: those that it needs."""

    nominee: Nominee
    key: SortKey
    pods: Sequence[Pod]

    @property
    def priority(self) -> int:
        """`spec.priority`; a gang has the lowest one of its pods."""
        return min(pod.priority for pod in self.pods)


def needed(nominee: Nominee, records: Mapping[PodUid, Record]) -> list[Record]:
    """The pods that must be placed together."""
    if isinstance(nominee, Gang):
        return sorted(nominee.waiting.values(), key=lambda one: one.key)[: nominee.need]
    return [records[nominee]]


def contender_of(nominee: Nominee, records: Mapping[PodUid, Record]) -> Contender:
    """A waiting pod or gang as a contender."""
    members = needed(nominee, records)
    key = nominee.key if isinstance(nominee, Gang) else members[0].key
    return Contender(nominee, key, [record.pod for record in members])


@dataclass(slots=True, eq=False)
class Holder:
    """A pod or gang with earmarks. `key`: its sort key; `name`: for texts; times in s.

    A holder that `STARVES` stays one when its places are gone, and is planned anew. One that
    `PREEMPTS` keeps its places, even when it `is_broken`, until it has another plan or none. `uids`
    are pods with places, `beside` evicted pods of whose cards more is kept than the places.
    """

    nominee: Nominee
    key: SortKey
    name: str
    cause: Cause
    since: float
    planned_at: float = 0.0
    #: Which contenders outrank the holder of a preemption plan, and its pods' shapes when it was
    #: made.
    yields_to: Callable[[Contender], bool] | None = None
    shapes: Mapping[PodUid, Shape] = field(default_factory=dict)
    uids: list[PodUid] = field(default_factory=list)
    beside: list[PodUid] = field(default_factory=list)
    is_laid: bool = True
    #: Another pod took part of its places while its earmarks were lifted.
    is_broken: bool = False
    #: Its nodes and their cards at the time of planning.
    nodes: dict[NodeName, tuple[Node | None, tuple[Gpu, ...] | None]] = field(default_factory=dict)

    def is_open_to(self, contender: Contender) -> bool:
        """Whether the contender may take these places."""
        if contender.nominee == self.nominee:
            return True
        if self.yields_to is not None:
            return self.yields_to(contender)
        return not self.key < contender.key


class Earmarks:
    """The holders and their earmarks in the ledger; between turns all earmarks are laid."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._of: dict[Nominee, Holder] = {}
        #: In queue order.
        self.holders: list[Holder] = []
        #: How many holders have lost or used their earmarks.
        self.ended = 0

    def __bool__(self) -> bool:
        return bool(self.holders)

    def of(self, nominee: Nominee) -> Holder | None:
        """The holder of this gang or pod, or None."""
        return self._of.get(nominee)

    def holder_of(self, uid: PodUid) -> Holder | None:
        """The holder to which this pod's earmark belongs, or None."""
        return next((one for one in self.holders if uid in one.uids or uid in one.beside), None)

    def starving(self) -> Holder | None:
        """The starving holder, or None."""
        return next((one for one in self.holders if one.cause is Cause.STARVES), None)

    def hold(
        self, holder: Holder, places: Places, now: float, beside: Places | None = None
    ) -> None:
        """Keep these places for the holder, in place of its former ones.

        `beside`: by evicted pod, what is kept of its cards beside the places.
        """
        ledger, earmarks = self._ledger, self._ledger.earmarks
        beside = beside or {}
        kept = {**places, **beside}
        for uid in [uid for uid in (*holder.uids, *holder.beside) if uid not in kept]:
            ledger.dissolve(uid)
        for uid, place in kept.items():
            if not _same(earmarks.get(uid), place):
                ledger.earmark(uid, place.node, place.resources, place.allocation)
            elif not holder.is_laid:
                ledger.lay([uid])
        holder.uids, holder.beside = list(places), list(beside)
        holder.is_laid, holder.is_broken, holder.planned_at = True, False, now
        holder.nodes = {place.node: self._node(place.node) for place in places.values()}
        self._of[holder.nominee] = holder
        self.holders = sorted(self._of.values(), key=lambda one: one.key)

    def end(self, nominee: Nominee) -> None:
        """End a nominee's earmarks, if any; the ledger wakes pods that may fit now."""
        holder = self._of.pop(nominee, None)
        if holder is not None:
            self._dissolve(holder)
            self.holders.remove(holder)
            self.ended += 1

    def doubt_all(self) -> None:
        """Have every place planned anew."""
        for holder in list(self.holders):
            if holder.cause is Cause.PREEMPTS:
                holder.is_broken = True
            else:
                self.end(holder.nominee)

    def changed(self, gang: Gang) -> None:
        """The gang changed: drop its places, or have them planned anew."""
        holder = self._of.get(gang)
        if holder is None or self._is_as_planned(holder, gang):
            return
        if holder.cause is Cause.PREEMPTS and gang.together:
            holder.is_broken = True
        else:
            self._lose(holder)

    def is_preemptor(self, nominee: Nominee) -> bool:
        """Whether a preemption plan is carried out for this gang or pod."""
        holder = self._of.get(nominee)
        return holder is not None and holder.cause is Cause.PREEMPTS

    def takes_precedence(self, contender: Contender) -> bool:
        """Whether the contender may take places that are kept from others."""
        return any(holder.is_open_to(contender) for holder in self.holders)

    # --- in a turn -----------------------------------------------------------------------------

    def outdated(self) -> Iterator[Holder]:
        """Holders with a node that changed: their places are gone."""
        for holder in list(self.holders):
            nodes = {name: self._node(name) for name in holder.nodes}
            if nodes == holder.nodes:
                continue
            if holder.cause is Cause.STARVES:
                self._lose(holder)
                yield holder
                continue
            holder.nodes = nodes
            holder.is_broken |= not all(map(self._is_usable, holder.uids))

    def lift(self) -> None:
        """Show the cluster without any earmarks."""
        for holder in self.holders:
            self._lift(holder)

    def show_to(self, contender: Contender) -> Holder | None:
        """Show the capacity that the contender may take; returns a holder that must be tried first.

        That is one whose places another pod has taken.
        """
        for holder in self.holders:
            if holder.is_open_to(contender):
                self._lift(holder)
                continue
            if holder.is_broken and holder.cause is Cause.STARVES:
                self._lose(holder)
                return holder
            self._lay(holder)
        return None

    def lay(self) -> list[Holder]:
        """Show the cluster with all earmarks; returns holders that must be tried again."""
        lost = []
        for holder in list(self.holders):
            if holder.is_broken and holder.cause is Cause.STARVES:
                self._lose(holder)
                lost.append(holder)
            self._lay(holder)
        return lost

    def took_by(self, record: Record) -> None:
        """This pod was just placed."""
        if self.holders and record.node is not None:
            cards = record.allocation.cards if record.allocation is not None else ()
            self.took(record.node, {card.uuid for card in cards})

    def took(self, node: NodeName, cards: Collection[GpuUuid]) -> None:
        """A pod was just placed on these cards of a node, or a plan was made for them."""
        for holder in self.holders:
            if not holder.is_laid and node in holder.nodes:
                own = self._cards_on(node, holder)
                if holder.cause is Cause.STARVES or not own or not own.isdisjoint(cards):
                    holder.is_broken = True

    # --- inside --------------------------------------------------------------------------------

    def _node(self, name: NodeName) -> tuple[Node | None, tuple[Gpu, ...] | None]:
        row = self._ledger.columns.row_of.get(name)
        node = None if row is None else self._ledger.columns.nodes[row]
        return node, self._ledger.inventory.get(name)

    def _cards_on(self, node: NodeName, holder: Holder) -> set[GpuUuid]:
        """The cards of its places on a node."""
        places = (self._ledger.earmarks[uid] for uid in holder.uids)
        found = [one.allocation for one in places if one.node == node and one.allocation]
        return {card.uuid for allocation in found for card in allocation.cards}

    def _is_as_planned(self, holder: Holder, gang: Gang) -> bool:
        """Whether all pods of a preemption plan still wait with the same shapes."""
        if not gang.together or gang.need != len(holder.shapes):
            return False
        return all(
            uid in gang.waiting and gang.waiting[uid].shape == shape
            for uid, shape in holder.shapes.items()
        )

    def _is_usable(self, uid: PodUid) -> bool:
        """Whether the node of this place is there and takes pods, and its cards are healthy."""
        place = self._ledger.earmarks[uid]
        node, gpus = self._node(place.node)
        if node is None or node.unschedulable:
            return False
        healthy = {gpu.uuid for gpu in gpus or () if gpu.healthy}
        cards = place.allocation.cards if place.allocation is not None else ()
        return all(card.uuid in healthy for card in cards)

    def _lose(self, holder: Holder) -> None:
        if holder.cause is Cause.STARVES:
            self._dissolve(holder)
        else:
            self.end(holder.nominee)

    def _dissolve(self, holder: Holder) -> None:
        for uid in (*holder.uids, *holder.beside):
            self._ledger.dissolve(uid)
        holder.uids.clear()
        holder.beside.clear()
        holder.nodes.clear()
        holder.is_laid, holder.is_broken = True, False

    def _lift(self, holder: Holder) -> None:
        if holder.is_laid:
            self._ledger.lift([*holder.uids, *holder.beside])
            holder.is_laid = False

    def _lay(self, holder: Holder) -> None:
        if not holder.is_laid:
            self._ledger.lay([*holder.uids, *holder.beside])
            holder.is_laid = True


def _same(before: Charge | None, place: Charge) -> bool:
    """Whether the place is the same, apart from its token."""
    if before is None or before.node != place.node or before.resources != place.resources:
        return False
    old, new = before.allocation, place.allocation
    if old is None or new is None:
        return old is new
    return old.cards == new.cards and old.exclusive == new.exclusive
