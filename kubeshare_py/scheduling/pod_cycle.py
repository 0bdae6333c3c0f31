"""The way of one pod from its turn in the queue to the answer to its Binding, top to bottom.

`PodCycles` finds a place for the first pod of a shape queue, `Assumer` works out what the pod gets
there and charges it, `BindingCycles` commits it: the Bind is sent, at once or once `pre_bind` is
done with the pod, and answered, sent again while its outcome is unknown, or undone. Gangs and
extenders take the same way from `Assumer.place` on.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple, Protocol, assert_never

from kubeshare_py.cluster.charge import (
    NO_SUCH_CARD,
    REFUSES,
    Charge,
    card_charges,
    claim_charges,
    refusal,
    with_names,
)
from kubeshare_py.cluster.overlay import Tables
from kubeshare_py.cluster.rows import OneRow
from kubeshare_py.domain.allocation import (
    MAX_OWNERS,
    Allocation,
    CardCharge,
    ClaimCharge,
    common_limit,
    summed,
)
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Bind, Effect, ReportScheduled
from kubeshare_py.domain.events import (
    OF_ONE_TRY,
    BindAnswered,
    BindRefused,
    BindUnknown,
    Bound,
    Refusal,
)
from kubeshare_py.domain.gpu_capacities import Capacities
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.node import NO_AGENT, NodeAtDecision
from kubeshare_py.domain.pod import PlacedPod, Pod, Shape
from kubeshare_py.domain.request import ContainerClaim, GpuRequest, GuestContainer
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.result_cache import Choice
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.enqueue import Enqueuer, report_waiting
from kubeshare_py.scheduling.pre_bind import NotCommitted, PreBindCycles, lack_of
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import PodState, Record, count
from kubeshare_py.scheduling.queue.reservations import Nominee
from kubeshare_py.scheduling.queue.timers import Timers, backoff_s
from kubeshare_py.scheduling.state import State

# The scheduling cycle of one pod: the first of its shape queue, which stands for the others.


class Outcome(Enum):
    """How a scheduling cycle ended."""

    PLACED = auto()
    REFUSED = auto()  # by a plugin or the ledger: the pod is in backoff
    UNFINISHED = auto()  # a plugin has yet to look at some nodes: the pod is asked about again
    STALE = auto()  # other pods' terms select the pod now, or no longer: its shape is another one
    UNREAD = auto()  # the inventory is not known: the shape queue waits for it
    CONSTRAINED = auto()  # no room in the domain that the shape queue is tied to
    UNSCHEDULABLE = auto()  # no node fits


# Python 3.11 takes 0.15 us to look up a member of an Enum, and each pod passes here.
_PLACED = Outcome.PLACED
_ASSUMED, _NONE = PodState.ASSUMED, IsolationBackend.NONE


#: The end of a scheduling cycle, and its effects in order.
Decided = tuple[Outcome, Sequence[Effect]]


class GangAdvice(Protocol):
    """What gangs say about a single pod. A pod without a gang is placed without asking them."""

    def nearer(self, record: Record, choice: Choice) -> Choice | str:
        """The place for a gang's member, near the others; a sentence if there is none."""

    def one_placed(self, shape: Shape, now: float) -> None:
        """A pod of this shape was placed, which may fix the model of a gang's other members."""

    def late_member_waits(self, shape_queue: ShapeQueue, record: Record) -> None:
        """The first pod of a shape queue that is tied to a gang's domain does not fit there."""


