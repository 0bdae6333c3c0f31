"""Gives reservations to the first waiting pod or gang, so that smaller pods do not starve it.

Places are planned (`ReservationPlanner`), kept from others during an iteration, and given up after
some time without progress.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

import numpy as np

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginCalls
from kubeshare_py.framework.prepared_plugins import EvaluationWork
from kubeshare_py.framework.result_cache import Choice
from kubeshare_py.framework.snapshot import Snapshot, Trial
from kubeshare_py.scheduling.iteration_budget import LOOK, IterationBudget
from kubeshare_py.scheduling.pod_groups.gang_places import (
    GangPlaces,
    ProfileShape,
    kind_of,
    models_for,
    narrowed_all,
)
from kubeshare_py.scheduling.pod_groups.gang_plan import ROWS_A_PLACEMENT
from kubeshare_py.scheduling.queue.gang_queue import CompositionQueue
from kubeshare_py.scheduling.queue.gangs import Gang, Shapes
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue, SortKey
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import (
    Nominee,
    Reservation,
    ReservationCause,
    contender_of,
)
from kubeshare_py.scheduling.queue.timers import Timers
from kubeshare_py.scheduling.state import State

# Plans places for pods that fit nowhere now, which they would get once some pods with cards end.
#
# No pod is evicted. Nodes with the least use come first, and on each node the cards with the least
# use, so that little has to end. In a trial of the cluster, tenants are removed one by one until a
# member fits. Members that need cards of one model, or one domain, are planned where most of them
# fit already.


#: The most tenants that one plan removes, about 60 µs each.
MAX_REMOVED = 1000


@dataclass(frozen=True, slots=True)
class WantedReservation:
    """Places for `need` of these pods, which are a gang or wait each on its own.

    `within` is the label of the domain that all must share, together with those on `nodes`.
    """

    members: Sequence[Record]
    need: int
    is_gang: bool = False
    within: str = ""
    nodes: Sequence[NodeName] = ()


@dataclass(frozen=True, slots=True)
class _ReservationOption:
    """One model ("" for any) and one domain (rows, or None for all) that could hold all."""

    model: str
    rows: IntArray | None
    kinds: Shapes
    #: An upper bound of how many would fit on an empty cluster.
    if_empty: int


@dataclass(slots=True)
class _Try:
    """What one plan has tried so far."""

    option: _ReservationOption
    trial: Trial
    places: dict[PodUid, Charge] = field(default_factory=dict)
    removed: dict[PodUid, None] = field(default_factory=dict)
    #: For each kind of member, the tenants that could be removed next.
    tenants: dict[ProfileShape, Iterator[tuple[int, PodUid]]] = field(default_factory=dict)


class ReservationPlan:
    """Plans in trials of a snapshot of the cluster."""

    def __init__(
        self, ledger: Ledger, calls: PluginCalls, work: EvaluationWork, gang_places: GangPlaces
    ) -> None:
        self._ledger = ledger
        self._calls = calls
        self._work = work
        self._gang_places = gang_places

    def may_ever_fit(self, snapshot: Snapshot, wanted: WantedReservation) -> bool:
        """False only if not even an empty cluster would hold as many as are needed."""
        return next(self._options(snapshot, wanted), None) is not None

    def places(self, snapshot: Snapshot, wanted: WantedReservation) -> dict[PodUid, Charge]:
        """Places for as many members as are needed; empty if there is no way.

        Fewer where very many tenants hold the cards: a later plan, when some ended, has more.
        """
        in_vain = 0
        for option in self._best_first(snapshot, wanted):
            attempt = _Try(option, snapshot.trial())
            permitted = self._place(wanted, attempt)
            complete = len(attempt.places) == wanted.need or len(attempt.removed) >= MAX_REMOVED
            if permitted and complete:
                return attempt.places
            in_vain += len(attempt.places) + len(attempt.removed)
            if in_vain >= MAX_REMOVED:
                break
        return {}

    def _options(
        self, snapshot: Snapshot, wanted: WantedReservation
    ) -> Iterator[_ReservationOption]:
        """The models and domains that could hold all members that are needed."""
        shapes = Counter((one.pod.scheduler_name, one.shape) for one in wanted.members)
        # A pod that waits on its own is tried as it is.
        models = models_for(shapes, self._ledger.columns.model_names) if wanted.is_gang else ("",)
        places: list[IntArray] | list[None] = [None]
        if wanted.within:
            places = self._gang_places.each(wanted.within, self._gang_places.rows_of(wanted.nodes))
        for model in models:
            kinds = narrowed_all(shapes, model)
            rooms = {kind: snapshot.rooms[kind[0]].if_empty(kind[1]) for kind in kinds}
            for rows in places:
                fitting = _fitting(kinds, rooms, rows)
                if fitting >= wanted.need:
                    yield _ReservationOption(model, rows, kinds, fitting)

    def _best_first(
        self, snapshot: Snapshot, wanted: WantedReservation
    ) -> list[_ReservationOption]:
        """First where most fit now, then where most have reservations already, to keep these."""
        options = list(self._options(snapshot, wanted))
        if len(options) <= 1:
            return options
        reservations = self._ledger.reservations
        mine = [reservations[one.pod.uid] for one in wanted.members if one.pod.uid in reservations]

        def merit(option: _ReservationOption) -> tuple[int, int, int]:
            rooms = {kind: snapshot.rooms[kind[0]].rows(kind[1]) for kind in option.kinds}
            kept = sum(self._is_in(option, charge) for charge in mine)
            return -_fitting(option.kinds, rooms, option.rows), -kept, -option.if_empty

        return sorted(options, key=merit)

    def _is_in(self, option: _ReservationOption, charge: Charge) -> bool:
        cards = charge.allocation.cards if charge.allocation is not None else ()
        if option.model and any(card.model != option.model for card in cards):
            return False
        row = self._ledger.columns.row_of.get(charge.node)
        return option.rows is None or row in option.rows.tolist()

    def _place(self, wanted: WantedReservation, attempt: _Try) -> bool:
        """Find places for members; False if a plugin refuses one of them."""
        full: set[ProfileShape] = set()
        for record in wanted.members:
            if len(attempt.places) == wanted.need:
                break
            kind = kind_of(record, attempt.option.model)
            if kind in full:
                continue
            choice = self._choice(kind, attempt) or self._make_room(kind, attempt)
            if choice is None:
                full.add(kind)
                continue
            place = self._permitted(record, choice, attempt.trial)
            if place is None:
                return False
            attempt.places[record.pod.uid] = place
            self._work.rows += ROWS_A_PLACEMENT
        return True

    def _permitted(self, record: Record, choice: Choice, trial: Trial) -> Charge | None:
        """The place, tried; None if a plugin or the ledger would refuse it."""
        place = trial.charge_at(choice, record.shape, record.pod.placed)
        if self._calls.permit(record.pod, place.node) is not None:
            return None
        if trial.refusal(choice, place) is not None:
            trial.evaluators[record.pod.scheduler_name].add_ledger_filter()
            return None
        trial.place(choice, place)
        return place

    def _choice(self, kind: ProfileShape, attempt: _Try) -> Choice | None:
        (profile, shape), rows = kind, attempt.option.rows
        evaluator = attempt.trial.evaluators[profile]
        return evaluator.best(shape) if rows is None else evaluator.best_among(shape, rows)

    def _make_room(self, kind: ProfileShape, attempt: _Try) -> Choice | None:
        """Remove tenants until the shape fits somewhere."""
        profile, shape = kind
        evaluator = attempt.trial.evaluators[profile]
        tenants = attempt.tenants.get(kind)
        if tenants is None:
            tenants = attempt.tenants[kind] = self._tenants(kind, attempt)
        for row, uid in tenants:
            if uid in attempt.removed:
                continue
            if len(attempt.removed) >= MAX_REMOVED:
                return None
            attempt.trial.remove(self._ledger.charges_on_row(row)[uid])
            attempt.removed[uid] = None
            if evaluator.row_scores(shape).item(row) >= 0:
                choice = self._choice(kind, attempt)
                if choice is not None:
                    return choice
        return None

    def _tenants(self, kind: ProfileShape, attempt: _Try) -> Iterator[tuple[int, PodUid]]:
        """Pods with cards and their rows, in the order in which to remove them."""
        (profile, shape), among = kind, attempt.option.rows
        columns = attempt.trial.tables.columns
        rows = np.flatnonzero(attempt.trial.rooms[profile].if_empty(shape))
        if among is not None:
            rows = rows[np.isin(rows, among)]
        used = columns.gpu_capacity_milli[rows] - columns.gpu_free_milli[rows]
        for row in rows[np.argsort(used, kind="stable")].tolist():
            yield from ((row, uid) for uid in self._tenants_on(row, columns))

    def _tenants_on(self, row: int, columns: Columns) -> list[PodUid]:
        free = dict(zip(columns.uuids[row], columns.free_milli[row].tolist(), strict=False))
        found = []
        for uid, charge in self._ledger.charges_on_row(row).items():
            cards = charge.allocation.cards if charge.allocation else ()
            there = [(free[card.uuid], card.uuid) for card in cards if card.uuid in free]
            if there:
                fullest = min(there)
                found.append((-fullest[0], fullest[1], uid))
        return [uid for _, _, uid in sorted(found)]


def _fitting(kinds: Shapes, rooms: Mapping[ProfileShape, IntArray], rows: IntArray | None) -> int:
    """An upper bound of how many pods of these kinds fit on these rows, or on all."""
    return sum(
        min(count, int((rooms[kind] if rows is None else rooms[kind].take(rows)).sum()))
        for kind, count in kinds.items()
    )


# Limits how long capacity is reserved for a pod or gang when none becomes free.
#
# The planned places may be held by pods that never end, and the rest of the cluster must not idle
# for that. After some time without progress the reservations end, and the nominee gets none for as
# long, then for twice as long, and so on.


#: The most doublings of the time without reservations.
MAX_DOUBLED = 6


@dataclass(frozen=True, slots=True)
class ReservationRules:
    """A pod or gang that has waited for `after_s` may get reservations; with 0 none ever does.

    They end if none of its places became free within `patience_s`; with 0 they never do. Both in
    seconds.
    """

    after_s: float = 60.0
    patience_s: float = 3600.0


def reservation_rules(configuration: SchedulerConfiguration) -> ReservationRules:
    """The rules of a configuration."""
    return ReservationRules(
        configuration.reservation_seconds, configuration.reservation_patience_seconds
    )


@dataclass(slots=True)
class _CoolDown:
    """`until` (s), and how many times the nominee's reservations ended so far."""

    until: float
    times: int


