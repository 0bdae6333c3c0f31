"""Handlers of events about pods."""

from collections.abc import Iterable, Mapping, Sequence

from kubeshare_py.domain.allocation import is_rest_of
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import PodGone, PodsListed
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.label_selector import Labels
from kubeshare_py.domain.needs.default_spread import PodController
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.binding import external_binds
from kubeshare_py.scheduling.binding.delegated_pods import as_delegated
from kubeshare_py.scheduling.binding.lingering_pods import deletion_seen, may_linger
from kubeshare_py.scheduling.binding.scheduler_state import Charges, PodLifecycle, Pods
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.pod_queue import PodQueue
from kubeshare_py.scheduling.queue.pod_records import UNDECIDED, PodState, Record
from kubeshare_py.scheduling.queue.stray_pods import StrayPods
from kubeshare_py.scheduling.queue.synced import Synced


class EventHandlers:
    """Compares pods as the API server shows them with what is known of them."""

    def __init__(
        self,
        pods: Pods,
        queue: PodQueue,
        charges: Charges,
        steps: PodLifecycle,
        preemption: Preemption,
        synced: Synced,
        profiles: Mapping[str, Profile],
    ) -> None:
        """`profiles` are those of this scheduler, by schedulerName."""
        self._table, self._records, self._gangs = pods.table, pods.records, pods.gangs
        self._queue = queue
        self._ledger, self._reservations = charges.ledger, charges.reservations
        self._lingering = charges.lingering
        self._enqueuer, self._assumer = steps.enqueuer, steps.assumer
        self._binding_cycles = steps.binding_cycles
        self._preemption = preemption
        self._synced = synced
        self._ours = profiles
        #: Unbound pods that no scheduler places, it seems.
        self.strays = StrayPods(profiles)

    def _as_asked(self, pod: Pod) -> Pod:
        """The pod with what its PodGroup says; without any group if kube-scheduler has it."""
        profile = self._ours.get(pod.scheduler_name)
        if profile is not None and profile.extender:
            return as_delegated(pod)
        return pod if pod.group_reference is None else self._gangs.objects.resolved(pod)

    def seen(self, pod: Pod, now: float, *, is_new: bool = True) -> Sequence[Effect]:
        """Take a pod as it is now; not `is_new` if it was so before this scheduler decided."""
        record = self._records.get(pod.uid)
        effects: Sequence[Effect] = ()
        pod = self._as_asked(pod)
        if pod.node_name is not None:
            effects = self._seen_bound(pod, pod.node_name, record, is_new)
            deletion_seen(self._records[pod.uid], now)
        elif pod.scheduler_name not in self._ours:
            if record is not None and record.state in UNDECIDED:
                self._forget(pod.uid)
            self.strays.seen(pod, now)
        elif record is None:
            record = self._table.add(pod)
            effects = self._enqueuer.enqueue(record, now, queue_moves.POD_ADD)
        elif record.state in UNDECIDED:
            moved = _belongs(record.pod) != _belongs(pod)
            if _matters(record.pod, pod) or (moved and self._enqueuer.asks_otherwise(record, pod)):
                event = queue_moves.update_event(record.pod, pod)
                effects = self._enqueuer.edited(record, pod, now, event)
            else:
                record.pod = pod
        elif record.state is PodState.PREBINDING and _matters(record.pod, pod):
            event = queue_moves.update_event(record.pod, pod)
            self._binding_cycles.release(record)
            effects = self._enqueuer.edited(record, pod, now, event)
        elif record.state is not PodState.BOUND:
            record.pod = pod  # an older view of a pod that was bound meanwhile
            self._table.update(record)
        self._preemption.seen(self._records.get(pod.uid), now)
        return effects

    def _seen_bound(
        self,
        pod: Pod,
        node: NodeName,
        record: Record | None,
        is_new: bool,
    ) -> list[Effect]:
        is_ours = pod.scheduler_name in self._ours
        self.strays.left(pod.uid)
        if record is None:
            record = self._table.add(pod)
        if record.state is PodState.BOUND and record.node == node:
            # What it holds was decided when it was bound: an edit of the annotation takes and frees
            # no card. A resize changes what it takes of the node, and labels what others see of it.
            self._charge_as_shown(record, pod)
            warnings = external_binds.changed(record.pod, pod, is_ours)
            record.pod = pod
            self._table.update(record)
            return [*warnings]
        effects: list[Effect] = []
        ours = record.allocation
        if ours is not None and record.node == node and _token(pod) == ours.token:
            effects.extend(self._binding_cycles.seen(record, node))
            # It may have been edited or deleted meanwhile, and its claims have what they need.
            self._charge_as_shown(record, pod)
        else:
            self._binding_cycles.release(record)
            self._reservations.end(pod.uid)
            record.pod = pod
            self._assumer.charge(record, node, pod.allocation)
            held, gpus = record.allocation, self._ledger.inventory.get(node, ())
            if is_new:
                effects.extend(external_binds.placed_by_another(pod, held))
            if is_new and self._synced.inventory:
                known = {gpu.uuid for gpu in gpus}
                effects.extend(external_binds.unknown_cards(pod, held, known))
            elif gpus:
                effects.extend(external_binds.unknown_indices(pod, held))
        effects.extend(external_binds.warnings_of(pod, is_ours))
        record.pod = pod
        self._table.transition(record, PodState.BOUND)
        return effects

    def _charge_as_shown(self, record: Record, pod: Pod) -> None:
        """Charge a bound pod what it takes of its node now; what it holds of cards stays.

        But of a pod that HAMi bound what its init containers held ends with them.
        """
        left = pod.allocation
        if left is not None and not left.token and is_rest_of(left, record.allocation):
            self._assumer.shrink(record, pod, left)
            return
        charge = self._ledger.charge_of(pod.uid)
        assert charge is not None
        now = pod.shape.charged, pod.placed, pod.scopes
        if (charge.resources, charge.pod, record.pod.scopes) != now:
            self._assumer.edited(record, pod)

    def gone(self, event: PodGone, now: float, *, missing: bool = False) -> list[Effect]:
        """The pod is gone or has finished; `missing`: a list does not have it.

        A pod whose containers are not known to have stopped may linger.
        """
        uid, lingering = event.uid, self._lingering
        self.strays.left(uid)
        effects: list[Effect] = []
        record = self._records.get(uid)
        self._gangs.finish(uid, event.finished)
        if event.stopped and lingering.end(uid):
            self._preemption.left(uid)
        if record is None or event.stopped or not may_linger(record, missing=missing):
            self._forget(uid)
        else:
            until = lingering.until(record, now)
            self._forget(uid, lingers=until > now)
            if uid in self._ledger.lingering:
                effects.append(lingering.begin(record, until, now))
        return effects

    def _forget(self, uid: PodUid, *, lingers: bool = False) -> None:
        """Forget the pod and its charge; if it `lingers`, its GPUs stay charged."""
        gang = self._gangs.of(uid)
        record = self._table.remove(uid)
        if record is not None:
            self._reservations.end(uid)
            if lingers:
                lingers = self._binding_cycles.linger(record)
            else:
                self._binding_cycles.release(record)
        if record is not None and record.state in UNDECIDED:
            profile, shape, preempts = record.pod.scheduler_name, record.shape, record.pod.preempts
            if gang is None or (profile, shape) not in gang.shapes:
                self._queue.unplaced(profile, shape, preempts=preempts)
        self._preemption.gone(uid)
        if not lingers:
            self._preemption.left(uid)

    def listed(self, event: PodsListed, now: float, *, decides: bool) -> list[Effect]:
        """Take a complete list of pods. Not `decides`: other schedulers may have placed them."""
        effects: list[Effect] = []
        listed = {pod.uid: pod for pod in _in_order_of_arrival(event.pods)}
        self.strays.listed(listed.keys())
        finished = {member.uid: member for member in event.finished}
        for uid in [uid for uid in self._records if uid not in listed]:
            if uid not in event.unreadable:
                gone = PodGone(uid, finished.get(uid), stopped=uid in event.stopped)
                effects += self.gone(gone, now, missing=True)
        for uid in sorted(event.stopped & self._ledger.lingering.keys()):
            effects += self.gone(PodGone(uid, stopped=True), now)
        for uid, pod in listed.items():
            record = self._records.get(uid)
            never_stored = (
                record is not None
                and record.state is PodState.UNCONFIRMED
                and pod.node_name is None
                and event.asked_at > record.answered_at
            )
            if never_stored and record is not None:
                self._binding_cycles.release(record)
                record.pod = self._as_asked(pod)
                self._enqueuer.back_off(record, now)
                self._preemption.evictions.gone(pod.uid)
                self._preemption.left(pod.uid)
            else:
                effects += self.seen(pod, now, is_new=decides)
        self._gangs.finished_are(event.finished, event.unreadable)
        if not decides:
            self._gangs.recall()
        return effects


def _in_order_of_arrival(listed: Iterable[Pod]) -> list[Pod]:
    """The pods of a list, by namespace and name.

    The order of arrival decides between pods that were created in the same second, because uids are
    random. A watch brings pods in the order in which the API server stored them; a list has no such
    order.
    """
    return sorted(listed, key=lambda pod: (pod.key.namespace, pod.key.name))


def _token(pod: Pod) -> DecisionToken | None:
    return pod.allocation.token if pod.allocation is not None else None


def _belongs(pod: Pod) -> tuple[Labels, PodController | None]:
    """What decides which terms and Services select the pod, and which pods belong with it."""
    return pod.labels, pod.controller


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
