"""A pod as people see it: what it and its containers ask for, where it is and why, why it waits."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np
from msgspec import Struct

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import UNHELD, in_words
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import CardRelation, ContainerRef, GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.snapshot import ClusterReading
from kubeshare_py.scheduling.charges.holdings import (
    asks_for_other,
    claimed_parts,
    claims_of,
    holdings,
    holdings_of,
)
from kubeshare_py.scheduling.enqueue import refusal_of
from kubeshare_py.scheduling.explain.question import Sees, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_cycle import BindDoubt
from kubeshare_py.scheduling.pod_groups.gang_reports import too_few
from kubeshare_py.scheduling.queue.asked_shapes import IsolationHold, backend_of, hold_on
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.views.ages import duration
from kubeshare_py.views.view import (
    CardNotReadyView,
    ContainerPartView,
    ContainerView,
    NeighbourView,
    PlacementView,
    PodView,
    RankedNode,
    ScoreView,
    container_words,
)

# What a pod and each of its containers ask for and hold, as people see it.


class AskedInAll(Struct, frozen=True, kw_only=True):
    """What a pod's claims ask for together, in the fields of a `PodView`."""

    count: int = 0
    milli: int = 0
    memory_bytes: int | None = None
    memory_milli: int | None = None
    models: tuple[str, ...] = ()
    share_of: str = ""


_NOTHING = AskedInAll()


def asked_in_all(shape: Shape) -> AskedInAll:
    """The cards of all claims; amounts are the largest where claims differ, names then empty."""
    claims = shape.claims
    if not claims:
        return _NOTHING
    first = claims[0]
    if len(claims) == 1:  # nearly always
        return AskedInAll(
            count=first.count,
            milli=first.milli,
            memory_bytes=first.memory_bytes,
            memory_milli=first.memory_milli,
            models=_models(first),
            share_of=first.share_of,
        )
    counts = [claim.count for claim in claims]
    memory = [claim.memory_bytes for claim in claims if claim.memory_bytes is not None]
    part = [claim.memory_milli for claim in claims if claim.memory_milli is not None]
    models, names = {_models(claim) for claim in claims}, {claim.share_of for claim in claims}
    return AskedInAll(
        count=max(counts) if shape.relation is CardRelation.SAME_CARD else sum(counts),
        milli=max(claim.milli for claim in claims),
        memory_bytes=max(memory, default=None),
        memory_milli=max(part, default=None),
        models=_models(first) if len(models) == 1 else (),
        share_of=first.share_of if len(names) == 1 else "",
    )


def relation_of(shape: Shape) -> str:
    """How the cards of several claims relate; "" if that does not matter."""
    matters = len(shape.claims) > 1 and shape.relation is not CardRelation.FREE
    return shape.relation if matters else ""


def container_views(ledger: Ledger, record: Record) -> tuple[ContainerView, ...]:
    """The containers with claims or cards of their own; empty if all see the same cards.

    A container with several claims is there once for each.
    """
    pod, allocation = record.pod, record.allocation
    is_divided = allocation is not None and allocation.claims
    if not is_divided and (pod.request is None or pod.request.is_pod_wide):
        return ()  # nearly always
    asked: dict[ContainerRef, list[GpuClaim]] = {}
    held: dict[ContainerRef, list[tuple[CardCharge, ...]]] = {}
    for owner, claim in claims_of(pod, pod.shape):
        if owner is not None:
            asked.setdefault(owner, []).append(claim)
    for part in allocation.claims if allocation is not None else ():
        held.setdefault(part.container, []).append(part.cards)
    return tuple(
        _view(ledger, record, container, asks, cards or ())
        for container in sorted(asked.keys() | held.keys())
        for asks, cards in zip_longest(asked.get(container, ()), held.get(container, ()))
    )


