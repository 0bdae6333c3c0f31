"""The scheduler's state machine: only `handle` changes its state.

No clock, no I/O. Production, simulation, explanation and tests run this same code. Every event is
legal in every state: answers may come late, twice, or for pods that are gone.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from kubeshare_py.cluster.ledger import ANYWHERE
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.cluster_objects import GroupApi
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import Effect, LogPluginFailure, ReportPodWarning, ReportWaiting
from kubeshare_py.domain.events import (
    BindAnswered,
    BindAsked,
    BindSlotsFree,
    BudgetEvent,
    BudgetGone,
    BudgetSeen,
    BudgetsListed,
    ClusterEvent,
    Event,
    EvictionFailed,
    InventoryFailed,
    InventoryRead,
    NodeGone,
    NodeSeen,
    NodesListed,
    ObjectEvent,
    ObjectGone,
    ObjectSeen,
    ObjectsListed,
    ObjectWritten,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
    PodSeen,
    PodsListed,
    TimePassed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.storage import ObjectRef
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.boundary import PluginCalls
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.framework.scheduler_profile import Profile, ProfilesReplaced
from kubeshare_py.framework.snapshot import ClusterReading
from kubeshare_py.scheduling.assembly import assemble
from kubeshare_py.scheduling.charges import external_changes
from kubeshare_py.scheduling.charges.external_changes import found_cards
from kubeshare_py.scheduling.charges.overcommitment import CardChanges, Overcommitment
from kubeshare_py.scheduling.charges.pod_charges import GpuQuotas
from kubeshare_py.scheduling.pod_cycle import BindDoubt
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules, repair_rules
from kubeshare_py.scheduling.preemption.preemption import PreemptionRules, preemption_rules
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.asked_shapes import RefusedBinds
from kubeshare_py.scheduling.queue.pod_records import PodProgress, PodState, Record
from kubeshare_py.scheduling.queue.waiting_limit import QueueRules, queue_rules
from kubeshare_py.scheduling.reservation_policy import ReservationRules, reservation_rules
from kubeshare_py.scheduling.retries import UnschedulableFlush, is_about_spread, respread

#: Everything that changes the machine's state.
MachineEvent = Event | ProfilesReplaced
#: The most placements that are decided and not answered yet.
MAX_UNANSWERED = 64
#: The longest time (s) that cards of a pod are held after a forced deletion.
LINGERING_S = 60.0

# numpy's first call imports more modules, which takes 50 ms: better here than in an iteration.
np.unique(np.empty(0, np.intp))


class Machine:
    """Decides where pods go. `name` makes its decision tokens unique among scheduler processes."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        name: str,
        repair: RepairRules | None = None,
        reservations: ReservationRules | None = None,
        preemption: PreemptionRules | None = None,
        lingering_s: float = LINGERING_S,
        *,
        waiting: QueueRules | None = None,
    ) -> None:
        """Without rules, the configuration's defaults apply.

        `lingering_s`: the longest time (s) that cards of pods are held after a forced deletion.
        """
        self.name = name
        parts = assemble(
            profiles,
            name,
            repair or RepairRules(),
            reservations or ReservationRules(),
            preemption or PreemptionRules(),
            lingering_s,
        )
        state = parts.state
        self.synced = state.synced
        self.ledger, self.reservations = state.ledger, state.reservations
        self.lingering, self.devices = state.lingering, state.devices
        self.records, self.gangs = state.records, state.gangs
        self.group_objects = self.gangs.objects
        self.queue, self.moves, self.attempts = state.queue, state.moves, state.attempts
        self.profiles, self.evaluators = state.profiles.profiles, state.profiles.evaluators
        self.boundary, self.snapshots = state.profiles.boundary, state.profiles.snapshots
        self.gang_cycles, self.preemption = parts.gang_cycles, parts.preemption
        self.inventory_failure = ""
        #: The names in the portions so far of a list of nodes.
        self._listed_nodes: set[NodeName] = set()
        self._now = 0.0
        #: Whether it was ever asked to decide, or stands by: from then on, bindings of other
        #: schedulers are reported.
        self.decides = False
        self._state = state
        self._enqueuer, self._binding_cycles = parts.enqueuer, parts.binding_cycles
        self.pre_binds = parts.pre_binds
        self._group_edits, self._event_handlers = parts.group_edits, parts.event_handlers
        waiting = waiting or QueueRules()
        self._enqueuer.use(waiting)
        #: When any part has something to do by time alone, but for gangs.
        self._alarms = alarms = state.alarms
        self._flush = UnschedulableFlush(state, waiting.flush_after_s)
        self._policy, self._retries = parts.policy, parts.retries
        self._extender_binds = parts.extender_binds
        self._reports, self._iterations = state.reports, parts.iterations
        self._overcommitment = Overcommitment(self.ledger, self.key_of, alarms)
        self._card_changes = CardChanges(self.ledger, self.key_of)
        # What there is to do at once: mostly nothing, so that asking must cost nothing either.
        self._to_report = (
            *self._reports.at_once,
            *self.gang_cycles.reports.at_once,
            *self._card_changes.at_once,
        )
        self._to_send = self.pre_binds.ready
        self._to_look_at = (*self.pre_binds.at_once, *self._group_edits.at_once)
        self._at_once = (*self._to_report, *self._to_look_at, self.ledger.overdrafts.unchecked)

    @property
    def ready(self) -> bool:
        """Whether pods and nodes are known: before that, no pod is placed."""
        return self.synced.ready

    @property
    def inventory_read(self) -> bool:
        """Whether the cards of all nodes were read since the start."""
        return self.synced.inventory

    @property
    def silent_nodes(self) -> frozenset[NodeName]:
        """The nodes whose collector does not answer."""
        return self.ledger.silent

    @property
    def unanswered(self) -> int:
        """The number of placements decided and not answered yet."""
        return len(self._binding_cycles.unanswered)

    @property
    def pod_keys(self) -> set[PodKey]:
        """Namespaces and names of all known pods."""
        return {record.pod.key for record in self.records.values()}

    @property
    def in_doubt_since(self) -> float | None:
        """When (s) the last answer came that left a Binding open; None if none is open."""
        return self._binding_cycles.in_doubt_since

    # --- questions of the process around it -----------------------------------------------------

    def node_names(self) -> Collection[NodeName]:
        """The nodes with a row, in a view that follows changes."""
        return self.ledger.columns.row_of.keys()

    def is_known(self, event: Event) -> bool:
        """Whether the event shows a node as it is known: kubelets report without a change."""
        if not isinstance(event, NodeSeen):
            return False
        row = self.ledger.columns.row_of.get(event.node.name)
        return row is not None and self.ledger.columns.nodes[row] == event.node

    def progress_of(self, uid: PodUid) -> PodProgress | None:
        """How far a pod is, for the figures; None for a pod without a record."""
        record = self.records.get(uid)
        return None if record is None else record.progress()

    @property
    def unschedulable_attempts(self) -> Mapping[str, int]:
        """Attempts so far that found no place, by profile."""
        return self.attempts.unschedulable

    @property
    def failed_binds(self) -> int:
        """The number of answers so far that refused a Binding or left it open."""
        return self.attempts.failed_binds

    def is_evicted(self, uid: PodUid) -> bool:
        """Whether the eviction of a pod was decided and is still wanted."""
        record = self.records.get(uid)
        return record is not None and record.evicted

    def awaits_pod_groups(self, api: GroupApi) -> bool:
        """Whether pods wait for a PodGroup of this API."""
        return self.group_objects.wanted(api, self.gangs.by_key)

    def waiting_reports(self) -> Iterator[ReportWaiting]:
        """The last report on each waiting pod, for a process that begins to lead."""
        for record in self.records.values():
            if record.reported is not None:
                yield ReportWaiting(record.pod.uid, record.pod.key, record.reported)

    def diagnosis_of(self, record: Record) -> Diagnosis | None:
        """Why a pod of an unschedulable queue waits, as it is reported."""
        return self._reports.diagnosis_of(record)

    def standing_warnings(self) -> Iterator[ReportPodWarning]:
        """Problems of the pods that are there, for a process that begins to lead."""
        return external_changes.standing(
            self.records.values(), self.profiles, self.ledger.inventory
        )

    @property
    def spreads_by_default(self) -> bool:
        """Whether a profile needs Services and controllers, for its default constraints."""
        return any(profile.default_spread for profile in self.profiles.values())

    def time_plugins(self, stopwatch: Callable[[], float]) -> None:
        """Measure plugins of others by this stopwatch (s); no decision depends on it."""
        self.boundary.stopwatch = stopwatch

    def slow_plugins(self) -> Iterable[tuple[str, float]]:
        """Plugins that took too long since the last call, which ends a turn, and how long (s)."""
        return self.boundary.slow_plugins()

    def reading(self) -> ClusterReading:
        """The cluster at this instant, for one question that changes nothing."""
        return self._state.profiles.reading()

    @property
    def changes(self) -> int:
        """The number of changes of nodes and cards so far."""
        return self.ledger.changed.end

    @property
    def quotas(self) -> GpuQuotas:
        """What pods of each namespace hold of GPUs, and may hold; to be read."""
        return self._state.charges.quotas

    def shape_of(self, pod: Pod) -> Shape:
        """What a pod without a record would ask for, as its profile understands it."""
        return self._enqueuer.shape_of(pod)

    def newcomer(self, pod: Pod, reading: ClusterReading) -> Record:
        """The record that the pod would get if it came now; the machine does not keep it.

        Its schedulerName must be that of a profile. Plugins that fail count in the reading.
        """
        return self._enqueuer.newcomer(pod, PluginCalls(reading.boundary, self.profiles))

    def doubt_about(self, record: Record) -> BindDoubt | None:
        """The last answer that left open whether the pod's Binding is stored; None if settled."""
        return self._binding_cycles.doubt_about(record)

    @property
    def refused(self) -> RefusedBinds:
        """The pods whose Bindings the API server refused lately; to be read."""
        return self._enqueuer.refused

    # --- what the parts ask ---------------------------------------------------------------------

    def key_of(self, uid: PodUid) -> PodKey:
        """Namespace and name of a pod that holds something, or of a claim that holds cards."""
        record = self.records.get(uid)
        if record is not None:
            return record.pod.key
        lingering = self.lingering.of(uid)
        if lingering is not None:
            return lingering.key
        claim = self.devices.key_of(uid)
        assert claim is not None, uid
        return claim

    def time_since_s(self, since: float) -> float:
        """Seconds from a moment until the last event was handled."""
        return self._now - since

    def time_until_s(self, until: float) -> int:
        """Whole seconds from the last event that was handled until a moment, at least 1."""
        return max(1, math.ceil(until - self._now))

    def handle(self, event: MachineEvent, now: float) -> list[Effect]:
        """Handle one event at monotonic time `now` (s); the effects to perform."""
        self._now = now
        effects = self._handled(event, now)
        if self.ledger.found:
            effects += found_cards(self.ledger, self.records, self.lingering)
        if self._enqueuer.limit.moved or self._enqueuer.settles_at.at != math.inf:
            self._enqueuer.settle(now)
        if not self._extender_binds.waiting:
            return effects
        return [*self._extender_binds.unreported(effects), *self._extender_binds.settled()]

    def _handled(self, event: MachineEvent, now: float) -> list[Effect]:
        effects = [] if self.decides else self._stand_by(now)
        match event:
            case PodSeen(pod=pod):
                effects += self._event_handlers.seen(pod, now)
            case PodGone():
                effects += self._event_handlers.gone(event, now)
            case BindSlotsFree(slots=slots):
                effects += self._slots_free(slots, now)
            case BindAnswered():
                effects += self._binding_cycles.answered(event, now)
            case ObjectWritten() | BindAsked() | EvictionFailed():
                effects += self._others_answered(event, now)
            case TimePassed():
                effects += self._time_passed(now)
                effects += self._report(now)
            case PodsListed():
                self.synced.pods |= not event.more
                effects += self._event_handlers.listed(event, now, decides=self.decides)
            case PodGroupSeen() | PodGroupGone() | PodGroupsListed():
                effects += self._group_edits.seen(event, now, decides=self.decides)
            case ProfilesReplaced(profiles=profiles):
                effects += self._use(profiles, now)
            case _:
                self._cluster_changed(event)
        return effects

    def _slots_free(self, slots: int, now: float) -> list[Effect]:
        """Decide, as it is asked to."""
        if not self.decides:
            self.decides = True
            self._event_handlers.strays.begin()
        effects = self._time_passed(now)
        if any(self._to_send):
            effects += self._binding_cycles.send_ready(self._free_slots(slots), now)
        if self._iterations.unfinished:
            effects += self._iterations.run(self._free_slots(slots), self.synced, now)
        effects += self._report(now)
        return effects

    def _others_answered(
        self, event: ObjectWritten | BindAsked | EvictionFailed, now: float
    ) -> Sequence[Effect]:
        match event:
            case BindAsked():
                return self._extender_binds.asked(event, now)
            case ObjectWritten():
                self.pre_binds.written(event, now)
            case EvictionFailed():
                self.preemption.evictions.failed(event.uid, event.answer)
        return ()

    def _cluster_changed(self, event: ClusterEvent | BudgetEvent | ObjectEvent) -> None:
        match event:
            case NodeSeen(node=node):
                known = node.name in self.ledger.columns.row_of
                self.moves.improved_by = pod_records.NODE_UPDATE if known else pod_records.NODE_ADD
                self.ledger.put_node(node)
                self.devices.node_shown(node.name)
                self.pre_binds.node_changed(node.name)
            case NodeGone(name=name):
                self.ledger.drop_node(name)
                self.pre_binds.node_changed(name)
            case NodesListed():
                self._nodes_listed(event)
            case InventoryRead():
                self._inventory_read(event)
            case BudgetSeen() | BudgetGone() | BudgetsListed():
                self.preemption.planner.budgets_changed(event)
            case InventoryFailed(message=message):
                self.inventory_failure = message
            case _:
                self._object_changed(event)

    def _nodes_listed(self, event: NodesListed) -> None:
        """Take a portion of the nodes; with the last one those that are in none are gone."""
        self.moves.improved_by = pod_records.NODE_ADD
        self._listed_nodes.update(event.unreadable, (node.name for node in event.nodes))
        if not event.more:
            for gone in sorted(self.ledger.columns.row_of.keys() - self._listed_nodes):
                self.ledger.drop_node(gone)
            self._listed_nodes = set()
        for node in sorted(event.nodes, key=lambda node: node.name):
            self.ledger.put_node(node)
        if not event.more:
            self.synced.nodes = True
            self.devices.charge_all()
            self.pre_binds.ask_again()

    def _object_changed(self, event: ObjectEvent) -> None:
        """Take an object, or all of a kind, as they are now."""
        match event:
            case ObjectSeen(object=item):
                self.pre_binds.object_changed(ObjectRef(item.kind, item.key))
            case ObjectGone(kind=kind, key=key):
                self.pre_binds.object_changed(ObjectRef(kind, key))
            case ObjectsListed():
                self.pre_binds.ask_again()
        if not self.devices.changed(event):
            return
        if is_about_spread(event):
            respread(event, self._state)
        else:
            self.ledger.improved.add(ANYWHERE)

    def wake_at(self, now: float) -> float | None:
        """When (s) to ask for decisions at the latest; `now` if there is work at once."""
        if any(self._at_once):
            return now
        has_work = self._iterations.unfinished or any(self._to_send)
        if has_work and self._free_slots(1) > 0:
            return now
        next_at = self._next_at()
        return None if next_at == math.inf else next_at

    def _next_at(self) -> float:
        """When (s) a part has something to do by time alone; infinity if none has."""
        if self.gangs.by_key:
            return min(self._alarms.next_at, self.gang_cycles.alarms.next_at)
        return self._alarms.next_at

    def _use(self, profiles: Sequence[Profile], now: float) -> list[Effect]:
        """Decide by other plugins; waiting pods are sorted, gated and tried anew.

        Charges stay as they are. About 5 µs for each waiting pod.
        """
        assert {profile.scheduler_name for profile in profiles} == self.profiles.keys()
        self._state.profiles.use(profiles)
        effects: list[Effect] = []
        waiting = []
        for record in self.records.values():
            if record.state in (PodState.WAITING, PodState.GATED, PodState.DELEGATED):
                waiting.append(record)
            elif record.node is not None and record.pod.scheduler_name in self.profiles:
                self._state.profiles.calls.reserve(record.pod, record.node, record.allocation)
        self.pre_binds.ask_again()
        # What is known of shape queues came from the former plugins.
        self.queue.clear()
        self._enqueuer.start_anew()
        self.gang_cycles.start_anew()
        for record in waiting:
            effects += self._enqueuer.enqueue(record, now, pod_records.FORCE_ACTIVATE)
        return effects

    def _report(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        failures = self.boundary.failures
        for failure, times in failures.to_log(now) if failures.has_unlogged else ():
            plugin, point = failure.plugin, failure.point
            text, frames = str(failure), failure.traceback
            effects.append(LogPluginFailure(plugin, point, text, times, frames))
        if now >= self._enqueuer.reports_at.at:
            effects.extend(self._enqueuer.reported(now))
        if any(self._to_report):
            effects.extend(self._reports.portion())
            effects.extend(self.gang_cycles.reports.portion())
            effects.extend(self._card_changes.portion())
        return effects

    def _stand_by(self, now: float) -> list[Effect]:
        """Drop what is over while another scheduler decides, which may take weeks."""
        effects: list[Effect] = []
        self._card_changes.drop()
        if self._alarms.next_at <= now or any(self._group_edits.at_once):
            self._end_lingering(now)
            effects += self._enqueuer.enqueue_due_pods(now)
            effects += self._group_edits.look(now, decides=False)
        return effects

    def _end_lingering(self, now: float) -> None:
        for uid in self.lingering.time_passed(now):
            self.preemption.left(uid)

    def _time_passed(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if (
            self._alarms.next_at <= now
            or any(self._to_look_at)
            or (self.gangs.by_key and self.gang_cycles.alarms.next_at <= now)
        ):
            effects = self._look(now)
        if self.boundary.failures.total:
            self._retries.look(now)
        if self._alarms.next_at <= now:
            self._flush.look(now)
        if self._alarms.next_at <= now or self.ledger.overdrafts.unchecked:
            effects.extend(self._overcommitment.look(now))
        return effects

    def _look(self, now: float) -> list[Effect]:
        """Let each part do what is due, always in this order; one with nothing due does nothing."""
        effects: list[Effect] = []
        self._end_lingering(now)
        effects += self.pre_binds.look(now)
        # Before Binds, because it ends the repetition of some of them.
        self._policy.time_passed(now)
        effects += self.preemption.time_passed(now)
        if self.gangs.by_key and self.gang_cycles.alarms.next_at <= now:
            effects += self.gang_cycles.time_passed(now)
        effects += self._enqueuer.enqueue_due_pods(now)
        effects += self._group_edits.look(now)
        effects.extend(self._binding_cycles.send_again(now))
        self._reports.refresh(self.evaluators, now)
        effects.extend(self._event_handlers.strays.time_passed(now))
        return effects

    # --- decisions -----------------------------------------------------------------------------

    def _free_slots(self, slots: int) -> int:
        if not self.synced.ready:
            return 0
        free = MAX_UNANSWERED - len(self._binding_cycles.unanswered)
        return slots if slots < free else free

    # --- inventory -----------------------------------------------------------------------------

    def _inventory_read(self, event: InventoryRead) -> None:
        self.moves.improved_by = pod_records.INVENTORY_READ
        for name, gpus in event.changed:
            if self.synced.inventory:
                self._card_changes.lists(name, gpus)
            self.ledger.put_cards(name, gpus)
        if event.changed:
            self.devices.charge_all()
        if event.more:
            return
        self.inventory_failure = ""
        self.ledger.put_silent(frozenset(event.silent))
        if not self.inventory_read:
            self.synced.inventory = True
            for shape_queue in self.queue.unschedulable():
                shape_queue.diagnosis = None
                self.moves.woken(len(shape_queue.waiting))
                self.queue.activate(shape_queue)


# A machine as a configuration describes it: for the scheduler's process, and for a replay.


def configured_machine(
    configuration: SchedulerConfiguration, factories: Mapping[str, PluginFactory], name: str
) -> Machine:
    """A machine with the configured profiles; `name` begins its decision tokens.

    Raises ConfigurationError if a profile is unusable.
    """
    return Machine(
        profiles(configuration, factories),
        name,
        repair_rules(configuration),
        reservation_rules(configuration),
        preemption_rules(configuration),
        configuration.forced_delete_hold_seconds,
        waiting=queue_rules(configuration),
    )


# What a machine knows, as the events that would tell another machine.
#
# The other one begins as a scheduler that was started now: it knows of no attempt, backoff,
# reservation or eviction, and of no pod that lingers after a forced deletion.


def known_events(machine: Machine, now: float) -> Iterator[Event]:
    """The events, as of `now` (s); a few ms for 50,000 pods."""
    budgets = machine.preemption.planner.budgets
    yield BudgetsListed(tuple(budgets.values()))
    for api, (groups, problem) in machine.group_objects.listed().items():
        yield PodGroupsListed(api, groups, problem)
    for kind, objects, why in machine.ledger.columns.objects.listed():
        yield ObjectsListed(kind, objects, why)
    if machine.synced.nodes:
        nodes = machine.ledger.columns.nodes
        yield NodesListed(tuple(node for node in nodes if node is not None))
    if machine.inventory_read:
        cards = machine.ledger.claims.as_listed
        yield InventoryRead(tuple(cards.items()), tuple(sorted(machine.silent_nodes)))
    if machine.inventory_failure:
        yield InventoryFailed(machine.inventory_failure)
    if machine.synced.pods or machine.records:
        pods = tuple(map(_as_shown, machine.records.values()))
        finished, more = machine.gangs.finished_members(), not machine.synced.pods
        yield PodsListed(pods, now, finished=finished, more=more)


def _as_shown(record: Record) -> Pod:
    """The pod as the API server shows it, or will once it has stored the Binding under way."""
    if record.node is None or record.pod.node_name is not None:
        return record.pod
    return replace(record.pod, node_name=record.node, allocation=record.allocation)