class ReservationPatience:
    """Watches the starving holder of reservations."""

    def __init__(self, ledger: Ledger, patience_s: float) -> None:
        self._ledger = ledger
        self._patience_s = patience_s
        self._holder: Reservation | None = None
        self._look_at = 0.0
        self._ready = 0
        self._rests: dict[Nominee, _CoolDown] = {}

    def look(self, reservation: Reservation | None, now: float) -> float | None:
        """When (s) to check the present holder again; None if not at all.

        If the holder has shown no progress, `cooldown_until` is then in the
        future.
        """
        if reservation is None or not self._patience_s:
            self._holder = None
            return None
        if self._holder is not reservation:
            self._holder, self._ready = reservation, self._places_ready(reservation)
            self._look_at = now + self._patience_s
        elif now >= self._look_at:
            ready = self._places_ready(reservation)
            if ready <= self._ready:
                self._give_up(reservation.nominee, now)
                return None
            self._ready, self._look_at = ready, now + self._patience_s
        return self._look_at

    def cooldown_until(self, nominee: Nominee) -> float:
        """The time (s) before which the nominee gets no reservations again."""
        rest = self._rests.get(nominee)
        return 0.0 if rest is None else rest.until

    def _give_up(self, nominee: Nominee, now: float) -> None:
        self._holder = None
        before = self._rests.pop(nominee, None)
        times = 1 if before is None else before.times + 1
        longest = self._patience_s * 2.0**MAX_DOUBLED
        # A nominee whose rest ended long ago is forgotten.
        self._rests = {one: rest for one, rest in self._rests.items() if now < rest.until + longest}
        until = now + self._patience_s * 2.0 ** min(times - 1, MAX_DOUBLED)
        self._rests[nominee] = _CoolDown(until, times)

    def _places_ready(self, reservation: Reservation) -> int:
        """How many of its places no other pod holds anything of."""
        return sum(self._is_ready(uid) for uid in reservation.uids)

    def _is_ready(self, uid: PodUid) -> bool:
        columns, place = self._ledger.columns, self._ledger.reservations[uid]
        row = columns.row_of[place.node]
        if (columns.free[row] < 0).any():
            return False
        cards = () if place.allocation is None else place.allocation.cards
        for card in cards:
            if card.uuid not in columns.uuids[row]:
                return False
            slot = columns.uuids[row].index(card.uuid)
            free = columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)
            others = columns.tenants.item(row, slot) - columns.reservations.item(row, slot)
            if min(free) < 0 or (others and columns.exclusive.item(row, slot)):
                return False
        return True


