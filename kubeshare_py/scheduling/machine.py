"""The scheduler's state machine: `handle(event, now) -> effects` is all that changes its state.

No clock, no I/O. Production, simulation, explanation and tests run this same code. Every event is
legal in every state: answers may come late, twice, or for pods that are long gone.
"""

import math
from collections.abc import Sequence
from typing import assert_never

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    BudgetEvent,
    BudgetGone,
    BudgetSeen,
    BudgetsListed,
    ClusterEvent,
    Event,
    InventoryFailed,
    InventoryRead,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodGroupEvent,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
    PodSeen,
    PodsListed,
    TimePassed,
)
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.asks import Asker, Work
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling import outsiders, queue_moves
from kubeshare_py.scheduling.attempts import Attempts
from kubeshare_py.scheduling.binds import Binds
from kubeshare_py.scheduling.cycle import Cycle
from kubeshare_py.scheduling.earmarks import Earmarks
from kubeshare_py.scheduling.gang_repair import RepairRules
from kubeshare_py.scheduling.gang_turns import Books, GangTurns
from kubeshare_py.scheduling.gangs import Gangs
from kubeshare_py.scheduling.intake import Intake
from kubeshare_py.scheduling.overcommitment import Overcommitment
from kubeshare_py.scheduling.pod_queue import PodQueue
from kubeshare_py.scheduling.pod_records import Record, State
from kubeshare_py.scheduling.preemption import Preemption
from kubeshare_py.scheduling.queue_moves import QueueMoves
from kubeshare_py.scheduling.starvation import Starvation
from kubeshare_py.scheduling.turns import Turns
from kubeshare_py.scheduling.waiting_reports import WaitingReports

#: Placements that may be decided and not yet answered.
MOST_UNANSWERED = 64


