"""The scheduler's state machine: `handle(event, now) -> effects` is all that changes its state.

No clock, no I/O. Production, simulation, explanation and tests run this same code. Every event is
legal in every state: answers may come late, twice, or for pods that are long gone.
"""

import math
from collections.abc import Sequence
from typing import assert_never

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import Bind, Effect, ReportScheduled, ReportWaiting
from kubeshare_py.domain.events import (
    BindAnswered,
    BindRefused,
    BindSlotsFree,
    BindUnknown,
    Bound,
    ClusterEvent,
    Event,
    InventoryFailed,
    InventoryRead,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
    TimePassed,
)
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.asks import Asker, Work
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling import outsiders, queue_moves
from kubeshare_py.scheduling.attempts import Attempts, count
from kubeshare_py.scheduling.cycle import Cycle
from kubeshare_py.scheduling.overcommitment import Overcommitment
from kubeshare_py.scheduling.pod_queue import Line, PodQueue
from kubeshare_py.scheduling.pod_records import Record, State
from kubeshare_py.scheduling.queue_moves import QueueMoves
from kubeshare_py.scheduling.timers import Timers, backoff_s
from kubeshare_py.scheduling.waiting_reports import WaitingReports

#: Placements that may be decided and not yet answered.
MOST_UNANSWERED = 64