class PodCycles:
    """Places pods, or marks their shape queues unschedulable."""

    def __init__(
        self,
        state: State,
        enqueuer: Enqueuer,
        assumer: "Assumer",
        pre_binds: PreBindCycles,
        binding_cycles: "BindingCycles",
        gang_advice: GangAdvice,
    ) -> None:
        self._queue, self._moves, self._attempts = state.queue, state.moves, state.attempts
        self._records, self._reservations = state.records, state.reservations
        self._quotas, self._snapshots = state.charges.quotas, state.profiles.snapshots
        self._reports = state.reports
        self._enqueuer, self._assumer = enqueuer, assumer
        self._binding_cycles, self._pre_binds = binding_cycles, pre_binds
        self._gangs, self._gang_advice = state.gangs, gang_advice

    def run(
        self, uid: PodUid, shape_queue: ShapeQueue, now: float, *, inventory_read: bool
    ) -> Decided:
        """Place this pod, the first of the shape queue, or find out why there is no place."""
        record = self._records[uid]
        if self._enqueuer.became_stale(record):
            # It waits in the queue of another shape from now on, which is tried in its turn.
            effects = self._enqueuer.enqueue(record, now, pod_records.FORCE_ACTIVATE)
            return Outcome.STALE, effects
        record.attempts += 1
        shape, profile = shape_queue.key.shape, shape_queue.key.profile
        if shape.claims and not inventory_read:
            self._mark_unschedulable(shape_queue, now)
            self._reports.await_inventory(shape_queue, now)
            return Outcome.UNREAD, ()
        request = record.pod.request
        if record.pre_binds or (request is not None and request.quota is not None):
            kept_out = self._kept_out(record, now)
            if kept_out is not None:
                return Outcome.REFUSED, kept_out
        # Without the reservations that this pod may take: `ReservationIterations.gives_way` chose
        # what is shown. The charge below is checked against the same tables.
        snapshot = self._snapshots.shown
        choice, why = snapshot.evaluators[profile].best(shape), None
        if choice is not None and record.gang_owners is not None:
            nearer = self._gang_advice.nearer(record, choice)
            choice, why = (None, nearer) if isinstance(nearer, str) else (nearer, None)
        if choice is None:
            return self._does_not_fit(shape_queue, record, why, now), ()
        refusal = self._assumer.place(record, choice, snapshot.tables)
        if refusal is not None:
            return Outcome.REFUSED, self._refused(record, refusal, now)
        record.flushed = shape_queue.flushed
        committed = self._binding_cycles.commit(uid, [record], now)
        outcome = _PLACED
        if isinstance(committed, NotCommitted):
            outcome, committed = Outcome.REFUSED, self._taken_back(record, committed, now)
        elif self._gangs.by_key:
            self._gang_advice.one_placed(shape, now)
        return outcome, committed

    # --- inside --------------------------------------------------------------------------------

    def _kept_out(self, record: Record, now: float) -> list[Effect] | None:
        """The effects if a quota or full PreBind plugins keep the pod from any place; else None."""
        over = self._quotas.refusal(record.pod)
        if over is not None:
            return self._refused(record, over, now)
        full = self._pre_binds.full_for([record]) if record.pre_binds else None
        return None if full is None else self._held(record, full)

    def _taken_back(self, record: Record, why: NotCommitted, now: float) -> list[Effect]:
        """The charge of a pod was taken back before its Binding."""
        if why.is_full:
            return self._held(record, why)
        return self._refused(record, why.sentence, now)

    def _held(self, record: Record, full: NotCommitted) -> list[Effect]:
        """Too many placements wait for PreBind plugins: the pod leaves the queue for a while."""
        self._reservations.end(record.pod.uid)
        count(self._attempts.unschedulable, record.pod.scheduler_name)
        return self._pre_binds.hold([record], full.sentence)

    def _refused(self, record: Record, refusal: str, now: float) -> list[Effect]:
        """A plugin or the ledger refuses the place: the pod is tried again after a while.

        It keeps its reservations only if other pods were evicted for it.
        """
        uid = record.pod.uid
        if not self._reservations.is_preemptor(uid):
            self._reservations.end(uid)
        count(self._attempts.unschedulable, record.pod.scheduler_name)
        effects = report_waiting(record, refusal, WaitingReason.SCHEDULER_ERROR)
        self._enqueuer.back_off(record, now)
        return effects

    def _does_not_fit(
        self, shape_queue: ShapeQueue, record: Record, why: str | None, now: float
    ) -> Outcome:
        """Mark a shape queue unschedulable; `why` if the reason is not lack of room.

        A plugin that has yet to look at some nodes is asked again in the namespace's next turn.
        """
        evaluator = self._snapshots.shown.evaluators[shape_queue.profile]
        if why is None and evaluator.is_unfinished(shape_queue.shape):
            return Outcome.UNFINISHED
        self._mark_unschedulable(shape_queue, now)
        if shape_queue.place_of is not None:
            self._gang_advice.late_member_waits(shape_queue, record)
        if why is not None:
            self._reports.constrained(shape_queue, why, now)
            return Outcome.CONSTRAINED
        self._reports.unschedulable(shape_queue, evaluator, now)
        return Outcome.UNSCHEDULABLE

    def _mark_unschedulable(self, shape_queue: ShapeQueue, now: float) -> None:
        count(self._attempts.unschedulable, shape_queue.profile)
        self._moves.entered(
            pod_records.UNSCHEDULABLE, pod_records.ATTEMPT_FAILURE, len(shape_queue.waiting)
        )
        self._queue.mark_unschedulable(shape_queue, now)