class Machine:
    """Decides where pods go. `name` makes its decision tokens unique among scheduler processes."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        name: str,
        repair: RepairRules | None = None,
        earmark_after_s: float = 60.0,
        preemption_patience_s: float = 120.0,
    ) -> None:
        """The first of those that wait gets earmarks after `earmark_after_s`, at 0 never.

        Victims that have not left after `preemption_patience_s` are not waited for any longer.
        """
        self.name = name
        self.ledger = Ledger()
        self.queue = PodQueue()
        self.records: dict[PodUid, Record] = {}
        self.profiles = {profile.scheduler_name: profile for profile in profiles}
        work = self._work = Work()
        self.askers = {
            profile.scheduler_name: Asker(profile, self.ledger, work) for profile in profiles
        }
        self.inventory_read = False
        self.inventory_failure = ""
        self.silent_nodes: frozenset[NodeName] = frozenset()
        self.attempts = Attempts()
        self.moves = QueueMoves()
        self._now = 0.0
        self._pods_listed = self._nodes_listed = False
        #: Whether it was ever asked to decide, or stands by: what is bound from then on by others
        #: is news.
        self.decides = False
        self._reports = WaitingReports(self.queue, self.records)
        self._overcommitment = Overcommitment(self.ledger, self._key_of)
        books = (self.ledger, self.queue, self.moves)
        self._cycle = Cycle(*books, self.askers, self.profiles, work, name)
        self.gangs = Gangs()
        self.earmarks = Earmarks(self.ledger)
        self.group_objects = self.gangs.objects
        intake = self._intake = Intake(
            self.records,
            self.queue,
            self.moves,
            self.profiles,
            self._reports,
            self.gangs,
            self.earmarks,
        )
        binds = self._binds = Binds(
            self.records, self._cycle, intake, self.moves, self.attempts, self.gangs
        )
        everything = Books(
            ledger=self.ledger,
            queue=self.queue,
            moves=self.moves,
            attempts=self.attempts,
            askers=self.askers,
            cycle=self._cycle,
            intake=intake,
            binds=binds,
            gangs=self.gangs,
            work=work,
            earmarks=self.earmarks,
        )
        gang_turns = self.gang_turns = GangTurns(everything, self.profiles, repair or RepairRules())
        self._starvation = Starvation(everything, gang_turns, self.records, earmark_after_s)
        self.preemption = Preemption(
            everything, self.records, self.profiles, gang_turns, preemption_patience_s
        )
        self._turns = Turns(
            everything, self.records, self._reports, gang_turns, self._starvation, self.preemption
        )

    @property
    def ready(self) -> bool:
        """Whether pods and nodes are known: before that nothing is placed."""
        return self._pods_listed and self._nodes_listed

    @property
    def unanswered(self) -> int:
        """Placements decided and not yet answered."""
        return self._binds.unanswered

    def age_s(self, since: float) -> float:
        """How long ago that was when the last event was handled, in seconds."""
        return self._now - since

    def use_profiles(self, profiles: Sequence[Profile], now: float) -> list[Effect]:
        """Decide by other plugins from now on; who waits is sorted, held and tried anew.

        What pods hold stays as it is. The profiles must be for the same scheduler names: pods of
        others are not remembered. Not an event, because plugins are no values: a history that is
        to be replayed begins after it. One turn, about 5 us for each pod that waits.
        """
        self._now = now
        assert {profile.scheduler_name for profile in profiles} == self.profiles.keys()
        for profile in profiles:
            self.profiles[profile.scheduler_name] = profile
            self.askers[profile.scheduler_name] = Asker(profile, self.ledger, self._work)
        self.gang_turns.use_profiles(self.profiles)
        effects: list[Effect] = []
        waiting = []
        for record in self.records.values():
            if record.state in (State.WAITING, State.HELD):
                waiting.append(record)
            elif record.node is not None and record.pod.scheduler_name in self.profiles:
                for plugin in self.profiles[record.pod.scheduler_name].reserves:
                    plugin.reserve(record.pod, record.node, record.allocation)
        # What is known of the lines is what the plugins of before said.
        self.queue.clear()
        self.gang_turns.start_anew()
        for record in waiting:
            self._intake.enqueue(record, self._now, effects, queue_moves.FORCE_ACTIVATE)
        return effects

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event in, at monotonic time `now` in seconds; answer what is to be done."""
        effects: list[Effect] = []
        self._now = now
        match event:
            case PodSeen(pod):
                self._pod_seen(pod, effects)
            case PodGone(uid, finished):
                self._pod_gone(uid)
                if finished is not None:
                    self.gangs.finish(finished)
            case BindAnswered():
                self._binds.answered(event, now, effects)
            case BindSlotsFree(slots):
                self.decides = True
                self._time_passed(now, effects)
                if self._turns.unfinished:
                    known = self.ready, self.inventory_read
                    self._turns.run(self._free_slots(slots), known, now, effects)
                self._report(effects)
            case TimePassed():
                self._time_passed(now, effects)
                self._report(effects)
            case PodsListed():
                self._pods_listed_now(event, now, effects)
            case PodGroupSeen() | PodGroupGone() | PodGroupsListed():
                self._groups_changed(event, effects)
            case _:
                self._cluster_changed(event)
        return effects

    def _cluster_changed(self, event: ClusterEvent | BudgetEvent) -> None:
        match event:
            case NodeSeen(node):
                known = node.name in self.ledger.columns.row_of
                self.moves.improved_by = queue_moves.NODE_UPDATE if known else queue_moves.NODE_ADD
                self.ledger.put_node(node)
            case NodeGone(name):
                self.ledger.drop_node(name)
            case NodesListed(nodes):
                self._nodes_listed = True
                self.moves.improved_by = queue_moves.NODE_ADD
                for gone in sorted(self.ledger.columns.row_of.keys() - {n.name for n in nodes}):
                    self.ledger.drop_node(gone)
                for node in sorted(nodes, key=lambda node: node.name):
                    self.ledger.put_node(node)
            case InventoryRead():
                self._inventory_read(event)
            case BudgetSeen() | BudgetGone() | BudgetsListed():
                self.preemption.planner.budgets_changed(event)
            case InventoryFailed(message):
                self.inventory_failure = message
            case _:
                assert_never(event)

    def wake_at(self, now: float) -> float | None:
        """When to send TimePassed at the latest; `now` when there is more to do at once."""
        if self._reports.more or self.gang_turns.reports.more or self._overcommitment.more:
            return now
        if self._turns.unfinished and self._free_slots(1) > 0:
            return now
        next_at = min(
            self._binds.next_at,
            self._intake.next_at,
            self._reports.next_at,
            self.gang_turns.next_at,
            self._overcommitment.next_at,
            self._starvation.next_at,
            self.preemption.next_at,
        )
        return None if next_at == math.inf else next_at

    def _report(self, effects: list[Effect]) -> None:
        if self._reports.more:
            effects.extend(self._reports.portion())
        if self.gang_turns.reports.more:
            effects.extend(self.gang_turns.reports.portion())

    # --- pods ----------------------------------------------------------------------------------

    def _key_of(self, uid: PodUid) -> PodKey:
        return self.records[uid].pod.key

    def _pod_seen(self, pod: Pod, effects: list[Effect], *, is_news: bool = True) -> None:
        record = self.records.get(pod.uid)
        if pod.group_reference is not None:
            pod = self.group_objects.resolved(pod)
        if pod.node_name is not None:
            self._seen_bound(pod, pod.node_name, record, effects, is_news)
        elif pod.scheduler_name not in self.profiles:
            if record is not None and record.state in (State.HELD, State.WAITING, State.BACKOFF):
                self._pod_gone(pod.uid)
        elif record is None:
            self._intake.enqueue(Record(pod, State.HELD), self._now, effects, queue_moves.POD_ADD)
        elif record.state in (State.HELD, State.WAITING, State.BACKOFF):
            if _matters(record.pod, pod):
                event = queue_moves.update_event(record.pod, pod)
                self._enqueue_again(record, pod, effects, event)
            else:
                record.pod = pod
        elif record.state is not State.BOUND:
            record.pod = pod  # an older view of a pod that we have bound meanwhile
            self.gangs.file(record)
        self.preemption.seen(self.records.get(pod.uid), self._now)

    def _enqueue_again(self, record: Record, pod: Pod, effects: list[Effect], event: str) -> None:
        self._leave_queue(pod.uid)
        self.gangs.leave(pod.uid)
        record.pod = pod
        self._intake.enqueue(record, self._now, effects, event)

    def _groups_changed(self, event: PodGroupEvent, effects: list[Effect]) -> None:
        for key in self.group_objects.change(event):
            for record in self.gangs.declare(key, self.group_objects.minimum(key)):
                if record.state in (State.HELD, State.WAITING, State.BACKOFF):
                    pod = self.group_objects.resolved(record.pod)
                    self._enqueue_again(record, pod, effects, queue_moves.POD_GROUP_CHANGED)

    def _seen_bound(
        self,
        pod: Pod,
        node: NodeName,
        record: Record | None,
        effects: list[Effect],
        is_news: bool,
    ) -> None:
        is_ours = pod.scheduler_name in self.profiles
        if record is None:
            record = self.records[pod.uid] = Record(pod, State.HELD)
        if record.state is State.BOUND and record.node == node:
            # What it holds was settled when it was bound: whoever edits the annotation of a bound
            # pod takes no card and frees none. A resize changes what it takes of the node.
            if pod.shape.resources != record.pod.shape.resources:
                self.ledger.charge(pod.uid, node, pod.shape.resources, record.allocation)
            effects.extend(outsiders.changed(record.pod, pod, is_ours))
            record.pod = pod
            self.gangs.file(record)
            return
        ours = record.allocation
        if ours is not None and record.node == node and _token(pod) == ours.token:
            self._binds.seen(record, node, effects)
        else:
            self._binds.release(record)
            self._leave_queue(pod.uid)
            record.pod = pod
            self._cycle.charge(record, node, pod.allocation)
            if is_news:
                effects.extend(outsiders.placed_by_another(pod))
        effects.extend(outsiders.troubles(pod, is_ours))
        record.pod, record.state = pod, State.BOUND
        self.gangs.file(record)

    def _pod_gone(self, uid: PodUid) -> None:
        record = self.records.pop(uid, None)
        if record is not None:
            self._leave_queue(uid)
            self._binds.release(record)
        self.gangs.gone(uid)
        self.preemption.gone(uid)

    def _leave_queue(self, uid: PodUid) -> None:
        self.queue.remove(uid)
        self.earmarks.end(uid)

    def _pods_listed_now(self, event: PodsListed, now: float, effects: list[Effect]) -> None:
        self._pods_listed = True
        listed = {pod.uid: pod for pod in event.pods}
        for uid in [uid for uid in self.records if uid not in listed]:
            if uid not in event.unreadable:
                self._pod_gone(uid)
        for uid, pod in listed.items():
            record = self.records.get(uid)
            never_stored = (
                record is not None
                and record.state is State.ASSUMED
                and pod.node_name is None
                and event.asked_at > record.answered_at
            )
            if never_stored and record is not None:
                self._binds.release(record)
                record.pod = self.group_objects.resolved(pod)
                self._intake.back_off(record, now)
            else:
                self._pod_seen(pod, effects, is_news=self.decides)
        self.gangs.finished_are(event.finished)
        if not self.decides:
            self.gangs.recall()

    def _time_passed(self, now: float, effects: list[Effect]) -> None:
        # First, because it ends that some Binds are sent again.
        if now >= self._starvation.next_at:
            self._starvation.time_passed(now)
        if now >= self.preemption.next_at:
            self.preemption.time_passed(now, effects)
        if self.gangs.by_key and now >= self.gang_turns.next_at:
            self.gang_turns.time_passed(now, effects)
        if now >= self._intake.next_at:
            self._intake.take_back(now, effects)
        if now >= self._binds.next_at:
            self._binds.send_again(now, effects)
        if now >= self._reports.next_at:
            self._reports.refresh(self.askers, now)
        effects.extend(self._overcommitment.look(now))

    # --- decisions -----------------------------------------------------------------------------

    def _free_slots(self, slots: int) -> int:
        return min(slots, MOST_UNANSWERED - self._binds.unanswered) if self.ready else 0

    # --- inventory -----------------------------------------------------------------------------

    def _inventory_read(self, event: InventoryRead) -> None:
        self.moves.improved_by = queue_moves.INVENTORY_READ
        for name, gpus in event.changed:
            self.ledger.put_cards(name, gpus)
        if event.more:
            return
        self.inventory_failure = ""
        self.silent_nodes = frozenset(event.silent)
        if not self.inventory_read:
            self.inventory_read = self._reports.inventory_read = True
            for line in self.queue.blocked():
                line.diagnosis = None
                self.moves.woken(len(line.waiting))
                self.queue.wake(line)


def _token(pod: Pod) -> DecisionToken | None:
    return pod.allocation.token if pod.allocation is not None else None


def _matters(old: Pod, new: Pod) -> bool:
    """Whether a change of a waiting pod may change what happens to it; its status may not."""
    return (
        old.shape != new.shape
        or old.gates != new.gates
        or old.problem != new.problem
        or old.group != new.group
        or old.group_reference != new.group_reference
        or old.unsupported != new.unsupported
        or old.deleting != new.deleting
        or (old.priority, old.label_priority) != (new.priority, new.label_priority)
    )
