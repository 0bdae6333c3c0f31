"""Capacity kept for a waiting pod or gang: its holder, and which other pods see it as taken.

The holder itself is tried in its turn like all others, as if its reservations were not there; if it
fits, in whatever place, its reservations end. The holder of a preemption plan keeps its places from
all contenders except those that outrank it (`Reservation.yields_to`). Any other holder keeps its
places from contenders behind it in the queue.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.framework.snapshot import Snapshot, Snapshots, WithoutReservations
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.pod_records import Record

# Snapshots of the cluster without the reservations that a pod or gang may take.


#: The most snapshots that are kept: pods and gangs that are tried one after the other mostly see
#: the same reservations.
MAX_KEPT = 4


class ReservedSnapshots:
    """Makes snapshots without reservations; the last ones are kept and only follow changes."""

    def __init__(self, ledger: Ledger, snapshots: Snapshots) -> None:
        self._ledger = ledger
        self._snapshots = snapshots
        self._actual = snapshots.actual
        #: By key, and as of which change of reservations.
        self._kept: OrderedDict[object, tuple[WithoutReservations, int]] = OrderedDict()

    def show(self, key: object, uids: Sequence[PodUid]) -> None:
        """Let evaluators see the cluster without the reservations of these pods.

        `key` names the set of pods: a snapshot is kept for each of the last keys.
        """
        self._snapshots.shown = self._without(key, uids) if uids else self._snapshots.actual

    def _without(self, key: object, uids: Sequence[PodUid]) -> Snapshot:
        if self._actual is not self._snapshots.actual:
            self._actual = self._snapshots.actual
            self._kept.clear()
        changes = self._ledger.reservation_changes
        snapshot, seen = self._kept.pop(key, (None, -1))
        if snapshot is None:
            snapshot = self._another()
        if seen != changes:
            snapshot.leave_out(self._by_row(uids))
        snapshot.follow()
        self._kept[key] = snapshot, changes
        return snapshot

    def _another(self) -> WithoutReservations:
        """A snapshot for another key: a new one, or the one that was unused for longest."""
        if len(self._kept) < MAX_KEPT:
            return WithoutReservations(self._actual)
        return self._kept.popitem(last=False)[1][0]

    def _by_row(self, uids: Sequence[PodUid]) -> dict[int, list[Charge]]:
        rows, charges = self._ledger.columns.row_of, self._ledger.reservations
        found: dict[int, list[Charge]] = {}
        for uid in uids:
            found.setdefault(rows[charges[uid].node], []).append(charges[uid])
        return found


#: What may have reservations: a gang, or a pod that is tried alone.
Nominee = Gang | PodUid
#: The place of each pod.
Places = Mapping[PodUid, Charge]


class ReservationCause(Enum):
    """Why a nominee has reservations."""

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
    """The pods that must be placed together.

    All that wait, for a gang whose need was not counted since its first pod was seen.
    """
    if isinstance(nominee, Gang):
        return sorted(nominee.waiting.values(), key=lambda one: one.key)[: nominee.need or None]
    return [records[nominee]]


def contender_of(nominee: Nominee, records: Mapping[PodUid, Record]) -> Contender:
    """A waiting pod or gang as a contender."""
    return contender_with(nominee, needed(nominee, records))


def contender_with(nominee: Nominee, members: Sequence[Record]) -> Contender:
    """The same with the pods that it needs, of which the machine need not have a record."""
    key = nominee.key if isinstance(nominee, Gang) else members[0].key
    return Contender(nominee, key, [record.pod for record in members])


@dataclass(slots=True, eq=False)
class Reservation:
    """The places kept for one nominee. `key`: its sort key; `name`: for texts; times in s.

    A holder that `STARVES` stays one when its places are gone, and is planned anew. One that
    `PREEMPTS` keeps its places, even when it `is_broken`, until it has another plan or none. `uids`
    are pods with places, `beside` evicted pods of whose cards more is kept than the places.
    """

    nominee: Nominee
    key: SortKey
    name: str
    cause: ReservationCause
    since: float
    planned_at: float = 0.0
    #: Which contenders outrank the holder of a preemption plan, and its pods' shapes when it was
    #: made.
    yields_to: Callable[[Contender], bool] | None = None
    shapes: Mapping[PodUid, Shape] = field(default_factory=dict)
    uids: list[PodUid] = field(default_factory=list)
    beside: list[PodUid] = field(default_factory=list)
    #: Another pod, to which it was open, took part of its places.
    is_broken: bool = False
    #: Its nodes and their cards at the time of planning.
    nodes: dict[NodeName, tuple[Node | None, tuple[Gpu, ...] | None]] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """Whether its holder starves and must be planned anew, because its places are taken."""
        return self.is_broken and self.cause is ReservationCause.STARVES

    def is_open_to(self, contender: Contender) -> bool:
        """Whether the contender may take these places."""
        if contender.nominee == self.nominee:
            return True
        if self.yields_to is not None:
            return self.yields_to(contender)
        return not self.key < contender.key


class Reservations:
    """All reservations, in the ledger too."""

    def __init__(self, ledger: Ledger, snapshots: Snapshots) -> None:
        self._ledger = ledger
        self._snapshots = ReservedSnapshots(ledger, snapshots)
        #: Those that are left out of the snapshot that is shown; to be read.
        self.open: tuple[Reservation, ...] = ()
        self._of: dict[Nominee, Reservation] = {}
        #: In queue order.
        self.holders: list[Reservation] = []
        #: How many reservations were lost or used.
        self.ended = 0

    def __bool__(self) -> bool:
        return bool(self.holders)

    def of(self, nominee: Nominee) -> Reservation | None:
        """The reservation of this gang or pod, or None."""
        return self._of.get(nominee)

    def reservation_of(self, uid: PodUid) -> Reservation | None:
        """The reservation that keeps a place, or cards, of this pod, or None."""
        return next((one for one in self.holders if uid in one.uids or uid in one.beside), None)

    def starving(self) -> Reservation | None:
        """The reservation of the starving nominee, or None."""
        return next((one for one in self.holders if one.cause is ReservationCause.STARVES), None)

    def hold(
        self, reservation: Reservation, places: Places, now: float, beside: Places | None = None
    ) -> None:
        """Keep these places for the holder, in place of its former ones.

        `beside`: by evicted pod, what is kept of its cards beside the places.
        """
        ledger, reservations = self._ledger, self._ledger.reservations
        beside = beside or {}
        kept = {**places, **beside}
        for uid in [uid for uid in (*reservation.uids, *reservation.beside) if uid not in kept]:
            ledger.dissolve(uid)
        ledger.reserve_each(
            {uid: one for uid, one in kept.items() if not _same(reservations.get(uid), one)}
        )
        reservation.uids, reservation.beside = list(places), list(beside)
        reservation.is_broken, reservation.planned_at = False, now
        reservation.nodes = {place.node: self._node(place.node) for place in places.values()}
        self._of[reservation.nominee] = reservation
        self.holders = sorted(self._of.values(), key=lambda one: one.key)

    def end(self, nominee: Nominee) -> None:
        """End a nominee's reservations, if any; the ledger wakes pods that may fit now."""
        reservation = self._of.pop(nominee, None)
        if reservation is not None:
            self._dissolve(reservation)
            self.holders.remove(reservation)
            self.ended += 1

    def replan_all(self) -> None:
        """Have every place planned anew."""
        for reservation in list(self.holders):
            if reservation.cause is ReservationCause.PREEMPTS:
                reservation.is_broken = True
            else:
                self.end(reservation.nominee)

    def changed(self, gang: Gang) -> None:
        """The gang changed: drop its places, or have them planned anew."""
        reservation = self._of.get(gang)
        if reservation is None or self._is_as_planned(reservation, gang):
            return
        if reservation.cause is ReservationCause.PREEMPTS and gang.needs_quorum:
            reservation.is_broken = True
        else:
            self.drop_places(reservation)

    def is_preemptor(self, nominee: Nominee) -> bool:
        """Whether a preemption plan is carried out for this gang or pod."""
        reservation = self._of.get(nominee)
        return reservation is not None and reservation.cause is ReservationCause.PREEMPTS

    def takes_precedence(self, contender: Contender) -> bool:
        """Whether the contender may take places that are kept from others."""
        return any(reservation.is_open_to(contender) for reservation in self.holders)

    # --- in an iteration -----------------------------------------------------------------------

    def outdated(self) -> Iterator[Reservation]:
        """Reservations with a node that changed: their places are gone."""
        for reservation in list(self.holders):
            nodes = {name: self._node(name) for name in reservation.nodes}
            if nodes == reservation.nodes:
                continue
            if reservation.cause is ReservationCause.STARVES:
                self.drop_places(reservation)
                yield reservation
                continue
            reservation.nodes = nodes
            reservation.is_broken |= not all(map(self._is_usable, reservation.uids))

    def show_without_any(self) -> None:
        """Show the cluster without any reservations."""
        self._show(self.holders)

    def show_as_seen_by(self, contender: Contender) -> Reservation | None:
        """Show the cluster without the reservations that the contender may take.

        If a holder must be tried first, returns it and shows nothing new: another pod has taken its
        places, so `drop_places` first.
        """
        found, first = self._open_to(contender)
        if first is None:
            self._show(found)
        return first

    def show_in(self, snapshots: Snapshots, contender: Contender) -> bool:
        """Show in other snapshots, those of a question, the capacity that the contender may take.

        False if a holder must be tried first.
        """
        found, first = self._open_to(contender)
        if first is None:
            ReservedSnapshots(self._ledger, snapshots).show((), _uids(found))
        return first is None

    def show_with_all(self) -> None:
        """Show the cluster with all reservations."""
        self._show(())

    def drop_lost_places(self) -> list[Reservation]:
        """Drop the places of which another pod took part; their holders must be tried again."""
        lost = [reservation for reservation in self.holders if reservation.is_lost]
        for reservation in lost:
            self.drop_places(reservation)
        return lost

    def _show(self, found: Sequence[Reservation]) -> None:
        self.open = tuple(found)
        self._snapshots.show(self.open, _uids(found))

    def _open_to(self, contender: Contender) -> tuple[list[Reservation], Reservation | None]:
        """The reservations that the contender may take, and a holder that must be tried first."""
        found = []
        for reservation in self.holders:
            if reservation.is_open_to(contender):
                found.append(reservation)
            elif reservation.is_lost:
                return found, reservation
        return found, None

    def break_under_pod(self, record: Record) -> None:
        """Break the open reservations from which a pod takes that was just placed."""
        if self.holders and record.node is not None:
            cards = record.allocation.cards if record.allocation is not None else ()
            self.break_on_cards(record.node, {card.uuid for card in cards})

    def break_on_cards(self, node: NodeName, cards: Collection[GpuUuid]) -> None:
        """Break the open reservations from which a pod takes that gets these cards of a node.

        It was just placed there, or a plan was made for it.
        """
        for reservation in self.open:
            if node in reservation.nodes:
                own = self._cards_on(node, reservation)
                if (
                    reservation.cause is ReservationCause.STARVES
                    or not own
                    or not own.isdisjoint(cards)
                ):
                    reservation.is_broken = True

    # --- inside --------------------------------------------------------------------------------

    def _node(self, name: NodeName) -> tuple[Node | None, tuple[Gpu, ...] | None]:
        row = self._ledger.columns.row_of.get(name)
        node = None if row is None else self._ledger.columns.nodes[row]
        return node, self._ledger.inventory.get(name)

    def _cards_on(self, node: NodeName, reservation: Reservation) -> set[GpuUuid]:
        """The cards of its places on a node."""
        places = (self._ledger.reservations[uid] for uid in reservation.uids)
        found = [one.allocation for one in places if one.node == node and one.allocation]
        return {card.uuid for allocation in found for card in allocation.cards}

    def _is_as_planned(self, reservation: Reservation, gang: Gang) -> bool:
        """Whether all pods of a preemption plan still wait with the same shapes."""
        if not gang.needs_quorum or gang.need != len(reservation.shapes):
            return False
        return all(
            uid in gang.waiting and gang.waiting[uid].shape == shape
            for uid, shape in reservation.shapes.items()
        )

    def _is_usable(self, uid: PodUid) -> bool:
        """Whether the node of this place is there and takes pods, and its cards are healthy."""
        place = self._ledger.reservations[uid]
        node, gpus = self._node(place.node)
        if node is None or node.unschedulable:
            return False
        healthy = {gpu.uuid for gpu in gpus or () if gpu.healthy}
        cards = place.allocation.cards if place.allocation is not None else ()
        return all(card.uuid in healthy for card in cards)

    def drop_places(self, reservation: Reservation) -> None:
        """Drop its places: it is planned anew if it starves, and ends if it preempts."""
        if reservation.cause is ReservationCause.STARVES:
            self._dissolve(reservation)
        else:
            self.end(reservation.nominee)

    def _dissolve(self, reservation: Reservation) -> None:
        for uid in (*reservation.uids, *reservation.beside):
            self._ledger.dissolve(uid)
        reservation.uids.clear()
        reservation.beside.clear()
        reservation.nodes.clear()
        reservation.is_broken = False


def _uids(reservations: Sequence[Reservation]) -> list[PodUid]:
    return [uid for one in reservations for uid in (*one.uids, *one.beside)]


def _same(before: Charge | None, place: Charge) -> bool:
    """Whether the place is the same, apart from its token."""
    if before is None or before.node != place.node or before.resources != place.resources:
        return False
    old, new = before.allocation, place.allocation
    if old is None or new is None:
        return old is new
    return old.cards == new.cards and old.claims == new.claims
