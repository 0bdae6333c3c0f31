"""Gives reservations to the first waiting pod or gang, so that smaller pods do not starve it.

A gang, or a pod that needs whole cards, may never find room while small pods take each share that
becomes free. If it has waited for some time and stands before all others like it, places are
planned for it: free ones, and ones that pods still hold. While it waits, the plan follows events.
At any time only one nominee has reservations, and only one that would fit on an empty cluster.
"""

import math
from dataclasses import dataclass
from heapq import nsmallest

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.profiles_in_use import ProfilesInUse
from kubeshare_py.scheduling.binding.iteration_budget import LOOK
from kubeshare_py.scheduling.binding.scheduler_state import Charges, Pods, Queues
from kubeshare_py.scheduling.pod_groups.gang_cycles import GangCycles
from kubeshare_py.scheduling.queue.gang_queue import CompositionQueue
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue, SortKey
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import (
    Nominee,
    Reservation,
    ReservationCause,
    contender_of,
)
from kubeshare_py.scheduling.queue.timers import Timers
from kubeshare_py.scheduling.reservations.reservation_patience import (
    ReservationPatience,
    ReservationRules,
)
from kubeshare_py.scheduling.reservations.reservation_plan import ReservationPlan, WantedReservation

#: The most nominees that are looked at, and the most plans at a time.
MAX_LOOKED_AT, MAX_PLANS = 64, 2
#: The most shape queues that one iteration looks at.
QUEUES_AT_ONCE = 500
#: A plan is kept for this time (s), and for the seconds that its members make at this rate.
PLAN_S, MEMBERS_A_SECOND = 1.0, 100

_AnyQueue = ShapeQueue | CompositionQueue


@dataclass(slots=True)
class _StarvingEntry:
    """A nominee that may get reservations. `since`: s."""

    key: SortKey
    nominee: Nominee
    name: str
    since: float


