"""A pod as people see it: what it asks for, where it is, why it waits."""

from kubeshare_py.domain.isolation import UNHELD
from kubeshare_py.domain.readiness import in_words
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.scheduling.binding.holdings import asks_for_other, holdings
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_reports import too_few
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.held_by import Hold, backend_of, hold_on
from kubeshare_py.scheduling.queue.pod_queue import Line
from kubeshare_py.scheduling.queue.pod_records import Record, State
from kubeshare_py.views.view import LackView, PodView

#: The message for the pods of a line, computed at most once in a portion.
Told = dict[Line, str]


def pod_view(machine: Machine, record: Record, told: Told) -> PodView:
    """The view of one pod; `told` caches the messages of lines."""
    pod, claim = record.pod, record.pod.shape.claim
    allocation = record.allocation
    backend = backend_of(record, machine.profiles)
    hold = hold_on(machine.ledger, record.node, allocation) if record.node else Hold()
    return PodView(
        namespace=pod.key.namespace,
        name=pod.key.name,
        uid=pod.uid,
        state=record.state.name.lower(),
        profile=pod.scheduler_name,
        priority=pod.priority,
        label_priority=pod.label_priority,
        created=pod.created,
        count=claim.count if claim else 0,
        milli=claim.milli if claim else 0,
        memory_bytes=claim.memory_bytes if claim else None,
        models=_models(claim) if claim else (),
        share_of=claim.share_of if claim else "",
        node=record.node or "",
        cards=tuple(card.uuid for card in allocation.cards) if allocation else (),
        port=allocation.port if allocation else None,
        message=_message(machine, record, told),
        isolation=backend or "",
        unheld=hold.unheld if record.node else UNHELD[backend] if backend else (),
        lacks=(
            *(LackView(uuid=uuid, lack=in_words(lack)) for uuid, lack in hold.lacks),
            *(LackView(uuid=uuid) for uuid in hold.untold),
        ),
        holds=holdings(machine.ledger, record.node, allocation) if record.node else (),
        asks_for_other=asks_for_other(record),
    )


def _models(claim: GpuClaim) -> tuple[str, ...]:
    """The pod's models, as words."""
    if claim.wish is None:
        return claim.models
    return (" that is also ".join((*claim.models, str(claim.wish))),)


def _message(machine: Machine, record: Record, told: Told) -> str:
    if record.node is not None:
        return record.pod.allocation_problem
    if record.state is State.HELD and record.pod.gates:
        return f"waiting for scheduling gates: [{' '.join(record.pod.gates)}]"
    if record.told is not None:
        return record.told.message
    gang = machine.gangs.of(record.pod.uid)
    if gang is not None and gang.together:
        return _gang_message(machine, record, gang)
    line = machine.queue.line_of(record.pod.uid)
    return "" if line is None else _line_message(machine, line, told)


def _line_message(machine: Machine, line: Line, told: Told) -> str:
    if not machine.decides:
        if line not in told:
            told[line] = _supposed(machine, line)
        return told[line]
    return line.diagnosis.message if line.blocked and line.diagnosis is not None else ""


def _gang_message(machine: Machine, record: Record, gang: Gang) -> str:
    if record.state is not State.WAITING:
        return ""
    if gang.diagnosis is not None:
        return gang.diagnosis.message
    missing = not machine.decides and len(gang.waiting) < gang.need
    return too_few(gang).message if missing else ""


def _supposed(machine: Machine, line: Line) -> str:
    """The message that the leader will have reported; a standby has reported nothing itself."""
    asker = machine.askers[line.profile]
    known = machine.ready and machine.inventory_read
    if not known or not asker.masks(line.shape).all():
        return ""
    return asker.diagnose(line.shape).message
