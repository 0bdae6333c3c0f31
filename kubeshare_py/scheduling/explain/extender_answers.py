"""What kube-scheduler asks its extender before it chooses a node: questions that change nothing.

`/filter` asks which of some nodes have cards for a pod, `/prioritize` how good they are. Both are
answered from the ledger as it is now. kube-scheduler itself refuses nodes for all other reasons.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.reasons import NO_NODE
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.enqueue import as_delegated, refusal_of
from kubeshare_py.scheduling.extender_binds import UNREAD, not_delegated
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState

#: kube-scheduler's extenders score from 0 to this (MaxExtenderPriority of extender/v1).
MAX_EXTENDER_PRIORITY = 10
#: The most pods that kube-scheduler is asked at once to try again.
MAX_WOKEN = 32
#: Of a node that is not known, in HAMi's words.
UNREGISTERED = "node unregistered"


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The nodes that have cards for the pod, in the order asked, and why each of the others not.

    `problem` is a sentence if no node can be judged; the rest is then empty.
    """

    fitting: tuple[NodeName, ...] = ()
    failed: tuple[tuple[NodeName, str], ...] = ()
    problem: str = ""


def filtered(machine: Machine, pod: Pod, names: Sequence[NodeName]) -> FilterAnswer:
    """Which of these nodes the pod, as kube-scheduler has it, may go to for the sake of its cards.

    A pod that is being bound fits its node alone.
    """
    problem = _no_answer(machine.profiles, pod, ready=machine.ready)
    if problem:
        return FilterAnswer(problem=problem)
    if not pod.shape.claims and pod.problem is None:
        return FilterAnswer(tuple(names))
    refused = refusal_of(pod, machine.profiles[pod.scheduler_name])
    if refused is None and not machine.inventory_read:
        refused = UNREAD
    record = machine.records.get(pod.uid)
    is_placed = record is not None and record.node is not None
    if refused is None and not is_placed:
        refused = machine.quotas.refusal(pod)
    if refused is not None:
        return FilterAnswer(failed=tuple((name, refused) for name in names))
    if record is not None and is_placed:
        why = f"it is being bound to {record.node}"
        return FilterAnswer(
            tuple(name for name in names if name == record.node),
            tuple((name, why) for name in names if name != record.node),
        )
    shape = machine.shape_of(as_delegated(pod))
    evaluator = machine.reading().evaluators[pod.scheduler_name]
    return _by_cards(evaluator, shape, names)


def fitting_now(machine: Machine, refused: Iterable[PodUid]) -> list[tuple[PodUid, PodKey]]:
    """Those of these pods that could be placed now, in this order; of each shape some.

    At most as many of a shape as there are nodes for it, and MAX_WOKEN in all: kube-scheduler tries
    each of them. The keys are the watch's: who asked about a uid may have named another pod.
    """
    evaluators = machine.reading().evaluators
    room: dict[tuple[str, Shape], int] = {}
    found = []
    for uid in refused:
        record = machine.records.get(uid)
        if record is None or record.state is not PodState.DELEGATED:
            continue
        scheduler_name = record.pod.scheduler_name
        asked = scheduler_name, record.shape
        if asked not in room:
            masks = evaluators[scheduler_name].masks(record.shape)
            room[asked] = int((masks == 0).sum())
        if room[asked]:
            room[asked] -= 1
            found.append((uid, record.pod.key))
        if len(found) == MAX_WOKEN:
            break
    return found


def scored(
    machine: Machine, pod: Pod, names: Sequence[NodeName]
) -> tuple[tuple[NodeName, int], ...]:
    """The score of each of these nodes: MAX_EXTENDER_PRIORITY for the best, 0 for the worst.

    It is 0 as well where the pod does not fit, and on all nodes if the profile finds them equal.
    """
    is_unknown = _no_answer(machine.profiles, pod, ready=machine.ready) or not pod.shape.claims
    if is_unknown or not machine.inventory_read:
        return tuple((name, 0) for name in names)
    shape = machine.shape_of(as_delegated(pod))
    row_of = machine.ledger.columns.row_of
    known = [name for name in names if name in row_of]
    rows = np.array([row_of[name] for name in known], np.int64)
    totals = machine.reading().evaluators[pod.scheduler_name].totals(shape, rows)
    scores = dict(zip(known, totals.tolist(), strict=True))
    fitting = [score for score in scores.values() if score >= 0]
    least, most = min(fitting, default=0), max(fitting, default=0)
    span = max(1, most - least)
    return tuple(
        (name, max(0, scores.get(name, least) - least) * MAX_EXTENDER_PRIORITY // span)
        for name in names
    )


def _no_answer(profiles: Mapping[str, Profile], pod: Pod, *, ready: bool) -> str:
    profile = profiles.get(pod.scheduler_name)
    if profile is None or not profile.extender:
        return not_delegated(pod.scheduler_name)
    return "" if ready else "the scheduler has not read the cluster yet"


def _by_cards(evaluator: Evaluator, shape: Shape, names: Sequence[NodeName]) -> FilterAnswer:
    masks, row_of = evaluator.masks(shape), evaluator.tables.columns.row_of
    failure = evaluator.failed.get(shape)
    texts: dict[int, str] = {}
    fitting, failed = [], []
    for name in names:
        row = row_of.get(name)
        mask = NO_NODE if row is None else int(masks[row])
        if not mask:
            fitting.append(name)
        elif mask & NO_NODE:
            failed.append((name, UNREGISTERED))
        elif failure is not None:
            failed.append((name, str(failure)))
        else:
            if mask not in texts:
                found = dict.fromkeys(one.text for one in evaluator.reasons_in(shape, mask))
                texts[mask] = ", ".join(found)
            failed.append((name, texts[mask]))
    return FilterAnswer(tuple(fitting), tuple(failed))
