"""Changes of bound pods by other clients, as far as they are visible.

Admission policies prevent most of them; others are charged as the pod states and reported.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kubeshare_py.cluster.native.native_gpus import native_gpus
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import PodWarning, ReportPodWarning
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, index_of
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import MAX_MESSAGE, beginning
from kubeshare_py.scheduling.queue.pod_records import PodState, Record

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
        note = f"it asks for GPUs, but somebody else bound it to {pod.node_name} without any"
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
    """Problems of pods that are bound already; `ours`: the names of this scheduler."""
    for record in records:
        if record.state is PodState.BOUND:
            yield from warnings_of(record.pod, record.pod.scheduler_name in ours)
            if record.node in inventory:
                yield from unknown_indices(record.pod, record.allocation)


def placed_by_another(pod: Pod, held: Allocation | None) -> Iterator[ReportPodWarning]:
    """Problems of a pod that another client just bound; `held` is what is charged."""
    if held is not None:
        cards = _named([card.uuid for card in held.cards]) or "no GPU"
        note = f"somebody else placed it on {pod.node_name} with {cards}: charged as it says"
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
        note = "somebody else changed its allocation: what it held when it was bound stays charged"
        yield _report(after, PodWarning.CHANGED, note)
    known = {report.warning for report in warnings_of(before, is_ours)}
    yield from (one for one in warnings_of(after, is_ours) if one.warning not in known)


def _report(pod: Pod, warning: PodWarning, note: str) -> ReportPodWarning:
    return ReportPodWarning(pod.uid, pod.key, warning, beginning(note, MAX_MESSAGE))


def _named(uuids: Sequence[GpuUuid]) -> str:
    """The first cards, and how many more there are."""
    more = [f"{len(uuids) - _NAMED} more"] if len(uuids) > _NAMED else []
    return ", ".join([*uuids[:_NAMED], *more])
