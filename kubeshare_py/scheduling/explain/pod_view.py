"""A pod as people see it: what it asks for, where it is, why it waits."""

from dataclasses import replace

from kubeshare_py.domain.isolation import UNHELD
from kubeshare_py.domain.readiness import in_words
from kubeshare_py.framework.cluster_reading import ClusterReading
from kubeshare_py.scheduling.binding.binding_cycle import BindDoubt
from kubeshare_py.scheduling.binding.delegated_pods import refusal_of
from kubeshare_py.scheduling.binding.holdings import asks_for_other, holdings
from kubeshare_py.scheduling.explain.container_views import (
    asked_in_all,
    container_views,
    relation_of,
)
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_reports import too_few
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.isolation_hold import IsolationHold, backend_of, hold_on
from kubeshare_py.scheduling.queue.pod_queue import ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.views.ages import duration
from kubeshare_py.views.view import CardNotReadyView, PodView

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
        not_ready=(
            *(CardNotReadyView(uuid=uuid, reason=in_words(why)) for uuid, why in hold.not_ready),
            *(CardNotReadyView(uuid=uuid) for uuid in hold.unreported),
        ),
        holds=holdings(machine.ledger, record.node, allocation) if record.node else (),
        asks_for_other=asks_for_other(record),
        containers=container_views(machine.ledger, record),
        relation=relation_of(pod.shape),
        card_name=allocation.cards[0].name if allocation and allocation.cards else "",
    )


def _message(
    machine: Machine, reading: ClusterReading, record: Record, messages: QueueMessages
) -> str:
    if record.state is PodState.PREBINDING:
        return f"waits for {record.waits_for}" if record.waits_for else ""
    if record.node is not None:
        is_sent = record.state is PodState.ASSUMED
        doubt = machine.doubt_about(record)
        age_s = 0.0 if doubt is None else machine.age_s(doubt.since)
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
    fitting = int((evaluator.keys(record.shape) >= 0).sum())
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
