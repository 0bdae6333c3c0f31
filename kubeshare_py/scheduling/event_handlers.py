"""Handlers of events about pods, and events for pods whose scheduler does not seem to run."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

from kubeshare_py.domain.allocation import is_rest_of
from kubeshare_py.domain.cluster_objects import Labels, PodController
from kubeshare_py.domain.effects import Effect, PodWarning, ReportPodWarning
from kubeshare_py.domain.events import PodGone, PodsListed
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.node import CONTESTED_OF
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.scheduling.charges import external_changes
from kubeshare_py.scheduling.charges.external_changes import deletion_seen, may_linger
from kubeshare_py.scheduling.enqueue import Enqueuer, as_delegated
from kubeshare_py.scheduling.pod_cycle import BindingCycles
from kubeshare_py.scheduling.preemption.preemption import Preemption
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.pod_records import UNDECIDED, PodState, Record
from kubeshare_py.scheduling.queue.timers import Alarm
from kubeshare_py.scheduling.state import State

# Pods that ask for GPUs in a dialect of ours and name a scheduler that does not run, it seems.
#
# Such a pod waits without a word: this scheduler decides on pods of its own profiles, and others
# know nothing of the dialect. If it still waits after a while, one event says what to do.
# Predecessors that still run bind their pods before that, so that nothing is said of these.


#: How long (s) a pod may wait before that is said.
PATIENCE_S = 30.0
#: The most pods that are waited for at a time, and those of which something was said.
MOST = 1000
#: The schedulerName of pods that name none.
DEFAULT = "default-scheduler"
#: How alike a name must be to one of ours to be taken for a misspelling of it.
_ALIKE = 0.7


class StrayPods:
    """`names` are the schedulerNames of this scheduler's profiles, the first one that of advice."""

    def __init__(self, names: Collection[str], alarm: Alarm) -> None:
        self._names = tuple(names)
        self._alarm, self._warns = alarm, False
        self._waiting: dict[PodUid, ReportPodWarning] = {}
        self._due: deque[tuple[float, PodUid]] = deque()
        self._told: dict[PodUid, None] = {}
        #: What is known of such pods, to be read: mostly nothing.
        self.known: tuple[Collection[PodUid], ...] = (self._waiting, self._told)

    def begin(self) -> None:
        """Warn from now on: until then another scheduler process does."""
        self._warns = True
        self._set_alarm()

    def seen(self, pod: Pod, now: float) -> None:
        """A pod without a node, of a scheduler that is not this one."""
        # Resources that no profile here reads are a problem of the pod.
        asks = pod.request is not None or pod.problem is not None
        if not asks or pod.uid in self._waiting or pod.uid in self._told:
            return
        note = "" if len(self._waiting) >= MOST else self._note(pod)
        if note:
            report = ReportPodWarning(pod.uid, pod.key, PodWarning.NO_SCHEDULER, note)
            self._waiting[pod.uid] = report
            self._due.append((now + PATIENCE_S, pod.uid))
            self._set_alarm()

    def left(self, uid: PodUid) -> None:
        """The pod has a node, or is gone."""
        self._waiting.pop(uid, None)
        self._told.pop(uid, None)

    def listed(self, uids: AbstractSet[PodUid]) -> None:
        """All pods that there are."""
        for uid in [uid for uid in (*self._waiting, *self._told) if uid not in uids]:
            self.left(uid)

    def time_passed(self, now: float) -> list[ReportPodWarning]:
        """One warning about each pod that has waited long enough."""
        reports: list[ReportPodWarning] = []
        if not self._warns:
            return reports
        while self._due and self._due[0][0] <= now:
            _, uid = self._due.popleft()
            report = self._waiting.pop(uid, None)
            if report is not None:
                reports.append(report)
                self._told[uid] = None
                if len(self._told) > MOST:
                    del self._told[next(iter(self._told))]
        self._set_alarm()
        return reports

    def _set_alarm(self) -> None:
        self._alarm.set(self._due[0][0] if self._warns and self._due else math.inf)

    def _note(self, pod: Pod) -> str:
        """What to do; "" if another scheduler may well place the pod."""
        name = pod.scheduler_name
        if not self._names:
            return ""
        if pod.request is None:
            return _note_of_unread(pod)
        if _is_native(pod):
            return ""
        dialect = pod.request.dialect
        asks = f"it asks for GPUs in dialect {dialect}"
        first = self._names[0]
        if name in ("", DEFAULT):
            return (
                f"no scheduler here places it: its schedulerName is {DEFAULT}, and {asks}. "
                f"kubectl label namespace {pod.key.namespace} kubeshare.io/dialects=true and "
                f"create it anew, or set schedulerName: {first}"
            )
        meant = _alike(name, self._names)
        if not meant:
            return ""
        meant = first if meant == DEFAULT else meant  # which the demo's scheduler has too
        return (
            f"no scheduler here is called {name}, and {asks}: did you mean "
            f"schedulerName: {meant}? Create it anew with that"
        )