# One placement: its allocation, charged in the ledger and shown to plugins, or undone.


class Assumer:
    """Charges a pod to its place, or says why not. `name` makes its decision tokens unique.

    The pod's state stays as it is until `BindingCycles.commit`.
    """

    def __init__(self, state: State, name: str) -> None:
        self._ledger, self._charges = state.ledger, state.charges
        in_use = state.profiles
        self._calls, self._profiles = in_use.calls, in_use.profiles
        self._evaluators = in_use.evaluators
        self._name = name
        self._decisions = 0

    def place(
        self,
        record: Record,
        choice: Choice,
        tables: Tables,
        cards: tuple[CardCharge, ...] | None = None,
    ) -> str | None:
        """Charge the pod to its place, which is free in `tables`.

        `cards` is what it takes of them, if that was worked out before.
        Returns a sentence instead if a plugin refuses it, or if the ledger refuses because it takes
        more than is free; the ledger's rule then becomes one of the profile's filters.
        """
        pod, columns = record.pod, self._ledger.columns
        node = columns.names[choice.row]
        assert node is not None
        if self._profiles[pod.scheduler_name].permits:
            forbidden = self._calls.permit(pod, node)
            if forbidden is not None:
                return forbidden
        shape = record.shape
        allocation = self._allocation(record, shape, choice, node, cards)
        if pod.request is not None and pod.request.quota is not None:
            over = self._charges.quotas.refusal(pod, allocation)
            if over is not None:
                return over
        lack: str | None = NO_SUCH_CARD
        if allocation is not None:
            resources, port = shape.resources, shape.needs_port
            lack = refusal(tables.columns, choice.row, resources, allocation, port)
        if lack is not None:
            # The plugins said that it fits here: one is wrong, or missing in the profile. Without
            # the ledger's rule among its filters they would choose this row in each attempt.
            self._evaluators[pod.scheduler_name].add_ledger_filter()
            return f"{REFUSES}{lack}"
        placed = pod.placed
        if placed.volumes is not None or pod.shape.device_claims is not None:
            placed, lack = self._with_volumes(pod, placed, choice.row)
            if lack is not None:
                return lack
        problem = self._charges.charge(record, node, allocation, placed)
        if problem is not None:
            # As in kube-scheduler, `unreserve` is called of all Reserve plugins, also of the one
            # that failed: it may have noted something before.
            self._charges.undo(record)
        return problem

    def place_each(
        self, places: Sequence[tuple[Record, Choice, tuple[CardCharge, ...]]], tables: Tables
    ) -> bool:
        """Charge pods to their places at once, each with what it takes of the cards there.

        False, and nothing is charged, if that is not certain to be as if `place` were called for
        each: then it must be called.
        """
        if not all(self._is_plain(record) for record, _, _ in places):
            return False
        decisions, columns = self._decisions, self._ledger.columns
        charges: list[tuple[Record, Charge]] = []
        for record, choice, cards in places:
            node = columns.names[choice.row]
            assert node is not None
            allocation = self._allocation(record, record.shape, choice, node, cards)
            if allocation is None or (allocation.port is None and record.shape.needs_port):
                break
            if allocation.port is not None:
                self._ledger.take_port(node, allocation.port)
            pod = record.pod
            charges.append((record, Charge(node, pod.shape.charged, allocation, pod.placed)))
        if len(charges) == len(places) and self._charges.charge_each(tables.columns, charges):
            return True
        self._decisions = decisions
        for _, charge in reversed(charges):
            if charge.allocation is not None and charge.allocation.port is not None:
                self._ledger.undo_take_port(charge.node, charge.allocation.port)
        return False

    def _is_plain(self, record: Record) -> bool:
        """Whether no plugin, quota, volume or device claim has a say about a placement."""
        pod, shape = record.pod, record.pod.shape
        profile = self._profiles[pod.scheduler_name]
        if profile.permits or profile.reserves:
            return False
        if pod.request is not None and pod.request.quota is not None:
            return False
        return shape.volumes is None and shape.device_claims is None

    def _with_volumes(self, pod: Pod, placed: PlacedPod, row: int) -> tuple[PlacedPod, str | None]:
        """What is placed with the volumes that its claims are to get; why nothing provides them."""
        if placed.volumes is not None:
            placed = OneRow(self._ledger.columns, row).volumes.with_choice(placed)
        return placed, lack_of(pod, placed.choice, self._profiles[pod.scheduler_name])

    def node_of(self, record: Record, now: float) -> NodeAtDecision:
        """What the node of a charged pod has `now` (s)."""
        columns, name = self._ledger.columns, record.node
        assert name is not None
        request = record.pod.request
        node = columns.nodes[columns.row_of[name]] if name in columns.row_of else None
        return NodeAtDecision(
            name=name,
            cards=self._ledger.inventory.get(name, ()),
            allocatable=() if node is None else node.allocatable,
            at=now,
            notes=() if request is None else request.notes,
            agent=NO_AGENT if node is None else node.agent,
        )

    def _allocation(
        self,
        record: Record,
        shape: Shape,
        choice: Choice,
        node: NodeName,
        cards: tuple[CardCharge, ...] | None,
    ) -> Allocation | None:
        """The pod's allocation; None if a plugin chose an empty slot."""
        columns, pod = self._ledger.columns, record.pod
        count = len(columns.uuids[choice.row]) if choice.slots else 0
        for slot in choice.slots:
            if slot >= count:
                return None
        self._decisions += 1
        request, group = pod.request, pod.group
        claims: tuple[ClaimCharge, ...] = ()
        if request is not None and request.claims[0].container is not None:
            claims = self._claims(request, self._profiles[pod.scheduler_name], shape, choice)
        if claims:
            cards = summed(card for claim in claims for card in claim.cards)
        elif cards is None and not shape.claims:
            cards = ()
        elif cards is None:
            cells = self._ledger.cells_on(choice.row)
            cards = card_charges(columns, choice.row, choice.slots, shape.claims, cells)
        # Only a claim that is alone names its card.
        if shape.claims and shape.claims[0].is_named:
            cards = with_names(columns, choice.row, choice.slots, cards, pod.key.namespace)
        isolation = None
        if shape.isolation is not _NONE:  # as its profile chose when the pod was enqueued
            isolation = self._isolation(pod, shape.isolation, cards, claims)
        return Allocation(
            token=DecisionToken(f"{self._name}-{self._decisions}"),
            dialect="" if request is None else request.dialect,
            cards=cards,
            claims=claims,
            port=self._ledger.next_port(node) if shape.needs_port else None,
            group=group.name if group else None,
            min_available=group.min_available if group else 0,
            group_owners=_group_owners(record) if group else (),
            isolation=isolation,
        )

    def _claims(
        self, request: GpuRequest, profile: Profile, shape: Shape, choice: Choice
    ) -> tuple[ClaimCharge, ...]:
        """What each of the pod's containers gets, whose claims are not of the whole pod."""
        row, cells = choice.row, self._ledger.cells_on(choice.row)
        found = claim_charges(self._ledger.columns, row, choice.slots, shape.claims, cells)
        charges = tuple(
            ClaimCharge(
                container=one.container,
                cards=cards,
                limit_milli=_limit(one, cards, profile.capacities),
            )
            for one, cards in zip(request.claims, found, strict=True)
            if one.container is not None
        )
        return charges + _of_guests(request.guests, charges)

    def _isolation(
        self,
        pod: Pod,
        backend: IsolationBackend,
        cards: Sequence[CardCharge],
        claims: Sequence[ClaimCharge],
    ) -> Isolation:
        """What enforces its share, which is of one card at least."""
        profile = self._profiles[pod.scheduler_name]
        if claims:
            limit = common_limit(one.limit_milli for one in claims if not one.exclusive)
        else:
            assert pod.request is not None
            limit = _limit(pod.request.claims[0], cards, profile.capacities)
        return Isolation(backend, limit)


