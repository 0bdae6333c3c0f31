"""What people are shown: the machine's books as view values, and why a pod is where it is.

Reads; never decides anything of its own: reasons come from the plugins that decided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.isolation import UNHELD
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.readiness import in_words
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.view import ClusterView, LackView, NodeWhy, PodView, WhyView
from kubeshare_py.framework.points import Explain
from kubeshare_py.framework.reasons import NO_NODE
from kubeshare_py.scheduling.advice import advice
from kubeshare_py.scheduling.card_topology import ring
from kubeshare_py.scheduling.gang_reports import too_few
from kubeshare_py.scheduling.gangs import Gang
from kubeshare_py.scheduling.held_by import Hold, backend_of, hold_on, lacks_on
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.node_view import node_view
from kubeshare_py.scheduling.pod_queue import Line
from kubeshare_py.scheduling.pod_records import Record, State
from kubeshare_py.scheduling.preemption_view import preemption_view

T = TypeVar("T")
#: What owners of a line's pods would be told, worked out at most once in a portion.
Told = dict[Line, str]

#: About 5 ms each.
NODES_A_PORTION, PODS_A_PORTION = 20, 500


def cluster_view(machine: Machine) -> ClusterView:
    """Everything at this instant; nodes by name, pods by namespace and name."""
    portions = list(cluster_portions(machine))
    pods = (pod for portion in portions for pod in portion.pods)
    return replace(
        portions[0],
        nodes=tuple(node for portion in portions for node in portion.nodes),
        pods=tuple(sorted(pods, key=_by_name)),
    )


def cluster_portions(machine: Machine, *, topology: bool = False) -> Iterator[ClusterView]:
    """The same a little at a time, first nodes by name, then pods in no order.

    With `topology` nodes tell how their cards are joined.

    The machine may go on between portions: each is of its own instant, and takes some
    milliseconds, where all of a large cluster would take seconds.
    """
    inventory = "read" if machine.inventory_read else "unread"
    yield ClusterView(
        scheduler=machine.name,
        ready=machine.ready,
        inventory=machine.inventory_failure or inventory,
        overcommitted=tuple(machine.ledger.overcommitted()),
    )
    empty = ClusterView(scheduler=machine.name, ready=machine.ready, inventory=inventory)
    rows = machine.ledger.columns.row_of
    for names in _portions(sorted(rows), NODES_A_PORTION):
        nodes = tuple(node_view(machine, name, topology) for name in names if name in rows)
        yield replace(empty, nodes=nodes)
    for uids in _portions(list(machine.records), PODS_A_PORTION):
        found = (machine.records[uid] for uid in uids if uid in machine.records)
        ours = (one for one in found if one.pod.scheduler_name in machine.profiles)
        told: Told = {}
        yield replace(empty, pods=tuple(_pod_view(machine, record, told) for record in ours))


def _portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def why(machine: Machine, key: PodKey) -> WhyView | None:
    """Why this pod is where it is; None when there is no such pod of ours."""
    found = [record for record in machine.records.values() if record.pod.key == key]
    record = next((r for r in found if r.pod.scheduler_name in machine.profiles), None)
    if record is None:
        return None
    view = _pod_view(machine, record, {})
    if record.node is not None:
        return _where(machine, record, record.node, view)
    if record.state is State.HELD:
        return WhyView(pod=view, message=view.message)
    nodes = tuple(_node_whys(machine, record))
    suggestions = tuple(advice(machine, record, nodes))
    preemption = preemption_view(machine, record) if record.state is State.WAITING else None
    return WhyView(
        pod=view, message=view.message, nodes=nodes, advice=suggestions, preemption=preemption
    )


def _where(machine: Machine, record: Record, node: NodeName, view: PodView) -> WhyView:
    allocation = record.allocation
    held = (
        ring(machine.ledger, node, [card.uuid for card in allocation.cards]) if allocation else None
    )
    message = f"it is on node {node}{_lesser_choice(record)}"
    return WhyView(pod=view, message=message, ring=held)


def _lesser_choice(record: Record) -> str:
    """Which choice of its own the pod's cards are, where they are not the first."""
    claim, allocation = record.pod.shape.claim, record.allocation
    wish = claim.wish if claim is not None else None
    if wish is None or allocation is None:
        return ""
    tiers = {card.model: wish.tier(card.model) or 0 for card in allocation.cards}
    worst = max(sorted(tiers), key=tiers.__getitem__, default="")
    if not tiers.get(worst):
        return ""
    return f"; {worst} is choice {tiers[worst] + 1} of {len(wish.tiers)} ({wish})"


def _node_whys(machine: Machine, record: Record) -> Iterator[NodeWhy]:
    profile, shape = record.pod.scheduler_name, record.shape
    asker = machine.askers[profile]
    masks = asker.masks(shape).tolist()
    columns = machine.ledger.columns
    for name in sorted(columns.row_of):
        row = columns.row_of[name]
        mask = masks[row]
        if not mask & NO_NODE:
            reasons = tuple(reason.text for reason in asker.reasons_in(shape, mask))
            shortfalls = tuple(_shortfalls(machine, profile, shape, row)) if mask else ()
            yield NodeWhy(
                name=name,
                fits=not mask,
                reasons=reasons,
                shortfalls=shortfalls,
                lacks=lacks_on(machine.ledger, row, shape),
            )


def _shortfalls(machine: Machine, name: str, shape: Shape, row: int) -> list[Shortfall]:
    """What is missing; of a card that would not do however much were free, nothing but that."""
    profile = machine.profiles[name]
    found = [
        shortfall
        for plugin in (*profile.filters, *profile.card_filters)
        if isinstance(plugin, Explain)
        for shortfall in plugin.explain(shape, machine.ledger, row)
    ]
    hopeless = {one.subject for one in found if one.asked is None}
    if "" in hopeless:
        return [one for one in found if one.asked is None]
    return [one for one in found if one.asked is None or one.subject not in hopeless]


def _pod_view(machine: Machine, record: Record, told: Told) -> PodView:
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
    )


def _models(claim: GpuClaim) -> tuple[str, ...]:
    """What the pod says about models, in words."""
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
    """What the leader will have told them: who stands by has told nobody anything."""
    asker = machine.askers[line.profile]
    known = machine.ready and machine.inventory_read
    if not known or not asker.masks(line.shape).all():
        return ""
    return asker.diagnose(line.shape).message


def _by_name(view: PodView) -> tuple[str, str]:
    return view.namespace, view.name
