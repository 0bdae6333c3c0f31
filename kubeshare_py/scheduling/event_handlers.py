"""Handlers of events about pods and their groups."""

from collections.abc import Sequence

from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import PodGone, PodGroupEvent, PodsListed
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.binding import external_binds
from kubeshare_py.scheduling.binding.lingering_pods import deletion_seen, may_linger
from kubeshare_py.scheduling.binding.scheduler_state import SchedulerState
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.arrivals import in_order_of_arrival
from kubeshare_py.scheduling.queue.pod_records import UNDECIDED, PodState, Record


class EventHandlers:
    """Works on the scheduler's state."""

    def __init__(self, state: SchedulerState, preemption: Preemption) -> None:
        self._state = state
        self._preemption = preemption

    def seen(self, pod: Pod, now: float, *, is_news: bool = True) -> Sequence[Effect]:
        """Take a pod as it is now; not `is_news` if it was so before this scheduler decided."""
        state = self._state
        record = state.records.get(pod.uid)
        effects: Sequence[Effect] = ()
        if pod.group_reference is not None:
            pod = state.gangs.objects.resolved(pod)
        if pod.node_name is not None:
            effects = self._seen_bound(pod, pod.node_name, record, is_news)
            deletion_seen(state.records[pod.uid], now)
        elif pod.scheduler_name not in state.profiles:
            if record is not None and record.state in UNDECIDED:
                self._forget(pod.uid)
        elif record is None:
            record = state.table.add(pod, state.arrivals.next())
            effects = state.enqueuer.enqueue(record, now, queue_moves.POD_ADD)
        elif record.state in UNDECIDED:
            if _matters(record.pod, pod):
                event = queue_moves.update_event(record.pod, pod)
                state.reservations.end(pod.uid)
                state.gangs.drop(pod.uid)
                record.pod = pod
                effects = state.enqueuer.edited(record, now, event)
            else:
                record.pod = pod
        elif record.state is not PodState.BOUND:
            record.pod = pod  # an older view of a pod that was bound meanwhile
            state.table.update(record)
        self._preemption.seen(state.records.get(pod.uid), now)
        return effects

    def _seen_bound(
        self,
        pod: Pod,
        node: NodeName,
        record: Record | None,
        is_news: bool,
    ) -> list[Effect]:
        state = self._state
        is_ours = pod.scheduler_name in state.profiles
        if record is None:
            record = state.table.add(pod, state.arrivals.next())
        if record.state is PodState.BOUND and record.node == node:
            # What it holds was decided when it was bound: an edit of the annotation takes and frees
            # no card. A resize changes what it takes of the node.
            if pod.shape.resources != record.pod.shape.resources:
                state.ledger.charge(pod.uid, node, pod.shape.resources, record.allocation)
            warnings = external_binds.changed(record.pod, pod, is_ours)
            record.pod = pod
            state.table.update(record)
            return [*warnings]
        effects: list[Effect] = []
        ours = record.allocation
        if ours is not None and record.node == node and _token(pod) == ours.token:
            effects.extend(state.binding_cycles.seen(record, node))
        else:
            state.binding_cycles.release(record)
            state.reservations.end(pod.uid)
            record.pod = pod
            state.assumer.charge(record, node, pod.allocation)
            if is_news:
                effects.extend(external_binds.placed_by_another(pod))
                if state.reports.inventory_read:
                    gpus = state.ledger.inventory.get(node, ())
                    effects.extend(external_binds.unknown_cards(pod, {gpu.uuid for gpu in gpus}))
        effects.extend(external_binds.warnings_of(pod, is_ours))
        record.pod = pod
        state.table.transition(record, PodState.BOUND)
        return effects

    def gone(self, event: PodGone, now: float, *, missing: bool = False) -> list[Effect]:
        """The pod is gone or has finished; `missing`: a list does not have it.

        A pod whose containers are not known to have stopped may linger.
        """
        uid, lingering = event.uid, self._state.lingering
        effects: list[Effect] = []
        record = self._state.records.get(uid)
        if event.stopped and lingering.end(uid):
            self._preemption.left(uid)
        if record is None or event.stopped or not may_linger(record, missing=missing):
            self._forget(uid)
        else:
            until = lingering.until(record, now)
            self._forget(uid, lingers=until > now)
            if uid in self._state.ledger.lingering:
                effects.append(lingering.begin(record, until, now))
        if event.finished is not None:
            self._state.gangs.finish(event.finished)
        return effects

    def _forget(self, uid: PodUid, *, lingers: bool = False) -> None:
        """Forget the pod and its charge; if it `lingers`, its GPUs stay charged."""
        state = self._state
        gang = state.gangs.of(uid)
        record = state.table.remove(uid)
        if record is not None:
            state.reservations.end(uid)
            if lingers:
                lingers = state.binding_cycles.linger(record)
            else:
                state.binding_cycles.release(record)
        if record is not None and record.state in UNDECIDED:
            profile, shape, preempts = record.pod.scheduler_name, record.shape, record.pod.preempts
            if gang is None or (profile, shape) not in gang.shapes:
                state.queue.unplaced(profile, shape, preempts=preempts)
        self._preemption.gone(uid)
        if not lingers:
            self._preemption.left(uid)

    def listed(self, event: PodsListed, now: float, *, decides: bool) -> list[Effect]:
        """Take a complete list of pods. Not `decides`: other schedulers may have placed them."""
        state = self._state
        effects: list[Effect] = []
        listed = {pod.uid: pod for pod in in_order_of_arrival(event.pods)}
        for uid in [uid for uid in state.records if uid not in listed]:
            if uid not in event.unreadable:
                gone = PodGone(uid, stopped=uid in event.stopped)
                effects += self.gone(gone, now, missing=True)
        for uid in sorted(event.stopped & state.ledger.lingering.keys()):
            effects += self.gone(PodGone(uid, stopped=True), now)
        for uid, pod in listed.items():
            record = state.records.get(uid)
            never_stored = (
                record is not None
                and record.state is PodState.UNCONFIRMED
                and pod.node_name is None
                and event.asked_at > record.answered_at
            )
            if never_stored and record is not None:
                state.binding_cycles.release(record)
                record.pod = state.gangs.objects.resolved(pod)
                state.enqueuer.back_off(record, now)
                self._preemption.evictions.gone(pod.uid)
                self._preemption.left(pod.uid)
            else:
                effects += self.seen(pod, now, is_news=decides)
        state.gangs.finished_are(event.finished, event.unreadable)
        if not decides:
            state.gangs.recall()
        return effects

    def groups_changed(self, event: PodGroupEvent, now: float, *, decides: bool) -> list[Effect]:
        """PodGroup objects were created, changed or deleted."""
        gangs = self._state.gangs
        for key in gangs.objects.change(event):
            gang = gangs.declare(key, gangs.objects.min_member(key))
            if gang is not None:
                self._state.group_edits.changed(gang, now)
        return self._state.group_edits.go_on(now, decides=decides)


def _token(pod: Pod) -> DecisionToken | None:
    return pod.allocation.token if pod.allocation is not None else None


def _matters(old: Pod, new: Pod) -> bool:
    """Whether a change of a waiting pod may affect it; a change of its status does not."""
    return (
        old.shape != new.shape
        or old.gates != new.gates
        or old.problem != new.problem
        or old.group != new.group
        or old.group_reference != new.group_reference
        or old.unsupported != new.unsupported
        or old.deleting != new.deleting
        or old.isolation != new.isolation
        or (old.priority, old.label_priority) != (new.priority, new.label_priority)
    )