def _of_guests(
    guests: Sequence[GuestContainer], charges: Sequence[ClaimCharge]
) -> tuple[ClaimCharge, ...]:
    """The cards of containers that see those of others: nothing of them is charged."""
    of = {one.container: one for one in charges}
    return tuple(
        ClaimCharge(
            container=one.container,
            cards=tuple(
                replace(card, milli=0, memory_bytes=0) for card in of[one.host].cards[: one.count]
            ),
            limit_milli=of[one.host].limit_milli,
        )
        for one in guests
        if one.host in of
    )


def _group_owners(record: Record) -> tuple[str, ...]:
    """The owners of its gang's members if there are several, for a restarted scheduler."""
    owners = record.gang_owners or ()
    return tuple(islice(owners, MAX_OWNERS)) if len(owners) > 1 else ()


def _limit(claim: ContainerClaim, cards: Sequence[CardCharge], capacities: Capacities) -> int:
    """The claim's limit of time, in milli of the cards that it gets; 0 is none."""
    limit, share_of = claim.limit_milli, claim.claim.share_of
    return capacities.limit(limit, share_of, cards[0].model) if share_of else limit


# Placements under way: sent, answered, sent again while their outcome is unknown, or undone.


class BindDoubt(NamedTuple):
    """A Binding may be stored or not: open since when, last answered when (both s), and how."""

    since: float
    last_at: float
    answer: str


