"""What other clients did to pods: bound or changed them, deleted them by force, or named cards."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.charge import native_gpus
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import Lingers, PodWarning, ReportPodWarning
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid, index_of
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import MAX_MESSAGE, beginning
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.pod_records import PodState, QueueMoves, Record
from kubeshare_py.scheduling.queue.timers import Alarms, Timers

# Warnings about pods: changes of bound pods by other clients, and labels that are hardly meant.
#
# Admission policies prevent most of these changes; others are charged as the pod states and
# reported.


#: The most cards that a sentence names.
_NAMED = 8


def warnings_of(pod: Pod, is_ours: bool) -> Iterator[ReportPodWarning]:
    """Problems of a bound pod by itself; `is_ours`: it names this scheduler."""
    if pod.allocation_problem:
        note = _charged_instead(pod)
        yield _report(pod, PodWarning.UNREADABLE, f"{note}: {pod.allocation_problem}")
    elif pod.mismatch:
        note = f"its containers may use what it does not hold: {pod.mismatch}"
        yield _report(pod, PodWarning.MISMATCH, note)
    elif pod.difference:
        note = f"the larger is charged: {pod.difference}"
        yield _report(pod, PodWarning.DIFFERENCE, note)
    elif is_ours and pod.allocation is None and pod.shape.claims:
        note = f"it asks for GPUs, but another client bound it to {pod.node_name} without any"
        yield _report(pod, PodWarning.MISSING, note)


def _charged_instead(pod: Pod) -> str:
    """What is charged of a pod whose allocation cannot be read."""
    if pod.allocation is not None:
        cards = _named([card.uuid for card in pod.allocation.cards])
        return f"all of {cards} is charged, because it is not known how much of it the pod holds"
    count = native_gpus(pod.shape.resources)
    if count:
        which = "an idle GPU is" if count == 1 else f"{count} idle GPUs are"
        return f"{which} held back on {pod.node_name}, because it is not known what the pod holds"
    return "what it holds of GPUs is not charged"


def standing(
    records: Iterable[Record],
    ours: Collection[str],
    inventory: Mapping[NodeName, Sequence[Gpu]],
) -> Iterator[ReportPodWarning]:
    """Problems of pods that are there already; `ours`: the names of this scheduler."""
    for record in records:
        if record.node is None:
            yield from unlikely_labels(record.pod)
        if record.state is PodState.BOUND:
            yield from warnings_of(record.pod, record.pod.scheduler_name in ours)
            if record.node in inventory:
                yield from unknown_indices(record.pod, record.allocation)


def unlikely_labels(pod: Pod) -> Iterator[ReportPodWarning]:
    """What a waiting pod's labels say and hardly mean."""
    if pod.unlikely:
        yield _report(pod, PodWarning.UNLIKELY, "; ".join(pod.unlikely))


def placed_by_another(pod: Pod, held: Allocation | None) -> Iterator[ReportPodWarning]:
    """Problems of a pod that another client just bound; `held` is what is charged."""
    if held is not None:
        cards = _named([card.uuid for card in held.cards]) or "no GPU"
        note = f"another client placed it on {pod.node_name} with {cards}: charged as it says"
        yield _report(pod, PodWarning.NOT_OURS, note)


def unknown_cards(
    pod: Pod, held: Allocation | None, cards: Collection[GpuUuid]
) -> Iterator[ReportPodWarning]:
    """Problems of a pod that another client bound with cards that its node does not have.

    `held` is what is charged, and `cards` are those that the node has.
    """
    claimed = () if held is None else held.cards
    yield from _unknown(pod, [card.uuid for card in claimed if card.uuid not in cards])


def unknown_indices(pod: Pod, held: Allocation | None) -> Iterator[ReportPodWarning]:
    """Problems of a pod whose node's cards are known, and have no single card of some index."""
    claimed = () if held is None else held.cards
    yield from _unknown(pod, [card.uuid for card in claimed if index_of(card.uuid) is not None])


def _unknown(pod: Pod, unknown: Sequence[GpuUuid]) -> Iterator[ReportPodWarning]:
    if unknown:
        note = f"{pod.node_name} does not have {_named(unknown)}: charged once it has them"
        yield _report(pod, PodWarning.UNKNOWN_CARDS, note)


def changed(before: Pod, after: Pod, is_ours: bool) -> Iterator[ReportPodWarning]:
    """New problems of a bound pod after a change."""
    same = before.allocation == after.allocation
    if same and after.allocation is not None and not after.mismatch:
        return  # nearly always
    if before.allocation is not None and not same:
        note = "another client changed its allocation: what it held when it was bound stays charged"
        yield _report(after, PodWarning.CHANGED, note)
    known = {report.warning for report in warnings_of(before, is_ours)}
    yield from (one for one in warnings_of(after, is_ours) if one.warning not in known)