class ReservationPolicy:
    """Decides which nominee gets reservations, and when to look again."""

    def __init__(
        self,
        pods: Pods,
        queues: Queues,
        charges: Charges,
        profiles: ProfilesInUse,
        gang_cycles: GangCycles,
        rules: ReservationRules,
    ) -> None:
        self._records, self._members = pods.records, pods.gangs
        self._queue, self._gangs = queues.pods, queues.gangs
        self._ledger, self._reservations = charges.ledger, charges.reservations
        self._snapshots = profiles.snapshots
        self._plan = ReservationPlan(
            charges.ledger, profiles.calls, profiles.work, gang_cycles.places
        )
        self._after_s = rules.after_s or math.inf
        self._patience = ReservationPatience(charges.ledger, rules.patience_s)
        self._due: Timers[None] = Timers()
        self._seen = (0, 0)
        #: Until when (s) nothing is planned, because there was no way.
        self._not_before = -math.inf
        self._work = profiles.work
        self._is_due = False
        #: Shape queues still to be looked at, None if all were, and the first pods of the others.
        self._left: list[_AnyQueue] | None = None
        self._firsts: list[tuple[_StarvingEntry, _AnyQueue]] = []

    @property
    def is_due(self) -> bool:
        """Whether an iteration must look at the first nominees."""
        return self._is_due or self._left is not None

    @property
    def next_at(self) -> float:
        """When the next nominee will have waited long enough; infinity if none is waiting."""
        return self._due.next_at

    def pod_waits(self, record: Record, now: float) -> None:
        """The first pod of a shape queue was tried and does not fit."""
        if wants_whole_cards(record.pod.shape):
            self._waits(self._one(record.pod.uid, now), now)

    def gang_waits(self, gang: Gang, now: float) -> None:
        """A gang was tried and does not fit."""
        if gang.short_since is not None and any(shape.claims for _, shape in gang.shapes):
            self._waits(self._one(gang, now), now)

    def due_for_new_plan(self, now: float) -> Reservation | None:
        """The holder, if its plan is old enough to be made anew after an improvement."""
        reservation = self._reservations.starving()
        return reservation if reservation is not None and _is_old(reservation, now) else None

    def time_passed(self, now: float) -> None:
        """Look at the first nominees if one has waited long enough."""
        if self._due.due(now):
            self._is_due = True

    def look(self, now: float) -> None:
        """Give reservations to the first nominee, at the end of an iteration.

        If there are many shape queues, each iteration looks at some, until all were looked at.
        """
        self.time_passed(now)
        news = (self._reservations.ended, self._ledger.capacities)
        if self._left is None:
            if not self._is_due and news == self._seen:
                return
            self._is_due, self._seen = False, news
            if self._after_s == math.inf:
                return
            self._left = [*self._queue.unschedulable(), *self._gangs.queues()]
        if self._look_on(self._left, now):
            return
        reservation = self._patient(now)
        # Some may have got a place in the meantime.
        again = (self._waiting(queue, now) for _, queue in self._firsts)
        firsts = sorted((one for one in again if one is not None), key=lambda one: one.key)
        self._left, self._firsts = None, []
        self._give_to_first(firsts, reservation, now)

    # --- inside --------------------------------------------------------------------------------

    def _look_on(self, left: list[_AnyQueue], now: float) -> bool:
        """Look at some more queues of shapes or compositions; whether any are left."""
        queues, left[-QUEUES_AT_ONCE:] = left[-QUEUES_AT_ONCE:], []
        self._work.other += LOOK * len(queues)
        found = [(one, queue) for queue in queues if (one := self._waiting(queue, now)) is not None]
        self._firsts = nsmallest(MAX_LOOKED_AT, self._firsts + found, key=lambda pair: pair[0].key)
        return bool(left)

    def _give_to_first(
        self, firsts: list[_StarvingEntry], reservation: Reservation | None, now: float
    ) -> None:
        """Give a reservation to the first of these for which there is a plan.

        `reservation` is the one that a starving nominee holds now.
        """
        plans = 0
        for one in firsts:
            if reservation is not None and reservation.key <= one.key:
                return
            wanted = self._wanted(one.nominee)
            if not self._plan.may_ever_fit(self._snapshots.shown, wanted):
                continue
            if now < one.since + self._after_s:
                self._look_at(one.since + self._after_s)
                return
            if self._give(one, wanted, now):
                self._patient(now)
                return
            plans += 1
            if plans == MAX_PLANS:
                break
        if plans:
            self._not_before = now + self._after_s
            self._look_at(self._not_before)

    def _patient(self, now: float) -> Reservation | None:
        """The present holder; its reservations end if nothing became free for it for long."""
        reservation = self._reservations.starving()
        look_at = self._patience.look(reservation, now)
        if look_at is not None:
            self._look_at(look_at)
        elif reservation is not None and now < self._patience.cooldown_until(reservation.nominee):
            self._reservations.end(reservation.nominee)
            return None
        return reservation

    def _look_at(self, when: float) -> None:
        if when < self._due.next_at:
            self._due.add(when, None)

    def _waits(self, one: _StarvingEntry, now: float) -> None:
        reservation = self._reservations.starving()
        if reservation is None or one.key < reservation.key:
            due = one.since + self._after_s
            self._look_at(max(due, self._not_before, self._cooldown_until(one), now))
        elif reservation.nominee == one.nominee:
            self._follow(reservation, one, now)

    def _follow(self, reservation: Reservation, one: _StarvingEntry, now: float) -> None:
        """A holder was tried and does not fit: plan anew, unless its plan is recent."""
        if reservation.uids and not reservation.is_broken and not _is_old(reservation, now):
            return
        reservation.key = one.key
        places = self._plan.places(self._snapshots.shown, self._wanted(one.nominee))
        if places:
            self._reservations.hold(reservation, places, now)
        else:
            self._reservations.end(one.nominee)

    def _give(self, one: _StarvingEntry, wanted: WantedReservation, now: float) -> bool:
        """Plan as if no nominee behind it had reservations; if there is no way, they are kept."""
        lost = self._reservations.show_to(contender_of(one.nominee, self._records))
        if lost is not None:
            self._reservations.lose(lost)
        places = self._plan.places(self._snapshots.shown, wanted)
        if places:
            before = self._reservations.starving()
            if before is not None:
                self._reservations.end(before.nominee)
            reservation = Reservation(one.nominee, one.key, one.name, ReservationCause.STARVES, now)
            self._reservations.hold(reservation, places, now)
        self._reservations.show_all()
        return bool(places)

    def _waiting(self, queue: _AnyQueue, now: float) -> _StarvingEntry | None:
        """The first nominee of a queue, if it may get a reservation and has none."""
        one = self._unschedulable(queue, now)
        if one is None:
            return None
        reservation, cooldown_until = self._reservations.of(one.nominee), self._cooldown_until(one)
        if now < cooldown_until:
            self._look_at(cooldown_until)
            return None
        return one if reservation is None or reservation.cause is ReservationCause.STARVES else None

    def _cooldown_until(self, one: _StarvingEntry) -> float:
        return self._patience.cooldown_until(one.nominee)

    def _unschedulable(self, queue: _AnyQueue, now: float) -> _StarvingEntry | None:
        """The first of a queue that waits for room, if it needs whole cards or is a gang."""
        if isinstance(queue, ShapeQueue):
            waits = queue.unschedulable and wants_whole_cards(queue.shape)
            head = queue.head() if waits else None
            return None if head is None else self._one(head[1], now)
        if queue.shortage is None or not any(shape.claims for _, shape in queue.shapes):
            return None
        gang = min(queue.gangs, key=lambda gang: gang.key, default=None)
        if gang is None or gang.short_since is None or self._gangs.queue_of(gang) is not queue:
            return None
        return self._one(gang, now)

    def _one(self, nominee: Nominee, now: float) -> _StarvingEntry:
        if isinstance(nominee, Gang):
            name = f'pod group "{nominee.namespace}/{nominee.name}"'
            since = now if nominee.short_since is None else nominee.short_since
            return _StarvingEntry(nominee.key, nominee, name, since)
        record = self._records[nominee]
        since = now if record.queued_at is None else record.queued_at
        return _StarvingEntry(record.key, nominee, f"pod {record.pod.key}", since)

    def _wanted(self, nominee: Nominee) -> WantedReservation:
        if isinstance(nominee, Gang):
            gang, members = nominee, sorted(nominee.waiting.values(), key=lambda one: one.key)
            return WantedReservation(members, gang.need, True, gang.within, gang.nodes())
        record, of = self._records[nominee], self._members.of(nominee)
        group = record.pod.group
        if of is None or group is None:
            return WantedReservation([record], 1)
        return WantedReservation([record], 1, within=group.within, nodes=of.nodes())


def _is_old(reservation: Reservation, now: float) -> bool:
    return now >= reservation.planned_at + max(PLAN_S, len(reservation.uids) / MEMBERS_A_SECOND)


def wants_whole_cards(shape: Shape) -> bool:
    """Whether small pods could for ever take what such a pod needs."""
    return len(shape.claims) > 1 or any(
        claim.exclusive or claim.count > 1 or claim.milli >= WHOLE_MILLI for claim in shape.claims
    )