# Gives reservations to the first waiting pod or gang, so that smaller pods do not starve it.
#
# A gang, or a pod that needs whole cards, may never find room while small pods take each share that
# becomes free. If it has waited for some time and stands before all others like it, places are
# planned for it: free ones, and ones that pods still hold. While it waits, the plan follows events.
# At any time only one nominee has reservations, and only one that would fit on an empty cluster.


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

    def __init__(self, state: State, places: GangPlaces, rules: ReservationRules) -> None:
        self._records, self._members = state.records, state.gangs
        self._queue, self._gangs = state.queue, state.gang_queue
        self._ledger, self._reservations = state.ledger, state.reservations
        in_use = state.profiles
        self._snapshots, self._work = in_use.snapshots, in_use.work
        self._plan = ReservationPlan(state.ledger, in_use.calls, in_use.work, places)
        self._after_s = rules.after_s or math.inf
        self._patience = ReservationPatience(state.ledger, rules.patience_s)
        self._due: Timers[None] = Timers(state.alarms)
        self._seen = (0, 0)
        #: Until when (s) nothing is planned, because there was no way.
        self._not_before = -math.inf
        self._is_due = False
        #: Shape queues still to be looked at, None if all were, and the first pods of the others.
        self._left: list[_AnyQueue] | None = None
        self._firsts: list[tuple[_StarvingEntry, _AnyQueue]] = []

    @property
    def is_due(self) -> bool:
        """Whether an iteration must look at the first nominees."""
        return self._is_due or self._left is not None

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
        if self._due.alarm.at <= now:
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
        if when < self._due.alarm.at:
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
        lost = self._reservations.show_as_seen_by(contender_of(one.nominee, self._records))
        if lost is not None:
            self._reservations.drop_places(lost)
        places = self._plan.places(self._snapshots.shown, wanted)
        if places:
            before = self._reservations.starving()
            if before is not None:
                self._reservations.end(before.nominee)
            reservation = Reservation(one.nominee, one.key, one.name, ReservationCause.STARVES, now)
            self._reservations.hold(reservation, places, now)
        self._reservations.show_with_all()
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