class BindingCycles:
    """The placements without an answer."""

    def __init__(
        self,
        state: State,
        enqueuer: Enqueuer,
        assumer: Assumer,
        pre_binds: PreBindCycles,
    ) -> None:
        self._table, self._records, self._gangs = state.table, state.records, state.gangs
        self._charges, self._reservations = state.charges, state.reservations
        self._attempts, self._refused = state.attempts, state.refused
        self._enqueuer, self._assumer = enqueuer, assumer
        self._pre_binds, self._turns = pre_binds, pre_binds.turns
        #: Placements decided and not answered yet; to be read.
        self.unanswered: dict[DecisionToken, Bind] = {}
        #: Those of them that were answered without saying whether they are stored.
        self._doubts: dict[DecisionToken, BindDoubt] = {}
        self._resend: Timers[DecisionToken] = Timers(state.alarms)

    def commit(
        self, nominee: Nominee, placed: Sequence[Record], now: float
    ) -> Sequence[Effect] | NotCommitted:
        """Commit pods to the places that they hold: the one way from a decision to its Bindings.

        `placed` is a single pod, or all pods of a gang that are placed at once; `Assumer.place` has
        charged each of them. PreBind plugins are asked first. If one refuses, or too many pods wait
        for such plugins, the charges are taken back. Otherwise the nominee's own reservations end,
        and those of others whose places were taken are broken. Each pod is ASSUMED until its Bind
        is answered; while a PreBind plugin waits, all of them are PREBINDING before that, and so is
        each while it waits for its turn on its node.
        """
        answers = None
        for record in placed:
            if self._pre_binds.may_wait(record):
                answers = self._pre_binds.ask(placed)
                break
        if answers is not None and isinstance(answers, NotCommitted):
            # The last charge first: ports are handed out in order, and so taken back.
            for record in reversed(placed):
                self._charges.undo(record)
            return answers
        if self._reservations.holders:
            # The nominee's own ones first: what its pods take of them breaks nothing.
            self._reservations.end(nominee)
            for record in placed:
                self._reservations.break_under_pod(record)
        if answers is not None:
            return self._pre_binds.begin(placed, answers, now)
        effects: list[Effect] = []
        for record in placed:
            effects += self._bind_in_turn(record, now)
        return effects

    def send_ready(self, free: int, now: float) -> list[Effect]:
        """Bind pods that are ready or have their turn, while fewer than `free` are bound so."""
        effects: list[Effect] = []
        sent = 0
        while sent < free and any(self._pre_binds.ready):
            if self._turns.ready:
                effects.append(self._bind(self._turns.next_ready(), now))
                sent += 1
                continue
            for record in self._pre_binds.next_ready():
                effects += self._bind_in_turn(record, now)
                sent += 1
        return effects

    def answered(self, event: BindAnswered, now: float) -> list[Effect]:
        """Handle the outcome of a Bind."""
        record = self._records.get(event.uid)
        held = None if record is None else record.allocation
        current = held is not None and held.token == event.token
        if record is None or not current or record.state is not _ASSUMED:
            # Late, or the watch was faster: the pod is gone, bound, or placed anew.
            return []
        match event.outcome:
            case Bound():
                bind = self.unanswered[event.token]
                del self.unanswered[event.token]
                if self._doubts:
                    self._doubts.pop(event.token, None)
                record.is_refused = False
                record.answered_at = now
                assert record.node is not None
                return [self._was_stored(record, record.node, bind)]
            case BindRefused():
                return self._was_refused(record, event.token, event.outcome, now)
            case BindUnknown():
                return self._was_left_open(record, event.token, event.outcome, now)
            case _:
                assert_never(event.outcome)

    def seen(self, record: Record, node: NodeName) -> list[Effect]:
        """The watch shows the pod as it was placed.

        That counts as an answer: the answer itself may be lost, and nothing is sent again.
        """
        if record.state is not PodState.ASSUMED:
            return []
        bind = self._ignore_answer(record)
        return [self._was_stored(record, node, bind)]

    def send_again(self, now: float) -> Iterator[Bind]:
        """Send Binds with an unknown outcome again after their pause."""
        for token in self._resend.due(now):
            bind = self.unanswered.get(token)
            record = None if bind is None else self._records.get(bind.uid)
            if bind is not None and record is not None and record.state is PodState.ASSUMED:
                record.is_refused = False
                stale, doubt = record.pod.stale_results, self._doubts.get(token)
                since = None if doubt is None else doubt.last_at
                yield replace(bind, stale_results=stale, in_doubt_since=since)

    def release(self, record: Record) -> None:
        """End the pod's charge; a later answer to its Bind is ignored."""
        if record.node is None:
            return
        self._ignore_answer(record)
        record.is_refused = record.last_try = record.evicted = False
        self._charges.release(record)

    def linger(self, record: Record) -> bool:
        """Let a deleted pod keep its GPUs; False if it has none."""
        self._ignore_answer(record)
        return self._charges.linger(record)

    @property
    def in_doubt_since(self) -> float | None:
        """When (s) the last answer came that left a Binding open; None if none is open."""
        return max((one.last_at for one in self._doubts.values()), default=None)

    def doubt_about(self, record: Record) -> BindDoubt | None:
        """The last answer that left open whether the pod's Binding is stored; None if settled."""
        return None if record.allocation is None else self._doubts.get(record.allocation.token)

    # --- inside --------------------------------------------------------------------------------

    def _bind_in_turn(self, record: Record, now: float) -> list[Effect]:
        """Bind the pod at once, unless it has to wait for its turn on its node."""
        waiting = self._turns.enter(record, now)
        return [self._bind(record, now)] if waiting is None else waiting

    def _bind(self, record: Record, now: float) -> Bind:
        assert record.node is not None
        assert record.allocation is not None
        pod, held = record.pod, record.allocation
        decided = self._assumer.node_of(record, now)
        bind = Bind(pod.uid, pod.key, record.node, held, pod.stale_results, decided)
        # By the token of this decision, not by uid: the pod may be placed anew before a late answer
        # about this Binding comes, which then is about no placement.
        self.unanswered[held.token] = bind
        record.reported = None
        self._table.transition(record, _ASSUMED)
        return bind

    def _was_stored(self, record: Record, node: NodeName, bind: Bind | None) -> ReportScheduled:
        """The Binding is stored: UNCONFIRMED until the watch shows it."""
        self._table.transition(record, PodState.UNCONFIRMED)
        record.reported = None
        if self._refused.pods:
            self._refused.forget(record.pod.uid)
        self._attempts.scheduled[record.pod.scheduler_name] += 1
        self._attempts.after_flush += record.flushed
        record.flushed = False
        cards = () if bind is None else bind.decided.cards
        return ReportScheduled(record.pod.uid, record.pod.key, node, record.allocation, cards)

    def _was_refused(
        self, record: Record, token: DecisionToken, refused: BindRefused, now: float
    ) -> list[Effect]:
        """The Binding is not stored: undo the placement, unless others of a gang wait for it."""
        self._count_failure(record)
        refusal, uid, node = refused.refusal, record.pod.uid, record.node
        assert node is not None
        sentence = f"binding to {node} was refused: {refused.message}"
        effects = report_waiting(record, sentence, WaitingReason.SCHEDULER_ERROR)
        self._doubts.pop(token, None)
        if refusal is Refusal.DENIED:
            self._refused.refused_for(uid, node, refused.message, now)
        elif refusal is Refusal.FORBIDDEN:
            self._refused.refused(uid, now)
        if refusal in OF_ONE_TRY and self._others_wait_for(record):
            record.is_refused = True
            self._again(record, token, now, self._refused.pause_s)
        else:
            self.release(record)
            least_s = self._refused.pause_s if refusal in OF_ONE_TRY else 0.0
            self._enqueuer.back_off(record, now, least_s)
        return effects

    def _was_left_open(
        self, record: Record, token: DecisionToken, unknown: BindUnknown, now: float
    ) -> list[Effect]:
        """The Binding may be stored or not: it is sent again, and reported each time.

        Reports that wait to be written are dropped while it is sent.
        """
        # Its charge stays: the Binding may be stored, and its cards would be given away twice.
        self._count_failure(record)
        doubt = self._doubts.get(token)
        since = now if doubt is None else doubt.since
        self._doubts[token] = BindDoubt(since, now, unknown.message)
        self._again(record, token, now, unknown.retry_after_s)
        sentence = f"binding to {record.node} is not confirmed, and sent again: {unknown.message}"
        record.reported = None
        return report_waiting(record, sentence, WaitingReason.SCHEDULER_ERROR)

    def _again(
        self, record: Record, token: DecisionToken, now: float, least_s: float = 0.0
    ) -> None:
        record.tries += 1
        self._resend.add(now + max(backoff_s(record.tries), least_s), token)

    def _others_wait_for(self, record: Record) -> bool:
        """Whether the pod is in an incomplete gang: then its place is kept for a while."""
        gang = self._gangs.of(record.pod.uid)
        if gang is None or gang.repair_at is None or record.last_try:
            return False
        gang.update()  # other answers of this iteration may have completed it
        return not gang.quorum_met

    def _count_failure(self, record: Record) -> None:
        count(self._attempts.failed, record.pod.scheduler_name)
        self._attempts.failed_binds += 1

    def _ignore_answer(self, record: Record) -> Bind | None:
        """No answer about the pod's placement counts any more; returns its Bind, if one waited."""
        if record.allocation is None:
            return None
        if self._doubts:
            self._doubts.pop(record.allocation.token, None)
        return self.unanswered.pop(record.allocation.token, None)
