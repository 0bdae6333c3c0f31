"""The scheduler's state machine: only `handle` changes its state.

No clock, no I/O. Production, simulation, explanation and tests run this same code. Every event is
legal in every state: answers may come late, twice, or for pods that are gone.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from kubeshare_py.cluster.ledger import ANYWHERE
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
from kubeshare_py.domain.group_objects import GroupApi
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.needs.object_writes import ObjectRef
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.framework.scheduler_profile import Profile, ProfilesReplaced
from kubeshare_py.scheduling.assembly import assemble
from kubeshare_py.scheduling.binding import external_binds
from kubeshare_py.scheduling.binding.binding_cycle import BindDoubt
from kubeshare_py.scheduling.binding.card_changes import CardChanges
from kubeshare_py.scheduling.binding.found_cards import found_cards
from kubeshare_py.scheduling.binding.gpu_quotas import GpuQuotas
from kubeshare_py.scheduling.binding.overcommitment import Overcommitment
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from kubeshare_py.scheduling.preemption.rules import PreemptionRules
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.pod_records import PodProgress, PodState, Record
from kubeshare_py.scheduling.queue.queue_rules import QueueRules
from kubeshare_py.scheduling.queue.refused_binds import RefusedBinds
from kubeshare_py.scheduling.reservations.reservation_patience import ReservationRules
from kubeshare_py.scheduling.respread import is_about_spread, respread
from kubeshare_py.scheduling.unschedulable_flush import UnschedulableFlush

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
        self.synced = parts.synced
        self.ledger, self.reservations = parts.charges.ledger, parts.charges.reservations
        self.lingering, self.devices = parts.charges.lingering, parts.charges.devices
        self.records, self.gangs = parts.pods.records, parts.pods.gangs
        self.group_objects = self.gangs.objects
        self.queue, self.moves = parts.queues.pods, parts.queues.moves
        self.attempts = parts.queues.attempts
        self.profiles, self.evaluators = parts.profiles.profiles, parts.profiles.evaluators
        self.boundary, self.snapshots = parts.profiles.boundary, parts.profiles.snapshots
        self.gang_cycles, self.preemption = parts.gang_cycles, parts.preemption
        self.inventory_failure = ""
        self._now = 0.0
        #: Whether it was ever asked to decide, or stands by: from then on, bindings of other
        #: schedulers are reported.
        self.decides = False
        self._parts = parts
        self._enqueuer, self._binding_cycles = parts.steps.enqueuer, parts.steps.binding_cycles
        self.pre_binds = parts.steps.pre_binds
        self._group_edits, self._event_handlers = parts.group_edits, parts.event_handlers
        waiting = waiting or QueueRules()
        self._enqueuer.use(waiting)
        self._flush = UnschedulableFlush(parts.queues, self.evaluators, waiting.flush_after_s)
        self._policy, self._retries = parts.policy, parts.retries
        self._extender_binds = parts.extender_binds
        self._reports, self._iterations = parts.reports, parts.iterations
        self._overcommitment = Overcommitment(self.ledger, self.key_of)
        self._card_changes = CardChanges(self.ledger, self.key_of)

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
        return self._binding_cycles.unanswered

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
        """How far a pod is; None if it is not known."""
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
        """What is known of waiting pods, for a process that begins to lead."""
        for record in self.records.values():
            if record.reported is not None:
                yield ReportWaiting(record.pod.uid, record.pod.key, record.reported)

    def diagnosis_of(self, record: Record) -> Diagnosis | None:
        """Why a pod of an unschedulable queue waits, as it is reported."""
        return self._reports.diagnosis_of(record)

    def standing_warnings(self) -> Iterator[ReportPodWarning]:
        """Problems of bound pods, for a process that begins to lead."""
        return external_binds.standing(self.records.values(), self.profiles, self.ledger.inventory)

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
        return self._parts.profiles.reading()

    @property
    def changes(self) -> int:
        """The number of changes of nodes and cards so far."""
        return self.ledger.changed.end

    @property
    def quotas(self) -> GpuQuotas:
        """What pods of each namespace hold of GPUs, and may hold; to be read."""
        return self._parts.steps.assumer.quotas

    def shape_of(self, pod: Pod) -> Shape:
        """What a pod without a record would ask for, as its profile understands it."""
        return self._enqueuer.shape_of(pod)

    def doubt_about(self, record: Record) -> BindDoubt | None:
        """What is known of the pod's Binding if it is open whether that is stored; else None."""
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

    def age_s(self, since: float) -> float:
        """The age (s) of a moment when the last event was handled."""
        return self._now - since

    def left_s(self, until: float) -> int:
        """Whole seconds until a moment when the last event was handled, at least 1."""
        return max(1, math.ceil(until - self._now))

    def handle(self, event: MachineEvent, now: float) -> list[Effect]:
        """Handle one event at monotonic time `now` (s); the effects to perform."""
        self._now = now
        effects = [] if self.decides else self._stand_by(now)
        match event:
            case PodSeen(pod=pod):
                effects += self._event_handlers.seen(pod, now)
            case PodGone():
                effects += self._event_handlers.gone(event, now)
            case BindAnswered() | ObjectWritten() | BindAsked() | EvictionFailed():
                effects += self._answered(event, now)
            case BindSlotsFree(slots=slots):
                self.decides = True
                effects += self._time_passed(now)
                effects += self._binding_cycles.send_ready(self._free_slots(slots), now)
                if self._iterations.unfinished:
                    effects += self._iterations.run(self._free_slots(slots), self.synced, now)
                effects += self._report(now)
            case TimePassed():
                effects += self._time_passed(now)
                effects += self._report(now)
            case PodsListed():
                self.synced.pods = True
                effects += self._event_handlers.listed(event, now, decides=self.decides)
            case PodGroupSeen() | PodGroupGone() | PodGroupsListed():
                effects += self._group_edits.seen(event, now, decides=self.decides)
            case ProfilesReplaced(profiles=profiles):
                effects += self._use(profiles, now)
            case _:
                self._cluster_changed(event)
        effects += found_cards(self.ledger, self.records, self.lingering)
        self._enqueuer.settle(now)
        return [*self._extender_binds.unreported(effects), *self._extender_binds.settled()]

    def _answered(
        self, event: BindAnswered | ObjectWritten | BindAsked | EvictionFailed, now: float
    ) -> Sequence[Effect]:
        if isinstance(event, BindAsked):
            return self._extender_binds.asked(event, now)
        if isinstance(event, BindAnswered):
            return self._binding_cycles.answered(event, now)
        if isinstance(event, EvictionFailed):
            self.preemption.evictions.failed(event.uid, event.answer)
        else:
            self.pre_binds.written(event, now)
        return ()

    def _cluster_changed(self, event: ClusterEvent | BudgetEvent | ObjectEvent) -> None:
        match event:
            case NodeSeen(node=node):
                known = node.name in self.ledger.columns.row_of
                self.moves.improved_by = queue_moves.NODE_UPDATE if known else queue_moves.NODE_ADD
                self.ledger.put_node(node)
                self.devices.node_shown(node.name)
                self.pre_binds.node_changed(node.name)
            case NodeGone(name=name):
                self.ledger.drop_node(name)
                self.pre_binds.node_changed(name)
            case NodesListed(nodes=nodes, unreadable=unreadable):
                self.synced.nodes = True
                self.moves.improved_by = queue_moves.NODE_ADD
                there = unreadable.union(node.name for node in nodes)
                for gone in sorted(self.ledger.columns.row_of.keys() - there):
                    self.ledger.drop_node(gone)
                for node in sorted(nodes, key=lambda node: node.name):
                    self.ledger.put_node(node)
                self.devices.charge_all()
                self.pre_binds.ask_again()
            case InventoryRead():
                self._inventory_read(event)
            case BudgetSeen() | BudgetGone() | BudgetsListed():
                self.preemption.planner.budgets_changed(event)
            case InventoryFailed(message=message):
                self.inventory_failure = message
            case _:
                self._object_changed(event)

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
            respread(event, self.profiles, self._parts.queues)
        else:
            self.ledger.improved.add(ANYWHERE)

    def wake_at(self, now: float) -> float | None:
        """When (s) to send TimePassed at the latest; `now` if there is work at once."""
        if self._reports.more or self.gang_cycles.reports.more or self._overcommitment.more:
            return now
        if self._group_edits.unsettled or self._card_changes.more:
            return now
        if self.pre_binds.unsettled:
            return now
        has_work = self._iterations.unfinished or self.pre_binds.has_ready
        if has_work and self._free_slots(1) > 0:
            return now
        next_at = min(
            self._binding_cycles.next_at,
            self.pre_binds.next_at,
            self.lingering.next_at,
            self._enqueuer.next_at,
            self._group_edits.next_at,
            self._enqueuer.reports_at,
            self._enqueuer.settles_at,
            self._reports.next_at,
            self.gang_cycles.next_at,
            self._overcommitment.next_at,
            self._policy.next_at,
            self.preemption.next_at,
            self._retries.next_at,
            self._flush.next_at,
            self._event_handlers.strays.next_at if self.decides else math.inf,
        )
        return None if next_at == math.inf else next_at

    def _use(self, profiles: Sequence[Profile], now: float) -> list[Effect]:
        """Decide by other plugins; waiting pods are sorted, gated and tried anew.

        Charges stay as they are. About 5 µs for each waiting pod.
        """
        assert {profile.scheduler_name for profile in profiles} == self.profiles.keys()
        self._parts.profiles.use(profiles)
        effects: list[Effect] = []
        waiting = []
        for record in self.records.values():
            if record.state in (PodState.WAITING, PodState.GATED, PodState.DELEGATED):
                waiting.append(record)
            elif record.node is not None and record.pod.scheduler_name in self.profiles:
                self._parts.profiles.calls.reserve(record.pod, record.node, record.allocation)
        self.pre_binds.ask_again()
        # What is known of shape queues came from the former plugins.
        self.queue.clear()
        self._enqueuer.start_anew()
        self.gang_cycles.start_anew()
        for record in waiting:
            effects += self._enqueuer.enqueue(record, now, queue_moves.FORCE_ACTIVATE)
        return effects

    def _report(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for failure, times in self.boundary.failures.to_log(now):
            plugin, point = failure.plugin, failure.point
            text, frames = str(failure), failure.traceback
            effects.append(LogPluginFailure(plugin, point, text, times, frames))
        if now >= self._enqueuer.reports_at:
            effects.extend(self._enqueuer.reported(now))
        if self._reports.more:
            effects.extend(self._reports.portion())
        if self.gang_cycles.reports.more:
            effects.extend(self.gang_cycles.reports.portion())
        if self._card_changes.more:
            effects.extend(self._card_changes.portion())
        return effects

    def _stand_by(self, now: float) -> list[Effect]:
        """Drop what is over while another scheduler decides, which may take weeks."""
        effects: list[Effect] = []
        self._card_changes.drop()
        self._end_lingering(now)
        if now >= self._enqueuer.next_at:
            effects += self._enqueuer.take_back(now)
        effects += self._group_edits.look(now, decides=False)
        return effects

    def _end_lingering(self, now: float) -> None:
        if now >= self.lingering.next_at:
            for uid in self.lingering.time_passed(now):
                self.preemption.left(uid)

    def _time_passed(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        self._end_lingering(now)
        if self.pre_binds.unsettled or now >= self.pre_binds.next_at:
            effects += self.pre_binds.look(now)
        # Before Binds, because it ends the repetition of some of them.
        if now >= self._policy.next_at:
            self._policy.time_passed(now)
        if now >= self.preemption.next_at:
            effects += self.preemption.time_passed(now)
        if self.gangs.by_key and now >= self.gang_cycles.next_at:
            effects += self.gang_cycles.time_passed(now)
        if now >= self._enqueuer.next_at:
            effects += self._enqueuer.take_back(now)
        effects += self._group_edits.look(now)
        if now >= self._binding_cycles.next_at:
            effects.extend(self._binding_cycles.send_again(now))
        if now >= self._reports.next_at:
            self._reports.refresh(self.evaluators, now)
        if self.decides and now >= self._event_handlers.strays.next_at:
            effects.extend(self._event_handlers.strays.time_passed(now))
        self._retries.look(now)
        self._flush.look(now)
        effects.extend(self._overcommitment.look(now))
        return effects

    # --- decisions -----------------------------------------------------------------------------

    def _free_slots(self, slots: int) -> int:
        unanswered = self._binding_cycles.unanswered
        return min(slots, MAX_UNANSWERED - unanswered) if self.synced.ready else 0

    # --- inventory -----------------------------------------------------------------------------

    def _inventory_read(self, event: InventoryRead) -> None:
        self.moves.improved_by = queue_moves.INVENTORY_READ
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