def _note_of_unread(pod: Pod) -> str:
    """What to do about a pod that asks by resources that no profile here reads."""
    how = pod.problem.unread if pod.problem is not None else ""
    if not how or pod.scheduler_name not in ("", DEFAULT):
        return ""
    said = f"no scheduler here places it: its schedulerName is {DEFAULT}"
    return f"{said}, and {how}. Then create it anew"


def _is_native(pod: Pod) -> bool:
    """Whether the pod asks for whole cards by a name that other schedulers know too."""
    contested = any(CONTESTED_OF in name for name, _ in pod.shape.resources)
    return contested and all(claim.exclusive for claim in pod.shape.claims)


@remembered(256)
def _alike(name: str, names: tuple[str, ...]) -> str:
    return next(iter(get_close_matches(name, names, n=1, cutoff=_ALIKE)), "")


# Handlers of events about pods.


class EventHandlers:
    """Compares pods as the API server shows them with what is known of them."""

    def __init__(
        self,
        state: State,
        enqueuer: Enqueuer,
        binding_cycles: BindingCycles,
        preemption: Preemption,
    ) -> None:
        self._table, self._records, self._gangs = state.table, state.records, state.gangs
        self._queue, self._synced = state.queue, state.synced
        self._ledger, self._charges = state.ledger, state.charges
        self._reservations, self._lingering = state.reservations, state.lingering
        self._enqueuer, self._binding_cycles = enqueuer, binding_cycles
        self._preemption = preemption
        #: The profiles of this scheduler, by schedulerName.
        self._ours = state.profiles.profiles
        #: Unbound pods that no scheduler places, it seems.
        self.strays = StrayPods(self._ours, state.alarms.add())

    def _as_asked(self, pod: Pod) -> Pod:
        """The pod with what its PodGroup says; without any group if kube-scheduler has it."""
        profile = self._ours.get(pod.scheduler_name)
        if profile is not None and profile.extender:
            return as_delegated(pod)
        return pod if pod.group_reference is None else self._gangs.objects.resolved(pod)

    def seen(self, pod: Pod, now: float, *, is_new: bool = True) -> Sequence[Effect]:
        """Take a pod as it is now; not `is_new` if it was so before this scheduler led."""
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
            effects = self._enqueuer.enqueue(record, now, pod_records.POD_ADD)
            if pod.unlikely and is_new:
                effects = [*effects, *external_changes.unlikely_labels(pod)]
        elif record.state in UNDECIDED:
            effects = self._seen_waiting(pod, record, now)
        elif record.state is PodState.PREBINDING and _matters(record.pod, pod):
            event = pod_records.update_event(record.pod, pod)
            self._binding_cycles.release(record)
            effects = self._enqueuer.edited(record, pod, now, event)
        elif record.state is not PodState.BOUND:
            # Its placement stands: nothing that matters changed, or the view is older than it.
            record.pod = pod
            self._table.update(record)
        record = self._records.get(pod.uid)
        # Of few pods anything is to be seen for preemption, and each pod passes here.
        if record is not None and (
            record.pod.deleting or record.pod.nominated or pod.uid in self._preemption.shown
        ):
            self._preemption.seen(record, now)
        return effects

    def _seen_waiting(self, pod: Pod, record: Record, now: float) -> Sequence[Effect]:
        """Take a pod that waits, with what was known of it in its record."""
        before = record.pod
        effects: Sequence[Effect] = ()
        moved = _belongs(before) != _belongs(pod)
        if _matters(before, pod) or (moved and self._enqueuer.asks_otherwise(record, pod)):
            event = pod_records.update_event(before, pod)
            effects = self._enqueuer.edited(record, pod, now, event)
        else:
            record.pod = pod
        if pod.unlikely != before.unlikely:
            effects = [*effects, *external_changes.unlikely_labels(pod)]
        return effects

    def _seen_bound(
        self,
        pod: Pod,
        node: NodeName,
        record: Record | None,
        is_new: bool,
    ) -> list[Effect]:
        is_ours = pod.scheduler_name in self._ours
        if any(self.strays.known):
            self.strays.left(pod.uid)
        if record is None:
            record = self._table.add(pod)
        if record.state is PodState.BOUND and record.node == node:
            # What it holds was decided when it was bound: an edit of the annotation takes and frees
            # no card. A resize changes what it takes of the node, and labels what others see of it.
            self._charge_as_shown(record, pod)
            warnings = external_changes.changed(record.pod, pod, is_ours)
            record.pod = pod
            self._table.update(record)
            return [*warnings]
        effects: list[Effect] = []
        ours = record.allocation
        # The watch may be faster than the answer to the Binding, and the answer may be lost: the
        # token in the annotations says that this is the placement that was decided here.
        if ours is not None and record.node == node and _token(pod) == ours.token:
            effects.extend(self._binding_cycles.seen(record, node))
            # It may have been edited or deleted meanwhile, and its claims have what they need.
            self._charge_as_shown(record, pod)
        else:
            # Bound by another client, or by a decision of an earlier process: what the API server
            # shows counts, whatever was decided here. The former charge goes before the new one.
            self._binding_cycles.release(record)
            if self._reservations.holders:
                self._reservations.end(pod.uid)
            record.pod = pod
            self._charges.charge(record, node, pod.allocation)
            held, gpus = record.allocation, self._ledger.inventory.get(node, ())
            if is_new:
                effects.extend(external_changes.placed_by_another(pod, held))
            if is_new and self._synced.inventory:
                known = {gpu.uuid for gpu in gpus}
                effects.extend(external_changes.unknown_cards(pod, held, known))
            elif gpus:
                effects.extend(external_changes.unknown_indices(pod, held))
        effects.extend(external_changes.warnings_of(pod, is_ours))
        record.pod = pod
        self._table.transition(record, PodState.BOUND)
        return effects

    def _charge_as_shown(self, record: Record, pod: Pod) -> None:
        """Charge a bound pod what it takes of its node now; what it holds of cards stays.

        But of a pod that HAMi bound what its init containers held ends with them.
        """
        left = pod.allocation
        if left is not None and not left.token and is_rest_of(left, record.allocation):
            self._charges.shrink(record, pod, left)
            return
        charge = self._ledger.charge_of(pod.uid)
        assert charge is not None
        now = pod.shape.charged, pod.placed, pod.scopes
        if (charge.resources, charge.pod, record.pod.scopes) != now:
            self._charges.edited(record, pod)

    def gone(self, event: PodGone, now: float, *, missing: bool = False) -> list[Effect]:
        """The pod is gone or has finished; `missing`: a list does not have it.

        A pod whose containers are not known to have stopped may linger.
        """
        uid, lingering = event.uid, self._lingering
        if any(self.strays.known):
            self.strays.left(uid)
        effects: list[Effect] = []
        record = self._records.get(uid)
        if event.finished is not None or self._gangs.by_key:
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
        gang = self._gangs.by_pod.get(uid)
        record = self._table.remove(uid)
        if record is not None:
            if self._reservations.holders:
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
        """Take a list of pods. Not `decides`: other schedulers may have placed them."""
        effects = [] if event.continues else self._missing(event, now)
        for pod in _in_order_of_arrival(event.pods):
            record = self._records.get(pod.uid)
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
        if event.more:
            return effects
        self._gangs.finished_are(event.finished, event.unreadable)
        if not decides:
            self._gangs.recall()
        return effects

    def _missing(self, event: PodsListed, now: float) -> list[Effect]:
        """Forget the pods that a list does not have, before those that may have their cards."""
        effects: list[Effect] = []
        listed = event.to_come.union(pod.uid for pod in event.pods)
        self.strays.listed(listed)
        finished = {member.uid: member for member in event.finished}
        for uid in [uid for uid in self._records if uid not in listed]:
            if uid not in event.unreadable:
                gone = PodGone(uid, finished.get(uid), stopped=uid in event.stopped)
                effects += self.gone(gone, now, missing=True)
        for uid in sorted(event.stopped.intersection(self._ledger.lingering)):
            effects += self.gone(PodGone(uid, stopped=True), now)
        return effects


def _in_order_of_arrival(listed: Iterable[Pod]) -> list[Pod]:
    """The pods of a list, or of a portion of one, by namespace and name.

    The order of arrival decides between pods that were created in the same second, because uids are
    random. A watch brings pods in the order in which the API server stored them; a list does not.
    Portions come in the API server's own order of names.
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