class Machine:
    """Decides where pods go. `name` makes its decision tokens unique among scheduler processes."""

    def __init__(self, profiles: Sequence[Profile], name: str) -> None:
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
        self._unanswered: dict[DecisionToken, PodUid] = {}
        self._resend: Timers[DecisionToken] = Timers()
        self._backoff: Timers[tuple[PodUid, int]] = Timers()
        self._reports = WaitingReports(self.queue, self.records)
        self._overcommitment = Overcommitment(self.ledger, self._key_of)
        books = (self.ledger, self.queue, self.moves)
        self._cycle = Cycle(*books, self.askers, self.profiles, work, name)

    @property
    def ready(self) -> bool:
        """Whether pods and nodes are known: before that nothing is placed."""
        return self._pods_listed and self._nodes_listed

    @property
    def unanswered(self) -> int:
        """Placements decided and not yet answered."""
        return len(self._unanswered)

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
        for record in waiting:
            self._enqueue(record, effects, queue_moves.FORCE_ACTIVATE)
        return effects

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event in, at monotonic time `now` in seconds; answer what is to be done."""
        effects: list[Effect] = []
        self._now = now
        match event:
            case PodSeen(pod):
                self._pod_seen(pod, effects)
            case PodGone(uid):
                self._pod_gone(uid)
            case BindAnswered():
                self._bind_answered(event, now, effects)
            case BindSlotsFree(slots):
                self.decides = True
                self._time_passed(now, effects)
                if self._cycle.unfinished:
                    self._decide(slots, now, effects)
                if self._reports.more:
                    effects.extend(self._reports.portion())
            case TimePassed():
                self._time_passed(now, effects)
                effects.extend(self._reports.portion())
            case PodsListed():
                self._pods_listed_now(event, now, effects)
            case _:
                self._cluster_changed(event)
        return effects

    def _cluster_changed(self, event: ClusterEvent) -> None:
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
            case InventoryFailed(message):
                self.inventory_failure = message
            case _:
                assert_never(event)

    def wake_at(self, now: float) -> float | None:
        """When to send TimePassed at the latest; `now` when there is more to do at once."""
        idle = not (self._reports.more or self._overcommitment.more)
        if not idle or (self._cycle.unfinished and self._free_slots(1)):
            return now
        next_at = min(
            self._resend.next_at,
            self._backoff.next_at,
            self._reports.next_at,
            self._overcommitment.next_at,
        )
        return None if next_at == math.inf else next_at

    # --- pods ----------------------------------------------------------------------------------

    def _key_of(self, uid: PodUid) -> PodKey:
        return self.records[uid].pod.key

    def _pod_seen(self, pod: Pod, effects: list[Effect], *, is_news: bool = True) -> None:
        record = self.records.get(pod.uid)
        if pod.node_name is not None:
            self._seen_bound(pod, pod.node_name, record, effects, is_news)
        elif pod.scheduler_name not in self.profiles:
            if record is not None and record.state in (State.HELD, State.WAITING, State.BACKOFF):
                self._pod_gone(pod.uid)
        elif record is None:
            self._enqueue(Record(pod, State.HELD), effects, queue_moves.POD_ADD)
        elif record.state in (State.HELD, State.WAITING, State.BACKOFF):
            if _matters(record.pod, pod):
                event = queue_moves.update_event(record.pod, pod)
                self.queue.remove(pod.uid)
                record.pod = pod
                self._enqueue(record, effects, event)
            else:
                record.pod = pod
        elif record.state is not State.BOUND:
            record.pod = pod  # an older view of a pod that we have bound meanwhile

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
            return
        ours = record.allocation
        if ours is not None and record.node == node and _token(pod) == ours.token:
            if record.state is State.BINDING:
                # Seen is answered: the answer itself may be lost, and nobody will send again.
                self._unanswered.pop(ours.token, None)
                self._scheduled(record, node, effects)
        else:
            self._release(record)
            self.queue.remove(pod.uid)
            record.pod = pod
            self._cycle.charge(record, node, pod.allocation)
            if is_news:
                effects.extend(outsiders.placed_by_another(pod))
        effects.extend(outsiders.troubles(pod, is_ours))
        record.pod, record.state = pod, State.BOUND

    def _pod_gone(self, uid: PodUid) -> None:
        record = self.records.pop(uid, None)
        if record is not None:
            self.queue.remove(uid)
            self._release(record)

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
                self._release(record)
                record.pod = pod
                self._back_off(record, now)
            else:
                self._pod_seen(pod, effects, is_news=self.decides)

    # --- the queue -----------------------------------------------------------------------------

    def _enqueue(self, record: Record, effects: list[Effect], event: str) -> None:
        """Let the pod wait for a place, or hold it and say why; `event` made it come."""
        pod = record.pod
        self.records[pod.uid] = record
        profile = self.profiles[pod.scheduler_name]
        reason = self._hold_reason(pod, profile)
        if reason is None:
            record.state = State.WAITING
            record.told = None
            record.key = profile.queue_sort.key(pod)
            if record.queued_at is None:
                record.queued_at = self._now
            line = self.queue.add(pod.uid, record.key, pod.scheduler_name, pod.shape)
            into = queue_moves.UNSCHEDULABLE if line.blocked else queue_moves.ACTIVE
            self.moves.entered(into, event)
            if line.blocked and (self.inventory_read or line.shape.claim is None):
                self._reports.joined(line)
            return
        record.state = State.HELD
        self.moves.entered(queue_moves.UNSCHEDULABLE, event)
        if reason:
            self._tell(record, reason, effects)

    def _hold_reason(self, pod: Pod, profile: Profile) -> str | None:
        """None to let it wait, else why it is held; empty when its owner need not be told."""
        if pod.gates or pod.deleting:
            return ""  # the API server reports gates itself
        if pod.problem is not None:
            return str(pod.problem)
        if pod.unsupported:
            return f"not supported yet: {', '.join(pod.unsupported)}"
        if pod.group is not None and pod.group.min_available > 1:
            return (
                f'pod group "{pod.group.name}" needs {pod.group.min_available} pods to start '
                "together: gang scheduling is not supported yet"
            )
        for plugin in profile.pre_enqueue:
            reason = plugin.pre_enqueue(pod)
            if reason is not None:
                return reason
        return None

    def _tell(self, record: Record, sentence: str, effects: list[Effect]) -> None:
        diagnosis = Diagnosis(sentence=sentence)
        if record.told != diagnosis:
            record.told = diagnosis
            effects.append(ReportWaiting(record.pod.uid, record.pod.key, diagnosis))

    def _back_off(self, record: Record, now: float) -> None:
        record.state = State.BACKOFF
        record.tries += 1
        self.moves.entered(queue_moves.BACKOFF, queue_moves.ATTEMPT_FAILURE)
        self._backoff.add(now + backoff_s(record.tries), (record.pod.uid, record.tries))

    def _time_passed(self, now: float, effects: list[Effect]) -> None:
        if now >= self._backoff.next_at:
            for uid, tries in self._backoff.due(now):
                record = self.records.get(uid)
                if record is not None and record.state is State.BACKOFF and record.tries == tries:
                    self._enqueue(record, effects, queue_moves.BACKOFF_COMPLETE)
        if now >= self._resend.next_at:
            for token in self._resend.due(now):
                record = self.records.get(self._unanswered.get(token, PodUid("")))
                if record is not None and record.state is State.BINDING:
                    effects.append(_bind(record))
        if now >= self._reports.next_at:
            self._reports.refresh(self.askers, now)
        effects.extend(self._overcommitment.look(now))

    # --- decisions -----------------------------------------------------------------------------

    def _free_slots(self, slots: int) -> int:
        return min(slots, MOST_UNANSWERED - len(self._unanswered)) if self.ready else 0

    def _decide(self, slots: int, now: float, effects: list[Effect]) -> None:
        free = self._free_slots(slots)
        self._cycle.begin_turn()
        while free > 0 and self._cycle.may_go_on():
            line = self.queue.next_line()
            if line is None:
                break
            head = line.head()
            assert head is not None
            record = self.records[head[1]]
            record.attempts += 1
            if line.shape.claim is not None and not self.inventory_read:
                self._block(line)
                self._reports.unread(line, now)
                continue
            choice = self.askers[line.profile].best(line.shape)
            if choice is None:
                self._block(line)
                self._reports.blocked(line, self.askers[line.profile], now)
                continue
            self.queue.remove(record.pod.uid)
            refusal = self._cycle.place(record, choice)
            if refusal is not None:
                count(self.attempts.unschedulable, line.profile)
                self._tell(record, refusal, effects)
                self._back_off(record, now)
                continue
            assert record.allocation is not None
            self._unanswered[record.allocation.token] = record.pod.uid
            effects.append(_bind(record))
            free -= 1

    def _block(self, line: Line) -> None:
        count(self.attempts.unschedulable, line.profile)
        self.moves.entered(
            queue_moves.UNSCHEDULABLE, queue_moves.ATTEMPT_FAILURE, len(line.waiting)
        )
        self.queue.block(line)

    def _release(self, record: Record) -> None:
        if record.node is None:
            return
        self.moves.improved_by = queue_moves.ASSIGNED_POD_DELETE
        if record.allocation is not None:
            self._unanswered.pop(record.allocation.token, None)
        self._cycle.release(record)

    def _scheduled(self, record: Record, node: NodeName, effects: list[Effect]) -> None:
        count(self.attempts.scheduled, record.pod.scheduler_name)
        effects.append(ReportScheduled(record.pod.uid, record.pod.key, node))

    def _bind_answered(self, event: BindAnswered, now: float, effects: list[Effect]) -> None:
        record = self.records.get(event.uid)
        current = (
            record is not None
            and record.allocation is not None
            and record.allocation.token == event.token
        )
        if record is None or not current or record.state is not State.BINDING:
            # Late, or the watch was faster: the pod is gone, bound, or decided anew.
            return
        match event.outcome:
            case Bound():
                del self._unanswered[event.token]
                record.state = State.ASSUMED
                record.answered_at = now
                assert record.node is not None
                self._scheduled(record, record.node, effects)
            case BindRefused(_, message):
                count(self.attempts.failed, record.pod.scheduler_name)
                self._release(record)
                self._tell(record, f"binding was refused: {message}", effects)
                self._back_off(record, now)
            case BindUnknown(_, retry_after_s):
                record.tries += 1
                wait = max(backoff_s(record.tries), retry_after_s)
                self._resend.add(now + wait, event.token)
            case _:
                assert_never(event.outcome)

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
            self.inventory_read = True
            for line in self.queue.blocked():
                line.diagnosis = None
                self.moves.woken(len(line.waiting))
                self.queue.wake(line)


def _bind(record: Record) -> Bind:
    assert record.node is not None
    assert record.allocation is not None
    pod = record.pod
    return Bind(pod.uid, pod.key, record.node, record.allocation, pod.stale_results)


def _token(pod: Pod) -> DecisionToken | None:
    return pod.allocation.token if pod.allocation is not None else None


def _matters(old: Pod, new: Pod) -> bool:
    """Whether a change of a waiting pod may change what happens to it; its status may not."""
    return (
        old.shape != new.shape
        or old.gates != new.gates
        or old.problem != new.problem
        or old.group != new.group
        or old.unsupported != new.unsupported
        or old.deleting != new.deleting
        or (old.priority, old.label_priority) != (new.priority, new.label_priority)
        or old.stale_results != new.stale_results
    )