# Reservations during an iteration: each nominee sees the places that it may take.
#
# A holder whose places another pod has taken is tried before the nominees behind it.
#
# Between iterations all reservations are shown.


class ReservationIterations:
    """Shows and hides reserved places, and wakes the nominees whose reservations changed."""

    def __init__(self, state: State, policy: ReservationPolicy, budget: IterationBudget) -> None:
        self._records, self._moves = state.records, state.moves
        self._pod_queue, self._gang_queue = state.queue, state.gang_queue
        self._ledger, self._reservations = state.ledger, state.reservations
        self._policy, self._budget = policy, budget
        self._capacities = 0

    @property
    def is_due(self) -> bool:
        """Whether an iteration must check reservations, or look at the first nominees."""
        if self._policy.is_due:
            return True
        return bool(self._reservations.holders) and self._capacities != self._ledger.capacities

    def begin(self, now: float) -> None:
        """Check reservations, and look at unschedulable shape queues as if there were none."""
        if not self._reservations.holders:
            return
        if self._ledger.capacities != self._capacities:
            self._capacities = self._ledger.capacities
            for reservation in self._reservations.outdated():
                self._wake(reservation)
        if self._budget.sweeps:
            holder = self._policy.due_for_new_plan(now)
            if holder is not None:
                self._wake(holder)
            self._reservations.show_without_any()

    def gives_way(self, nominee: Nominee) -> bool:
        """Show the cluster as the nominee may see it; True if a holder was woken to go first."""
        if not self._reservations.holders:
            if self._reservations.open:
                self._reservations.show_with_all()
            return False
        reservation = self._reservations.show_as_seen_by(contender_of(nominee, self._records))
        if reservation is not None:
            self._reservations.drop_places(reservation)
            self._wake(reservation)
        return reservation is not None

    def does_not_fit(self, nominee: Nominee, now: float) -> None:
        """A gang, or the first pod of a shape queue, was tried and does not fit."""
        if isinstance(nominee, Gang):
            self._policy.gang_waits(nominee, now)
        else:
            self._policy.pod_waits(self._records[nominee], now)

    def end(self, now: float) -> None:
        """Show all reservations, and give some to a starving nominee."""
        if self._reservations.holders or self._reservations.open:
            self._reservations.show_with_all()
            for reservation in self._reservations.drop_lost_places():
                self._wake(reservation)
        self._policy.look(now)

    def _wake(self, reservation: Reservation) -> None:
        """Wake the nominee of a reservation."""
        nominee = reservation.nominee
        if isinstance(nominee, Gang):
            queue = self._gang_queue.queue_of(nominee)
            if queue is not None:
                self._moves.woken(sum(len(gang.waiting) for gang in queue.gangs))
                self._gang_queue.activate(queue)
        else:
            shape_queue = self._pod_queue.queue_of(nominee)
            if shape_queue is not None and shape_queue.unschedulable:
                self._moves.woken(len(shape_queue.waiting))
                self._pod_queue.activate(shape_queue)
