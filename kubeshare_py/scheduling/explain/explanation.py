"""The machine's state as view values, and why a pod is where it is.

Reads and decides nothing of its own: reasons come from the plugins that decided.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.snapshot import ClusterReading
from kubeshare_py.scheduling.charges.holdings import with_indexes
from kubeshare_py.scheduling.explain.advice import advice, held_cards, preemption_view
from kubeshare_py.scheduling.explain.node_verdicts import node_whys
from kubeshare_py.scheduling.explain.node_view import node_view, ring
from kubeshare_py.scheduling.explain.pod_view import (
    QueueMessages,
    lesser_choice,
    message_now,
    placement_view,
    pod_view,
)
from kubeshare_py.scheduling.explain.question import Sees, Steps, completed, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.asked_shapes import RefusedBinds
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.views.ages import duration
from kubeshare_py.views.natural_order import NaturalKey, natural_order
from kubeshare_py.views.view import ClusterView, NodeView, PodView, WhyView

T = TypeVar("T")
#: About 5 ms each.
NODES_A_PORTION, PODS_A_PORTION = 20, 100
#: The most pods that are looked at for a name in one step; 2 ms.
RECORDS_A_STEP = 5_000


def cluster_view(machine: Machine) -> ClusterView:
    """The whole cluster at this instant; nodes by name, pods by namespace and name."""
    return whole_view(list(cluster_portions(machine)))


def whole_view(portions: Sequence[ClusterView]) -> ClusterView:
    """The portions of `cluster_portions` as one view."""
    pods = (pod for portion in portions for pod in portion.pods)
    return replace(
        portions[0],
        nodes=tuple(node for portion in portions for node in portion.nodes),
        pods=tuple(sorted(pods, key=_by_name)),
    )


def cluster_portions(
    machine: Machine, *, topology: bool = False, sees: Sees = sees_all
) -> Iterator[ClusterView]:
    """The cluster in portions, first nodes by name, then pods in no order.

    With `topology`, nodes show how their cards are joined. Pods of namespaces that the reader may
    not see are left out, and are nameless tenants of cards. The machine may go on between portions:
    each is of its own instant and takes some milliseconds, where all of a large cluster would take
    seconds.
    """
    yield overview(machine)
    empty = ClusterView(scheduler=machine.name, ready=machine.ready, inventory="")
    rows = machine.ledger.columns.row_of
    for names in _portions(sorted(rows, key=natural_order), NODES_A_PORTION):
        nodes = tuple(node_view(machine, name, topology, sees) for name in names if name in rows)
        yield replace(empty, nodes=nodes)
    for uids in _portions(list(machine.records), PODS_A_PORTION):
        yield replace(empty, pods=tuple(_pod_views(machine, uids, sees)))


def pod_portions(
    machine: Machine, namespace: str = "", sees: Sees = sees_all
) -> Iterator[ClusterView]:
    """The pods of one namespace ("" for all) in portions, then the nodes that they are on.

    These nodes have only the cards that the pods hold.
    """
    yield overview(machine)
    empty = ClusterView(scheduler=machine.name, ready=machine.ready, inventory="")
    held: dict[str, set[str]] = {}
    for uids in _portions(list(machine.records), PODS_A_PORTION):
        pods = tuple(_pod_views(machine, uids, sees, namespace))
        for pod in pods:
            if pod.node:
                held.setdefault(pod.node, set()).update(pod.cards)
        yield replace(empty, pods=pods)
    rows = machine.ledger.columns.row_of
    for names in _portions(sorted(held, key=natural_order), NODES_A_PORTION):
        there = [node_view(machine, one, False, sees) for one in rows.keys() & {*names}]
        nodes = (
            replace(node, cards=tuple(card for card in node.cards if card.uuid in held[node.name]))
            for node in there
        )
        yield replace(empty, nodes=tuple(sorted(nodes, key=_by_natural_name)))


def overview(machine: Machine) -> ClusterView:
    """The view of the cluster as a whole, without nodes and pods."""
    inventory = "read" if machine.inventory_read else "unread"
    return ClusterView(
        scheduler=machine.name,
        ready=machine.ready,
        inventory=machine.inventory_failure or inventory,
        overcommitted=tuple(machine.ledger.overcommitted()),
    )


def _portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _pod_views(
    machine: Machine, uids: Sequence[PodUid], sees: Sees, namespace: str = ""
) -> Iterator[PodView]:
    """This scheduler's pods of a namespace ("" for all) that are still there and may be named."""
    messages: QueueMessages = {}
    reading = machine.reading()
    for uid in uids:
        record = machine.records.get(uid)
        if record is None or record.pod.scheduler_name not in machine.profiles:
            continue
        where = record.pod.key.namespace
        if namespace in ("", where) and sees(where):
            yield pod_view(machine, reading, record, messages)