def container_parts(allocation: Allocation) -> dict[GpuUuid, tuple[ContainerPartView, ...]]:
    """By card, the parts of it that single containers hold."""
    if not allocation.claims:
        return {}  # nearly always
    found: dict[GpuUuid, list[ContainerPartView]] = {}
    for part in sorted(allocation.claims, key=lambda one: one.container):
        for card in part.cards:
            found.setdefault(card.uuid, []).append(
                ContainerPartView(
                    container=str(part.container), milli=card.milli, memory_bytes=card.memory_bytes
                )
            )
    return {uuid: tuple(parts) for uuid, parts in found.items()}


def containers_by_claim(record: Record) -> list[tuple[str, ...]]:
    """The containers that have each different claim, in the order of `by_claim`.

    None of them for a claim of the whole pod.
    """
    found: dict[GpuClaim, tuple[str, ...]] = {}
    for container, claim in claims_of(record.pod, record.shape):
        known = found.get(claim, ())
        found[claim] = known if container is None else (*known, str(container))
    return [*found.values()]


def _view(
    ledger: Ledger,
    record: Record,
    container: ContainerRef,
    claim: GpuClaim | None,
    cards: Sequence[CardCharge],
) -> ContainerView:
    held = holdings_of(ledger, record.node, cards) if record.node is not None else ()
    if claim is None:
        return ContainerView(container=str(container), holds=held)
    return ContainerView(
        container=str(container),
        count=claim.count,
        milli=claim.milli,
        memory_bytes=claim.memory_bytes,
        memory_milli=claim.memory_milli,
        models=_models(claim),
        share_of=claim.share_of,
        exclusive=claim.exclusive,
        holds=held,
    )


def _models(claim: GpuClaim) -> tuple[str, ...]:
    """The claim's models, as words."""
    if claim.preferred is None:
        return claim.models
    return (" that is also ".join((*claim.models, str(claim.preferred))),)


# Whether a placed pod has cards of a model that is not its first choice.


def lesser_choice(record: Record) -> str:
    """Which choice of the pod its cards are, if they are not the first; the worst of its claims."""
    allocation = record.allocation
    worst: tuple[int, str] = (0, "")
    for one in claimed_parts(record.pod, allocation) or () if allocation else ():
        preferred = one.claim.preferred
        if preferred is None:
            continue
        tiers = {card.model: preferred.tier(card.model) or 0 for card in one.cards}
        model = max(sorted(tiers), key=tiers.__getitem__, default="")
        tier = tiers.get(model, 0)
        if tier > worst[0]:
            said = f"{model} is choice {tier + 1} of {len(preferred.tiers)} ({preferred})"
            worst = (
                tier,
                said if one.container is None else f"{container_words(str(one.container))}: {said}",
            )
    return worst[1]


# A pod as people see it: what it asks for, where it is, why it waits.


#: The message for the pods of a shape queue, computed at most once in a portion.
QueueMessages = dict[ShapeQueue, str]


def pod_view(
    machine: Machine, reading: ClusterReading, record: Record, messages: QueueMessages
) -> PodView:
    """The view of one pod. `messages` holds those of the shape queues that were seen before."""
    pod, allocation = record.pod, record.allocation
    asked = asked_in_all(pod.shape)
    backend = backend_of(record, machine.profiles)
    hold = hold_on(machine.ledger, record.node, allocation) if record.node else IsolationHold()
    return PodView(
        namespace=pod.key.namespace,
        name=pod.key.name,
        uid=pod.uid,
        state=record.state.name.lower(),
        profile=pod.scheduler_name,
        priority=pod.priority,
        label_priority=pod.label_priority,
        created=pod.created,
        count=asked.count,
        milli=asked.milli,
        memory_bytes=asked.memory_bytes,
        memory_milli=asked.memory_milli,
        models=asked.models,
        share_of=asked.share_of,
        node=record.node or "",
        cards=tuple(card.uuid for card in allocation.cards) if allocation else (),
        port=allocation.port if allocation else None,
        message=_message(machine, reading, record, messages),
        isolation=backend or "",
        unheld=hold.unheld if record.node else UNHELD[backend] if backend else (),
        not_ready=_cards_not_ready(hold),
        holds=holdings(machine.ledger, record.node, allocation) if record.node else (),
        asks_for_other=asks_for_other(record),
        containers=container_views(machine.ledger, record),
        relation=relation_of(pod.shape),
        card_name=allocation.cards[0].name if allocation and allocation.cards else "",
        unlikely=pod.unlikely,
        gang=pod.group.name if pod.group is not None else "",
    )