def _report(pod: Pod, warning: PodWarning, note: str) -> ReportPodWarning:
    return ReportPodWarning(pod.uid, pod.key, warning, beginning(note, MAX_MESSAGE))


def _named(uuids: Sequence[GpuUuid]) -> str:
    """The first cards, and how many more there are."""
    more = [f"{len(uuids) - _NAMED} more"] if len(uuids) > _NAMED else []
    return ", ".join([*uuids[:_NAMED], *more])


# Pods that were deleted by force: their cards are held while a kubelet may let containers run on.
#
# A bound pod whose object vanishes before it was seen to stop lingers for the rest of its grace
# period, at most for a configured time. What a kubelet does meanwhile: `manifests.pods.pod`. A
# pod that a kubelet shows as finished, or whose deletion is older than its grace period, never
# lingers. A pod without any status of a kubelet may linger too, because containers are started
# before their first status is written. Only this process knows of it: one that starts later finds
# the pod gone, and its cards free.


@dataclass(frozen=True, slots=True)
class LingeringPod:
    """A pod that is gone, as last known, and until when (s) it lingers."""

    record: Record
    until: float

    @property
    def key(self) -> PodKey:
        """Its namespace and name."""
        return self.record.pod.key


class LingeringPods:
    """The lingering pods; the ledger has their charges. `most_s`: the longest time (s); 0: none."""

    def __init__(self, ledger: Ledger, moves: QueueMoves, most_s: float, alarms: Alarms) -> None:
        self._ledger = ledger
        self._moves = moves
        self._most_s = most_s
        self._pods: dict[PodUid, LingeringPod] = {}
        self._due: Timers[PodUid] = Timers(alarms)

    def __len__(self) -> int:
        return sum(1 for _ in self.pods())

    def pods(self) -> Iterator[LingeringPod]:
        """The lingering pods, in the order in which they vanished."""
        return (one for uid, one in self._pods.items() if uid in self._ledger.lingering)

    def of(self, uid: PodUid) -> LingeringPod | None:
        """This pod, None if it does not linger."""
        return self._pods.get(uid)

    def on(self, node: NodeName) -> list[LingeringPod]:
        """The lingering pods of a node; what claims hold there is no pod's."""
        here = self._ledger.lingering_on(node)
        return [one for uid in here if (one := self._pods.get(uid)) is not None]

    def until(self, record: Record, now: float) -> float:
        """Until when (s) this pod would linger if it vanished now; at most `now` if not."""
        if record.stopped or record.node is None:
            return now
        end = now + record.pod.grace_s if record.leaves_by is None else record.leaves_by
        return min(end, now + self._most_s)

    def begin(self, record: Record, until: float, now: float) -> Lingers:
        """The pod vanished; the ledger keeps its charge as that of a lingering pod."""
        pod, node = record.pod, record.node
        assert node is not None
        self._pods[pod.uid] = LingeringPod(replace(record), until)
        self._due.add(until, pod.uid)
        cards = record.allocation.cards if record.allocation is not None else ()
        uuids = tuple(card.uuid for card in cards)
        return Lingers(pod.uid, pod.key, node, uuids, until - now)

    def end(self, uid: PodUid) -> bool:
        """End a pod's lingering; whether it lingered until now."""
        if self._pods.pop(uid, None) is None:
            return False
        self._moves.improved_by = pod_records.ASSIGNED_POD_DELETE
        self._ledger.end_lingering(uid)
        return True

    def time_passed(self, now: float) -> list[PodUid]:
        """End what is over; the pods."""
        return [
            uid
            for uid in self._due.due(now)
            if (one := self._pods.get(uid)) is not None and one.until <= now and self.end(uid)
        ]


def deletion_seen(record: Record, now: float) -> None:
    """Record when a deleted pod's grace period will be over."""
    pod = record.pod
    if pod.deleting and record.leaves_by is None:
        record.leaves_by = now + pod.grace_s
    record.stopped |= pod.stopped


def may_linger(record: Record, *, missing: bool) -> bool:
    """Whether a kubelet may know of it; `missing`: a list does not have it.

    A pod with an unanswered Binding was bound, if at all, while this scheduler did not watch.
    """
    return record.state in (PodState.BOUND, PodState.UNCONFIRMED) or (
        missing and record.state is PodState.ASSUMED
    )


# Pods whose cards were named by index, once their node's cards are known.


def found_cards(
    ledger: Ledger, records: Mapping[PodUid, Record], lingering: LingeringPods
) -> Iterator[ReportPodWarning]:
    """Let records name the cards that the ledger found; the pods of whose cards some are missing.

    Nearly always there are none.
    """
    for uid in ledger.take_looked_up():
        charge, record = ledger.charge_of(uid), records.get(uid)
        if charge is not None and record is not None:
            record.allocation = charge.allocation
            yield from unknown_indices(record.pod, record.allocation)
        elif (gone := lingering.of(uid)) is not None:
            gone.record.allocation = ledger.lingering[uid].allocation
