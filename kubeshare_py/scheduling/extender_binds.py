"""Pods that kube-scheduler asks its extender to bind: cards on the node that it chose.

kube-scheduler sends POST /bind once a pod has passed all its own plugins, with the node in it, and
waits for the answer (`extender/v1.ExtenderBindingArgs` of k8s.io/kube-scheduler). If the answer has
an error, it takes the pod back into its queue. The cards are chosen and charged here, in the same
step, so that two pods never get the same part of a card, whatever `/filter` said before.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from kubeshare_py.domain.effects import AnswerBind, Effect, ReportScheduled, ReportWaiting
from kubeshare_py.domain.events import BindAsked
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.reasons import NO_NODE
from kubeshare_py.framework.result_cache import Choice
from kubeshare_py.scheduling.enqueue import Enqueuer, refusal_of
from kubeshare_py.scheduling.pod_cycle import Assumer, BindingCycles
from kubeshare_py.scheduling.pre_bind import NotCommitted
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.state import State

E = TypeVar("E", bound=Effect)

#: What is said of pods with GPUs before the first inventory.
UNREAD = "GPU inventory not read yet"
#: What is said of pods without a record.
UNKNOWN = "the scheduler has not seen this pod, or it is of no profile with extender: true"
_PLACED = (PodState.UNCONFIRMED, PodState.BOUND)


class ExtenderBinds:
    """Pods that kube-scheduler asked to bind, until it has its answer."""

    def __init__(
        self,
        state: State,
        enqueuer: Enqueuer,
        assumer: Assumer,
        binding_cycles: BindingCycles,
    ) -> None:
        self._records, self._ledger, self._synced = state.records, state.ledger, state.synced
        self._profiles, self._snapshots = state.profiles.profiles, state.profiles.snapshots
        self._enqueuer, self._assumer = enqueuer, assumer
        self._binding_cycles = binding_cycles
        #: The node that kube-scheduler chose, by pod, in the order in which it asked. To be read.
        self.waiting: dict[PodUid, BindAsked] = {}

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def asked(self, event: BindAsked, now: float) -> Sequence[Effect]:
        """Bind the pod with cards of that node, or answer why not.

        Asked twice, it is bound once.
        """
        record = self._records.get(event.uid)
        if record is None or record.pod.key != event.key:
            return [_answer(event, UNKNOWN)]
        self.waiting[event.uid] = event
        if record.state is not PodState.DELEGATED:
            return []  # `settled` answers, at once or once its Binding is answered
        placed = self._place(record, event.node, now)
        if isinstance(placed, str):
            del self.waiting[event.uid]
            return [_answer(event, placed)]
        return placed

    def unreported(self, found: list[E]) -> list[E]:
        """Without what kube-scheduler itself reports, because it asked about the pod."""
        return [one for one in found if not self._is_reported(one)]

    def _is_reported(self, effect: object) -> bool:
        return isinstance(effect, ReportWaiting | ReportScheduled) and effect.uid in self.waiting

    def settled(self) -> Iterator[AnswerBind]:
        """Answers about pods of which it is known by now what became of them."""
        for uid, event in list(self.waiting.items()):
            problem = self._outcome(self._records.get(uid), event.node)
            if problem is not None:
                del self.waiting[uid]
                yield _answer(event, problem)

    def _outcome(self, record: Record | None, node: NodeName) -> str | None:
        """What is wrong, "" if the pod is bound to the node; None if that is not known yet."""
        if record is None:
            return "the pod was deleted"
        profile = self._profiles.get(record.pod.scheduler_name)
        if profile is None or not profile.extender:
            return not_delegated(record.pod.scheduler_name)
        if record.node is None:
            known = record.reported.message if record.reported is not None else ""
            return known or "the pod was changed meanwhile"
        if record.node != node:
            return f"it is bound to {record.node} already"
        return "" if record.state in _PLACED else None

    def _place(self, record: Record, node: NodeName, now: float) -> Sequence[Effect] | str:
        """Charge the pod to this node and send its Binding; otherwise say why not."""
        pod = record.pod
        profile = self._profiles[pod.scheduler_name]
        if self._enqueuer.became_stale(record):
            self._enqueuer.enqueue(record, now, pod_records.FORCE_ACTIVATE)
        refused = refusal_of(pod, profile)
        if refused is not None:
            return refused
        if not self._synced.ready or (pod.shape.claims and not self._synced.inventory):
            return UNREAD
        found = self._choice(record, node)
        if isinstance(found, str):
            return found
        refused = self._assumer.place(record, found, self._ledger)
        if refused is not None:
            return refused
        record.reported = None
        committed = self._binding_cycles.commit(pod.uid, [record], now)
        return committed.sentence if isinstance(committed, NotCommitted) else committed

    def _choice(self, record: Record, node: NodeName) -> Choice | str:
        """The pod's cards on this node, or why it gets none there."""
        row = self._ledger.columns.row_of.get(node)
        if row is None or self._ledger.columns.nodes[row] is None:
            return f'node "{node}" not found'
        evaluator = self._snapshots.actual.evaluators[record.pod.scheduler_name]
        choice = evaluator.at(record.shape, row)
        if choice is not None:
            return choice
        failure = evaluator.failed.get(record.shape)
        if failure is not None:
            return str(failure)
        mask = int(evaluator.masks(record.shape)[row]) & ~NO_NODE
        found = dict.fromkeys(one.text for one in evaluator.reasons_in(record.shape, mask))
        return ", ".join(found)


def not_delegated(scheduler_name: str) -> str:
    """What is said of a pod of kube-scheduler's that this scheduler is no extender for."""
    return f"no profile with extender: true is for schedulerName {scheduler_name}"


def _answer(event: BindAsked, problem: str) -> AnswerBind:
    return AnswerBind(event.uid, event.key, event.node, problem)
