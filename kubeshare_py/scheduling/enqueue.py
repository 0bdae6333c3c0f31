"""How a pod comes to wait, what its edits change while it does, and how many of a namespace may.

It is gated with a reason, in its shape's queue, in backoff first, or in kube-scheduler's queue.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import Effect, ReportWaiting
from kubeshare_py.domain.gpu_capacities import scaled
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.printable import listed
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.answer_checks import SortKeys
from kubeshare_py.framework.boundary import PluginCalls, PluginFailed
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.asked_shapes import chosen_backend, is_scaled
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueueKey, SortKey
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.reservations import Contender
from kubeshare_py.scheduling.queue.timers import BACKOFF, Timers, backoff_s
from kubeshare_py.scheduling.queue.waiting_limit import (
    MAX_WAITING,
    QueueRules,
    WaitingLimit,
    WaitingUnit,
)
from kubeshare_py.scheduling.state import State

# Pods that kube-scheduler has in its queue, and for which this scheduler is its extender.
#
# kube-scheduler chooses their nodes by everything that it knows, holds back those with scheduling
# gates, binds their volumes and allocates their ResourceClaims before it asks its extender to bind.
# Only their cards are left to this scheduler.


def as_delegated(pod: Pod) -> Pod:
    """The pod without what kube-scheduler sees to; no gang is planned or repaired for it."""
    shape = pod.shape if pod.node_name is not None else _without_claims(pod.shape)
    return replace(
        pod, shape=shape, group=None, group_reference=None, owner="", gates=(), unsupported=()
    )


def refusal_of(pod: Pod, profile: Profile) -> str | None:
    """Why the pod gets no place, on whatever node; None if it may get one."""
    if pod.problem is not None:
        return str(pod.problem)
    return next(not_allowed(pod, profile), None)


def not_allowed(pod: Pod, profile: Profile) -> Iterator[str]:
    """What the profile has no means for: the pod's unit of shares, its isolation back-end."""
    if is_scaled(pod) and scaled(pod.shape, profile.capacities) is None:
        named = (claim.share_of for claim in pod.shape.claims if claim.share_of)
        model = next(model for model in named if profile.capacities.of(model) is None)
        yield f"it asks for a share of {model}, which is not in gpuCapacities of its profile"
    if chosen_backend(pod, profile) is not None and not profile.isolation.allows(pod.isolation):
        allowed = ", ".join(profile.isolation.allowed)
        yield f'sharedgpu/isolation="{pod.isolation}": this scheduler allows {allowed}'


def _without_claims(shape: Shape) -> Shape:
    """The shape without PersistentVolumeClaims and ResourceClaims."""
    if shape.volumes is None and shape.device_claims is None:
        return shape
    return _bare(shape)


@remembered(4096)
def _bare(shape: Shape) -> Shape:
    return replace(shape, volumes=None, device_claims=None)


#: The most pods that join the queue at once when they come in from outside, and the most reports at
#: once to pods that stay outside: most of a large backlog is placed before.
MAX_JOIN, MAX_REPORTED = 500, 256
#: A gang enters and leaves whole, however large: after more than `MAX_JOIN` pods at once, none
#: enters or leaves until the rate is below this.
PODS_MOVED_A_SECOND = 8000
OUTSIDE_PATIENCE_S = 30.0
#: Seconds without an edit after which a pod's next edit counts at once again.
CALM_S = 10.0
#: Behind every number of arrival.
LAST_ARRIVAL = 1 << 62
#: The plugin without which ResourceClaims of pods would not be allocated.
_DEVICES = "DynamicResources"
#: Why a pod with claims gets no place then.
NO_DEVICES = f"it has spec.resourceClaims, and its profile has no plugin {_DEVICES}"