def _cards_not_ready(hold: IsolationHold) -> tuple[CardNotReadyView, ...]:
    if not hold.not_ready and not hold.unreported:
        return ()  # nearly always
    return (
        *(CardNotReadyView(uuid=uuid, reason=in_words(why)) for uuid, why in hold.not_ready),
        *(CardNotReadyView(uuid=uuid) for uuid in hold.unreported),
    )


def _message(
    machine: Machine, reading: ClusterReading, record: Record, messages: QueueMessages
) -> str:
    if record.state is PodState.PREBINDING:
        return f"waits for {record.waits_for}" if record.waits_for else ""
    if record.node is not None:
        is_sent = record.state is PodState.ASSUMED
        doubt = machine.doubt_about(record)
        age_s = 0.0 if doubt is None else machine.time_since_s(doubt.since)
        sent = _binding_message(record, doubt, age_s) if is_sent else ""
        return sent or record.pod.allocation_problem
    if record.state is PodState.GATED and record.pod.gates:
        return f"waiting for scheduling gates: [{' '.join(record.pod.gates)}]"
    if record.reported is not None:
        return record.reported.message
    gang = machine.gangs.of(record.pod.uid)
    if gang is not None and gang.needs_quorum:
        return _gang_message(record, gang, decides=machine.decides)
    return _queue_message(machine, reading, record, messages)


def _binding_message(record: Record, doubt: BindDoubt | None, age_s: float) -> str:
    """What the API server said of a Binding that is sent again; "" of one without an answer."""
    if doubt is not None:
        return f"not confirmed for {duration(age_s)}, and sent again: {doubt.answer}"
    return record.reported.message if record.reported is not None else ""


def message_now(machine: Machine, reading: ClusterReading, record: Record, message: str) -> str:
    """The reported `message` of a waiting pod, with the counts of this instant.

    What is reported is as old as the last try; beside it, each node is shown as it is now.
    """
    gang = machine.gangs.of(record.pod.uid)
    alone = gang is None or not gang.needs_quorum
    if not alone or record.reported is not None or record.state is PodState.DELEGATED:
        return message
    diagnosis = machine.diagnosis_of(record) if machine.decides else None
    if diagnosis is None or diagnosis.sentence:
        return message
    evaluator = reading.evaluators[record.pod.scheduler_name]
    fitting = int((evaluator.row_scores(record.shape) >= 0).sum())
    if fitting:
        nodes = "1 node has" if fitting == 1 else f"{fitting} nodes have"
        return f"{nodes} room for it now, and it is tried again; at its last try: {message}"
    fresh = evaluator.diagnose(record.shape)
    if (fresh.nodes, fresh.counts, fresh.limit) == (
        diagnosis.nodes,
        diagnosis.counts,
        diagnosis.limit,
    ):
        return message
    return replace(fresh, preface=diagnosis.preface, remark=diagnosis.remark).message


def _queue_message(
    machine: Machine, reading: ClusterReading, record: Record, messages: QueueMessages
) -> str:
    if record.state is PodState.DELEGATED:
        refused = refusal_of(record.pod, machine.profiles[record.pod.scheduler_name])
        return refused or "kube-scheduler chooses its node, and asks this scheduler for its cards"
    if machine.decides:
        diagnosis = machine.diagnosis_of(record)
        return "" if diagnosis is None else diagnosis.message
    shape_queue = machine.queue.queue_of(record.pod.uid)
    if shape_queue is None:
        return ""
    if shape_queue not in messages:
        known = machine.ready and machine.inventory_read
        messages[shape_queue] = _supposed(reading, shape_queue) if known else ""
    return messages[shape_queue]


