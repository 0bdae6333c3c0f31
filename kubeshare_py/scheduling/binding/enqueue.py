"""How a pod comes to wait.

Gated with a reason, in the queue of its shape, or in backoff first.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import Effect, ReportWaiting
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.printable import listed
from kubeshare_py.framework.answer_checks import SortKeys
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.plugin_calls import PluginCalls
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.binding.assume import NO_DEVICES, allocates_devices
from kubeshare_py.scheduling.binding.delegated_pods import not_allowed
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.asked_shapes import AskedShapes
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueueKey, SortKey
from kubeshare_py.scheduling.queue.pod_records import UNDECIDED, PodState, Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.queue_rules import QueueRules
from kubeshare_py.scheduling.queue.reservations import Contender, Reservations
from kubeshare_py.scheduling.queue.timers import BACKOFF, Timers, backoff_s
from kubeshare_py.scheduling.queue.waiting_limit import MAX_WAITING, WaitingLimit, WaitingUnit
from kubeshare_py.scheduling.queue.waiting_reports import WaitingReports

#: The most pods that join the queue at once when they come in from outside, and the most reports at
#: once to pods that stay outside: most of a large backlog is placed before.
MAX_JOIN, MAX_REPORTED = 500, 256
#: A gang enters and leaves whole, however large: after more than `MAX_JOIN` pods at once, none
#: enters or leaves until the rate is below this.
PODS_MOVED_A_SECOND = 8000
OUTSIDE_PATIENCE_S = 30.0
#: Seconds without an edit after which a pod's next edit counts at once again.
CALM_S = 10.0
_UNPLACED = (PodState.NEW, *UNDECIDED)


class Enqueuer:
    """Enqueues and gates pods; keeps the pods in backoff."""

    def __init__(
        self,
        table: PodTable,
        queue: PodQueue,
        calls: PluginCalls,
        reports: WaitingReports,
        gangs: Gangs,
        reservations: Reservations,
        shapes: AskedShapes,
    ) -> None:
        self._table = table
        self._shapes = shapes
        self.refused = shapes.refused
        self._records = table.records
        self._queue = queue
        self._moves = table.moves
        self._profiles = calls.profiles
        self._reports = reports
        self._gangs = gangs
        self._reservations = reservations
        self._calls = calls
        self.limit = WaitingLimit(MAX_WAITING)
        self.backoff = BACKOFF
        #: Pods outside of the queue without a report, and since when (s) they are there.
        self._unreported: dict[PodUid, float] = {}
        self._moves_rest_until = 0.0
        self._keys = SortKeys()
        self._backoff: Timers[tuple[PodUid, int]] = Timers()
        self._edited: Timers[PodUid] = Timers()

    def use(self, rules: QueueRules) -> None:
        """Keep to these rules; only before the first pod comes."""
        self.limit, self.backoff = WaitingLimit(rules.max_waiting), rules.backoff

    @property
    def next_at(self) -> float:
        """When (s) the next backoff ends, or a refusal of nodes; infinity if there is none."""
        return min(self._backoff.next_at, self._edited.next_at, self.refused.next_at)

    @property
    def reports_at(self) -> float:
        """When (s) the next pod is to be reported as outside; infinity if none is."""
        return next(iter(self._unreported.values()), math.inf) + OUTSIDE_PATIENCE_S

    def enqueue(
        self,
        record: Record,
        now: float,
        event: str,
    ) -> Sequence[Effect]:
        """Let the pod wait for a place, or gate it with a reason; `event` is the cause.

        If a plugin fails, it is tried again after a while.
        """
        pod = record.pod
        profile = self._profiles[pod.scheduler_name]
        record.fixed = None
        record.asked = self._shapes.of(pod, profile)
        record.shape_version = self._shapes.version(profile)
        if profile.extender:
            self._table.transition(record, PodState.DELEGATED)
            return ()
        try:
            reason = self._gate_reason(pod, profile)
            if reason is None:
                # Pods that the profile sorts equal are ordered by arrival.
                record.key = self._calls.key(pod, self._keys), record.arrived
        except PluginFailed as failure:
            self._leave_limit(record)
            effects = report_waiting(record, str(failure), WaitingReason.SCHEDULER_ERROR)
            self.back_off(record, now)
            return effects
        if reason is None and self._gangs.pauses(pod):
            self.pause(record, event)
        elif reason is None:
            if self.limit.put(pod, record.key):
                self._join(record, now, event)
            else:
                self._stay_outside(record, now, event)
        else:
            return self.gate(record, reason, event)
        return ()

    def is_stale(self, record: Record) -> bool:
        """Whether the pod's shape is another one than when it was enqueued."""
        pod, profile = record.pod, self._profiles[record.pod.scheduler_name]
        version = self._shapes.version(profile)
        if record.shape_version == version:
            return False
        record.shape_version = version
        return self._shapes.of(pod, profile) != record.asked

    def asks_otherwise(self, record: Record, pod: Pod) -> bool:
        """Whether a waiting pod's shape is another one by the labels and controller it has now."""
        return self._shapes.of(pod, self._profiles[pod.scheduler_name]) != record.asked

    def shape_of(self, pod: Pod) -> Shape:
        """The shape by which a place would be searched for the pod, if it came now."""
        return self._shapes.of(pod, self._profiles[pod.scheduler_name]) or pod.shape

    def gate(self, record: Record, reason: str, event: str) -> Sequence[Effect]:
        """Do not try the pod, and report the reason if there is one."""
        self._leave_limit(record)
        self._table.transition(record, PodState.GATED, event)
        return report_waiting(record, reason, WaitingReason.NOT_READY) if reason else ()

    def pause(self, record: Record, event: str) -> None:
        """Take the pod out of the queue; it is enqueued later, by its key at that time."""
        self._leave_limit(record)
        self._table.transition(record, PodState.BACKOFF, event)

    def _join(self, record: Record, now: float, event: str) -> None:
        """Add the pod to the queue."""
        record.is_outside = False
        record.reported = None
        if record.queued_at is None:
            record.queued_at = now
        gang = self._table.transition(record, PodState.WAITING)
        if gang is None or not gang.needs_quorum:
            self.join_queue(record, gang, event)
        else:
            # Its key is computed once all needed members of its gang are there.
            record.key = ()
            self._moves.entered(queue_moves.ACTIVE, event)

    def changed(self, record: Record, before: PodState) -> None:
        """A pod that has a place now lets another of its namespace enter (`settle`)."""
        if before in _UNPLACED and record.state not in _UNPLACED:
            self._leave_limit(record)

    def removed(self, uid: PodUid) -> None:
        """So does a pod that is not there any more."""
        self._leave(uid)
        if self.refused.pods:
            self.refused.forget(uid)

    def _leave_limit(self, record: Record) -> None:
        self._leave(record.pod.uid)
        record.is_outside = False

    def _leave(self, uid: PodUid) -> None:
        self.limit.leave(uid)
        self._unreported.pop(uid, None)

    def _stay_outside(self, record: Record, now: float, event: str) -> None:
        record.is_outside = True
        record.reported = self.limit.reason(record.pod)
        self._unreported.setdefault(record.pod.uid, now)
        self._table.transition(record, PodState.GATED, event)

    @property
    def settles_at(self) -> float:
        """When (s) pods are to enter the queue or to leave it; infinity if none are."""
        return self._moves_rest_until if self.limit.moved else math.inf

    def settle(self, now: float) -> None:
        """Let pods enter or leave the queue, as the limit requires.

        Some at a time; all that must leave before any that may enter.
        """
        moved = self.limit.moved
        if not moved or now < self._moves_rest_until:
            return
        left = self._put_out(now)
        joined = 0
        while moved and joined < MAX_JOIN:
            unit = next(iter(moved))
            del moved[unit]
            joined += self._let_in(unit, now)
        if left + joined > MAX_JOIN:
            self._moves_rest_until = now + (left + joined) / PODS_MOVED_A_SECOND

    def _put_out(self, now: float) -> int:
        """Let all pods leave that must; how many did."""
        count = 0
        for unit in [unit for unit in self.limit.moved if not unit.is_inside]:
            del self.limit.moved[unit]
            for uid in unit.pods:
                if not self._records[uid].is_outside:
                    self._reservations.end(uid)
                    self._stay_outside(self._records[uid], now, queue_moves.FORCE_ACTIVATE)
                    count += 1
        return count

    def _let_in(self, unit: WaitingUnit, now: float) -> int:
        """Let its pods enter the queue; how many did."""
        count = 0
        for uid in unit.pods:
            if self._records[uid].is_outside:
                self._unreported.pop(uid, None)
                self._join(self._records[uid], now, queue_moves.FORCE_ACTIVATE)
                count += 1
        return count

    def reported(self, now: float) -> Iterator[ReportWaiting]:
        """Reports for some of the pods that have been outside for a while without one."""
        due = now - OUTSIDE_PATIENCE_S
        for uid, since in list(islice(self._unreported.items(), MAX_REPORTED)):
            if since > due:
                return
            del self._unreported[uid]
            record = self._records[uid]
            if record.is_outside and record.reported is not None:
                yield ReportWaiting(uid, record.pod.key, record.reported)

    def join_queue(self, record: Record, gang: Gang | None, event: str) -> None:
        """Let the pod wait for a place of its own; members of a gang are as old as the first.

        The key of a pod without a gang must be set.
        """
        pod = record.pod
        if gang is not None:
            record.key = self.key(record, gang)
        place_of = None
        if gang is not None and pod.group is not None and pod.group.within:
            place_of = (gang.namespace, f"{gang.name} {next(iter(gang.owners))}", pod.group.within)
        alone = pod.uid if record.remark or self._reservations.is_preemptor(pod.uid) else None
        queue_key = ShapeQueueKey(pod.scheduler_name, record.shape, place_of, pod.preempts, alone)
        shape_queue = self._queue.add(pod.uid, record.key, queue_key, pod.key.namespace)
        if shape_queue.unschedulable and self._reservations:
            contender = Contender(pod.uid, record.key, (pod,))
            if self._reservations.takes_precedence(contender):
                # Pods that wait in it may not see these places as free.
                self._queue.activate(shape_queue)
        self._moves.entered(
            queue_moves.UNSCHEDULABLE if shape_queue.unschedulable else queue_moves.ACTIVE, event
        )
        if shape_queue.unschedulable:
            self._reports.newcomers(shape_queue)

    def key(self, record: Record, gang: Gang) -> SortKey:
        """The sort key of a gang's member: that of its first one, then its own arrival."""
        return *self.gang_key(record, gang), record.arrived

    def gang_key(self, last: Record, gang: Gang) -> SortKey:
        """The sort key of a gang: this member's priority, and the age of its first one."""
        created, arrived = gang.first
        pod = last.pod if last.pod.created == created else replace(last.pod, created=created)
        return self._sorted_by(pod), arrived

    def _sorted_by(self, pod: Pod) -> tuple[int | str, ...]:
        """The profile's sort key; behind all others if its plugin fails."""
        try:
            return self._calls.key(pod, self._keys)
        except PluginFailed:
            return self._keys.last(pod.uid)

    def start_anew(self) -> None:
        """Empty all queues, because pods may be sorted differently."""
        self._keys = SortKeys()
        self.limit.clear()
        self._unreported.clear()

    def _gate_reason(self, pod: Pod, profile: Profile) -> str | None:
        """None to let it wait, else why it is gated; empty if that needs no report.

        Raises PluginFailed.
        """
        if pod.gates or pod.deleting:
            return ""  # the API server reports gates itself
        if pod.problem is not None or pod.unsupported:
            fields = f"not supported yet: {listed(pod.unsupported)}" if pod.unsupported else ""
            return "; ".join(filter(None, (str(pod.problem or ""), fields)))
        if pod.group_reference is not None and pod.group is None:
            return self._gangs.objects.reason(pod)
        reason = next(_gates_of(pod, profile), None)
        return reason or self._calls.pre_enqueue(pod)

    def back_off(self, record: Record, now: float, least_s: float = 0.0) -> None:
        """A placement of the pod failed: it waits again after a while, `least_s` at the least.

        If kube-scheduler has it in its queue, that is for kube-scheduler to see to.
        """
        if self._profiles[record.pod.scheduler_name].extender:
            self._table.transition(record, PodState.DELEGATED)
            return
        self._table.transition(record, PodState.BACKOFF, queue_moves.ATTEMPT_FAILURE)
        record.tries += 1
        pause_s = max(self.backoff.after(record.tries), least_s)
        self._backoff.add(now + pause_s, (record.pod.uid, record.tries))

    def edited(self, record: Record, pod: Pod, now: float, event: str) -> Sequence[Effect]:
        """A pod without a place changed in a way that matters; `pod` is what it is now.

        It is tried at once; an edit that follows too soon waits for a pause, which doubles with
        each.
        """
        self._reservations.end(pod.uid)
        self._gangs.drop(pod.uid)
        record.pod = pod
        is_not_ours = self._profiles[pod.scheduler_name].extender
        if is_not_ours or pod.gates or pod.deleting or pod.problem is not None:
            record.is_edited = False
            return self.enqueue(record, now, event)
        if now >= record.edits_rest_until:
            return self._take_in_edit(record, now, event)
        self.pause(record, event)
        if not record.is_edited:
            record.is_edited = True
            self._edited.add(record.edits_rest_until, pod.uid)
        return ()

    def _take_in_edit(self, record: Record, now: float, event: str) -> Sequence[Effect]:
        if now >= record.edits_rest_until + CALM_S:
            record.edits = 0
        record.edits += 1
        record.edits_rest_until = now + backoff_s(record.edits)
        record.is_edited = False
        return self.enqueue(record, now, event)

    def take_back(self, now: float) -> list[Effect]:
        """Enqueue pods whose backoff is over, and waiting ones that avoid fewer nodes now."""
        effects: list[Effect] = []
        for uid in self.refused.ended(now):
            record = self._records.get(uid)
            if record is not None and record.state is PodState.WAITING:
                effects += self.enqueue(record, now, queue_moves.BACKOFF_COMPLETE)
        for uid, tries in self._backoff.due(now):
            record = self._records.get(uid)
            if record is not None and record.state is PodState.BACKOFF and record.tries == tries:
                effects += self.enqueue(record, now, queue_moves.BACKOFF_COMPLETE)
        for uid in self._edited.due(now):
            record = self._records.get(uid)
            if record is not None and record.is_edited and now >= record.edits_rest_until:
                record.is_edited = False
                if record.state is PodState.BACKOFF:
                    effects += self._take_in_edit(record, now, queue_moves.BACKOFF_COMPLETE)
        return effects


def report_waiting(record: Record, sentence: str, reason: WaitingReason) -> list[Effect]:
    """Report something about this very pod, unless it was the last report."""
    diagnosis = Diagnosis(sentence=sentence, reason=reason)
    if record.reported == diagnosis:
        return []
    record.reported = diagnosis
    return [ReportWaiting(record.pod.uid, record.pod.key, diagnosis)]


def _gates_of(pod: Pod, profile: Profile) -> Iterator[str]:
    """The reasons of the pod's profile to gate it."""
    if pod.shape.device_claims is not None and not allocates_devices(profile):
        yield NO_DEVICES
    yield from not_allowed(pod, profile)