def why(machine: Machine, key: PodKey, sees: Sees = sees_all) -> WhyView | None:
    """Why this pod is where it is; None if this scheduler has no such pod.

    Other pods are named if the reader may see their namespace.
    """
    return completed(why_steps(machine, key, sees))


def why_steps(machine: Machine, key: PodKey, sees: Sees = sees_all) -> Steps[WhyView | None]:
    """The same in steps of some milliseconds, between which the machine may go on.

    If the pod is placed meanwhile, or changes, the answer is about it as it is then.
    """
    record = yield from _record_of(machine.records, machine.profiles, key)
    if record is None:
        return None
    steps, before = _why(machine, record, sees), (record.node, record.shape)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: WhyView = end.value
            return answer
        yield
        known = machine.records.get(record.pod.uid)
        if known is not record or (record.node, record.shape) != before:
            return (yield from why_steps(machine, key, sees))


def _why(machine: Machine, record: Record, sees: Sees) -> Steps[WhyView]:
    reading = machine.reading()
    view = pod_view(machine, reading, record, {})
    if record.node is not None:
        return with_indexes(machine.ledger, _where(machine, reading, record, view, sees))
    if record.state is PodState.GATED:
        return WhyView(pod=view, message=view.message)
    message = message_now(machine, reading, record, view.message)
    message = " ".join(
        filter(None, (message, _refused(machine.refused, record.pod.uid, machine.time_until_s)))
    )
    waits_for = cards_waited_for(machine, reading, record, sees)
    yield
    nodes = yield from node_whys(machine, record, sees)
    suggestions = yield from advice(machine, record, sees)
    preemption = None
    if record.state is PodState.WAITING:
        preemption = yield from preemption_view(machine, record, sees)
    answer = WhyView(
        pod=view,
        message=message,
        waits_for=waits_for,
        nodes=nodes,
        advice=suggestions,
        preemption=preemption,
    )
    return with_indexes(machine.ledger, answer)


def cards_waited_for(machine: Machine, reading: ClusterReading, record: Record, sees: Sees) -> str:
    """Which cards it waits for, in words; "" for a pod that fits, and for members of gangs."""
    gang = machine.gangs.of(record.pod.uid)
    if gang is not None and gang.needs_quorum:
        return ""
    if reading.evaluators[record.pod.scheduler_name].fits_anywhere(record.shape):
        return ""
    return held_cards(record.shape, machine.ledger, machine.records, sees)


def _record_of(
    records: Mapping[PodUid, Record], profiles: Collection[str], key: PodKey
) -> Steps[Record | None]:
    """This scheduler's pod of this name, if there is one."""
    for uids in _portions(list(records), RECORDS_A_STEP):
        for uid in uids:
            record = records.get(uid)
            # The name first: comparing keys costs three times as much.
            if record is None or record.pod.key.name != key.name or record.pod.key != key:
                continue
            if record.pod.scheduler_name in profiles:
                return record
        yield
    return None


def _where(
    machine: Machine, reading: ClusterReading, record: Record, view: PodView, sees: Sees
) -> WhyView:
    node, allocation = record.node, record.allocation
    assert node is not None
    held = (
        ring(machine.ledger, node, [card.uuid for card in allocation.cards]) if allocation else None
    )
    is_assumed = record.state is PodState.ASSUMED
    message = (view.message if is_assumed else "") or lesser_choice(record)
    placement = placement_view(machine, reading, record, node, sees)
    return WhyView(pod=view, message=message, ring=held, placement=placement)


def _refused(refused: RefusedBinds, uid: PodUid, time_until_s: Callable[[float], int]) -> str:
    """Which nodes the pod avoids because the API server refused them, and for how long."""
    until = [one.until for one in refused.of(uid).values() if one.is_avoided]
    if not until:
        return ""
    left = duration(time_until_s(min(until)))
    return f"{refused.in_words(uid)} Other nodes are tried for {left} more."


def _by_natural_name(view: NodeView) -> NaturalKey:
    return natural_order(view.name)


def _by_name(view: PodView) -> tuple[str, str]:
    return view.namespace, view.name