def _gang_message(record: Record, gang: Gang, *, decides: bool) -> str:
    if record.state is not PodState.WAITING:
        return ""
    if gang.diagnosis is not None:
        return gang.diagnosis.message
    missing = not decides and len(gang.waiting) < gang.need
    return too_few(gang).message if missing else ""


def _supposed(reading: ClusterReading, shape_queue: ShapeQueue) -> str:
    """The message that the leader will have reported; a standby has reported nothing itself."""
    evaluator = reading.evaluators[shape_queue.profile]
    if not evaluator.masks(shape_queue.shape).all():
        return ""
    return evaluator.diagnose(shape_queue.shape).message


# Why a bound pod is where it is: its node's score if the pod were placed now, and its neighbours.
#
# Reads; decides nothing. The scores of the actual placement are not kept: the question is asked
# anew, with the pod itself removed from its node.


#: The most other nodes that are named.
_MAX_OTHERS = 3


def placement_view(
    machine: Machine, reading: ClusterReading, record: Record, node: NodeName, sees: Sees = sees_all
) -> PlacementView:
    """The record must be charged to this node, which may be gone since.

    Neighbours in namespaces that the reader may not see have no names.
    """
    neighbours = _neighbours(machine.ledger, machine.records, record, node, sees)
    columns = machine.ledger.columns
    row = columns.row_of.get(node)
    gang = machine.gangs.of(record.pod.uid)
    if row is None or (gang is not None and gang.needs_quorum):
        return PlacementView(neighbours=neighbours)
    try:
        return replace(_ranked(reading, record, row), neighbours=neighbours)
    except PluginFailed:
        return PlacementView(neighbours=neighbours)


def _ranked(reading: ClusterReading, record: Record, row: int) -> PlacementView:
    """The rank of the pod's row if the pod were not there, by the scores that decide.

    The pod is removed for filters and scores about other pods too. Raises PluginFailed.
    """
    ledger, shape = reading.ledger, record.shape
    charge = ledger.charge_of(record.pod.uid)
    without = reading.snapshots.actual.trial()
    if charge is not None:
        without.remove(charge)
    evaluator, columns = without.evaluators[record.pod.scheduler_name], without.tables.columns
    totals = evaluator.totals(shape, np.arange(columns.rows))
    if totals.item(row) < 0:
        return PlacementView()
    # Of equal scores the first row wins, as in a decision.
    best = [at for at in np.argsort(-totals, kind="stable").tolist() if totals[at] >= 0]
    others = [at for at in best[: _MAX_OTHERS + 1] if at != row][:_MAX_OTHERS]
    return PlacementView(
        rank=best.index(row) + 1,
        fitting=len(best),
        score=totals.item(row),
        scores=tuple(
            ScoreView(plugin=plugin, weight=weight, points=points)
            for plugin, weight, points in evaluator.scores(shape, row)
        ),
        others=tuple(
            RankedNode(name=columns.names[at] or "", score=totals.item(at)) for at in others
        ),
    )


def _neighbours(
    ledger: Ledger,
    records: Mapping[PodUid, Record],
    record: Record,
    node: NodeName,
    sees: Sees,
) -> tuple[NeighbourView, ...]:
    """The other pods with a part of one of its cards, by name."""
    own = {card.uuid for card in record.allocation.cards} if record.allocation else set()
    found = []
    for uid, charge in ledger.pods_on(node).items() if own else ():
        shared = [one for one in holdings(ledger, node, charge.allocation) if one.uuid in own]
        if shared and uid != record.pod.uid:
            key = records[uid].pod.key
            named = (key.namespace, key.name) if sees(key.namespace) else ("", "")
            found.append(NeighbourView(namespace=named[0], name=named[1], holds=tuple(shared)))
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name)))