class Enqueuer:
    """Enqueues and gates pods; keeps the pods in backoff."""

    def __init__(self, state: State) -> None:
        self._table, self._records, self._gangs = state.table, state.records, state.gangs
        self._queue, self._moves = state.queue, state.moves
        self._shapes, self.refused = state.shapes, state.refused
        self._calls, self._profiles = state.profiles.calls, state.profiles.profiles
        self._reports, self._reservations = state.reports, state.reservations
        self.limit = WaitingLimit(MAX_WAITING)
        self.backoff = BACKOFF
        #: Pods outside of the queue without a report, and since when (s) they are there.
        self._unreported: dict[PodUid, float] = {}
        self._moves_rest_until = 0.0
        self._keys = SortKeys()
        self._backoff: Timers[tuple[PodUid, int]] = Timers(state.alarms)
        self._edited: Timers[PodUid] = Timers(state.alarms)
        #: When to report pods as outside, and when pods are to enter the queue or to leave it.
        self.reports_at, self.settles_at = state.alarms.add(), state.alarms.add()
        state.table.follow_placements(self)

    def use(self, rules: QueueRules) -> None:
        """Keep to these rules; only before the first pod comes."""
        self.limit, self.backoff = WaitingLimit(rules.max_waiting), rules.backoff

    def enqueue(
        self,
        record: Record,
        now: float,
        event: str,
    ) -> Sequence[Effect]:
        """Let the pod wait for a place, or gate it with a reason; `event` is the cause, for
        the metrics.

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
            reason = self._gate_reason(pod, profile, self._calls)
            if reason is None:
                # Pods that the profile sorts equal are ordered by arrival.
                record.key = self._calls.key(pod, self._keys), record.arrived
        except PluginFailed as failure:
            self._leave_limit(record)
            effects = report_waiting(record, str(failure), WaitingReason.SCHEDULER_ERROR)
            self.back_off(record, now)
            return effects
        if reason is None and pod.group_reference is not None and self._gangs.pauses(pod):
            self.pause(record, event)
        elif reason is None:
            if self.limit.put(pod, record.key):
                self._join(record, now, event)
            else:
                self._keep_outside(record, now, event)
        else:
            return self.gate(record, reason, event)
        return ()

    def became_stale(self, record: Record) -> bool:
        """Whether the pod's shape is another one than when it was enqueued; said once."""
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

    def newcomer(self, pod: Pod, calls: PluginCalls) -> Record:
        """The record that the pod would get if it came now, behind all others; nothing keeps it.

        It is WAITING, or GATED with the reason in `reported`. `calls` are those of a question.
        """
        profile = self._profiles[pod.scheduler_name]
        asked = self._shapes.of(pod, profile)
        key: SortKey = ()
        try:
            # kube-scheduler sees to what holds back the pods that are its own.
            reason = None if profile.extender else self._gate_reason(pod, profile, calls)
            key = calls.key(pod, self._keys.for_question()), LAST_ARRIVAL
        except PluginFailed as failure:
            reason = str(failure)
        if reason is None:
            return Record(pod, PodState.WAITING, LAST_ARRIVAL, key, asked=asked)
        record = Record(pod, PodState.GATED, LAST_ARRIVAL, key, asked=asked)
        if reason:
            record.reported = Diagnosis(sentence=reason, reason=WaitingReason.NOT_READY)
        return record

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
            self._moves.entered(pod_records.ACTIVE, event)

    def changed(self, record: Record, before: PodState) -> None:
        """A pod that has a place now lets another of its namespace enter (`settle`)."""
        self._leave(record.pod.uid)
        record.is_outside = False

    def removed(self, uid: PodUid) -> None:
        """A pod that is gone lets another of its namespace enter (`settle`)."""
        self._leave(uid)
        if self.refused.pods:
            self.refused.forget(uid)

    def _leave_limit(self, record: Record) -> None:
        self._leave(record.pod.uid)
        record.is_outside = False

    def _leave(self, uid: PodUid) -> None:
        self.limit.leave(uid)
        if uid in self._unreported:
            since = self._unreported.pop(uid)
            if since + OUTSIDE_PATIENCE_S <= self.reports_at.at:
                self._note_unreported()

    def _note_unreported(self) -> None:
        first = next(iter(self._unreported.values()), math.inf)
        self.reports_at.set(first + OUTSIDE_PATIENCE_S)

    def _keep_outside(self, record: Record, now: float, event: str) -> None:
        record.is_outside = True
        record.reported = self.limit.reason(record.pod)
        if not self._unreported:
            self.reports_at.set(now + OUTSIDE_PATIENCE_S)
        self._unreported.setdefault(record.pod.uid, now)
        self._table.transition(record, PodState.GATED, event)

    def settle(self, now: float) -> None:
        """Let pods enter or leave the queue, as the limit requires.

        Some at a time; all that must leave before any that may enter.
        """
        moved = self.limit.moved
        if moved and now >= self._moves_rest_until:
            self._move_some(moved, now)
            self._note_unreported()
        self.settles_at.set(self._moves_rest_until if moved else math.inf)

    def _move_some(self, moved: dict[WaitingUnit, None], now: float) -> None:
        left = self._move_out_of_queue(now)
        joined = 0
        while moved and joined < MAX_JOIN:
            unit = next(iter(moved))
            del moved[unit]
            joined += self._move_into_queue(unit, now)
        if left + joined > MAX_JOIN:
            self._moves_rest_until = now + (left + joined) / PODS_MOVED_A_SECOND

    def _move_out_of_queue(self, now: float) -> int:
        """Move all pods out of the queue that must leave it; how many did."""
        count = 0
        for unit in [unit for unit in self.limit.moved if not unit.is_inside]:
            del self.limit.moved[unit]
            for uid in unit.pods:
                if not self._records[uid].is_outside:
                    self._reservations.end(uid)
                    self._keep_outside(self._records[uid], now, pod_records.FORCE_ACTIVATE)
                    count += 1
        return count

    def _move_into_queue(self, unit: WaitingUnit, now: float) -> int:
        """Move the pods of a unit into the queue; how many entered."""
        count = 0
        for uid in unit.pods:
            if self._records[uid].is_outside:
                self._unreported.pop(uid, None)
                self._join(self._records[uid], now, pod_records.FORCE_ACTIVATE)
                count += 1
        return count

    def reported(self, now: float) -> Iterator[ReportWaiting]:
        """Reports for some of the pods that have been outside for a while without one."""
        due = now - OUTSIDE_PATIENCE_S
        for uid, since in list(islice(self._unreported.items(), MAX_REPORTED)):
            if since > due:
                break
            del self._unreported[uid]
            record = self._records[uid]
            if record.is_outside and record.reported is not None:
                yield ReportWaiting(uid, record.pod.key, record.reported)
        self._note_unreported()

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
        reserved = self._reservations
        is_alone = record.remark or (reserved.holders and reserved.is_preemptor(pod.uid))
        alone = pod.uid if is_alone else None
        queue_key = ShapeQueueKey(pod.scheduler_name, record.shape, place_of, pod.preempts, alone)
        shape_queue = self._queue.add(pod.uid, record.key, queue_key, pod.key.namespace)
        if shape_queue.unschedulable and reserved.holders:
            contender = Contender(pod.uid, record.key, (pod,))
            if reserved.takes_precedence(contender):
                # Pods that wait in it may not see these places as free.
                self._queue.activate(shape_queue)
        self._moves.entered(
            pod_records.UNSCHEDULABLE if shape_queue.unschedulable else pod_records.ACTIVE, event
        )
        if shape_queue.unschedulable:
            self._reports.report_joined(shape_queue)

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
        self._note_unreported()

    def _gate_reason(self, pod: Pod, profile: Profile, calls: PluginCalls) -> str | None:
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
        if pod.shape.device_claims is not None and not allocates_devices(profile):
            return NO_DEVICES
        # Nearly all pods name no back-end and ask for no share of a model.
        lacking = next(not_allowed(pod, profile), None) if pod.isolation or is_scaled(pod) else None
        if lacking is None and profile.pre_enqueue:
            return calls.pre_enqueue(pod)
        return lacking

    def back_off(self, record: Record, now: float, least_s: float = 0.0) -> None:
        """A placement of the pod failed: it waits again after a while, `least_s` at the least.

        If kube-scheduler has it in its queue, that is for kube-scheduler to see to.
        """
        if self._profiles[record.pod.scheduler_name].extender:
            self._table.transition(record, PodState.DELEGATED)
            return
        self._table.transition(record, PodState.BACKOFF, pod_records.ATTEMPT_FAILURE)
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

    def enqueue_due_pods(self, now: float) -> list[Effect]:
        """Enqueue pods whose backoff is over, and waiting ones that avoid fewer nodes now."""
        effects: list[Effect] = []
        for uid in self.refused.ended(now):
            record = self._records.get(uid)
            if record is not None and record.state is PodState.WAITING:
                effects += self.enqueue(record, now, pod_records.BACKOFF_COMPLETE)
        for uid, tries in self._backoff.due(now):
            record = self._records.get(uid)
            if record is not None and record.state is PodState.BACKOFF and record.tries == tries:
                effects += self.enqueue(record, now, pod_records.BACKOFF_COMPLETE)
        for uid in self._edited.due(now):
            record = self._records.get(uid)
            if record is not None and record.is_edited and now >= record.edits_rest_until:
                record.is_edited = False
                if record.state is PodState.BACKOFF:
                    effects += self._take_in_edit(record, now, pod_records.BACKOFF_COMPLETE)
        return effects


def report_waiting(record: Record, sentence: str, reason: WaitingReason) -> list[Effect]:
    """Report something about this very pod, unless it was the last report."""
    diagnosis = Diagnosis(sentence=sentence, reason=reason)
    if record.reported == diagnosis:
        return []
    record.reported = diagnosis
    return [ReportWaiting(record.pod.uid, record.pod.key, diagnosis)]


def allocates_devices(profile: Profile) -> bool:
    """Whether the profile sees to it that ResourceClaims are allocated before a pod is bound."""
    filters, pre_binds = profile.filters, profile.pre_binds
    return all(any(one.name == _DEVICES for one in some) for some in (filters, pre_binds))
