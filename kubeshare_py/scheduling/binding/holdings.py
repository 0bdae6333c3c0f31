"""What a placed pod holds of its cards, and whether its labels still ask for that.

Reads; decides nothing.
"""

from dataclasses import replace

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.holding import HoldingView
from kubeshare_py.views.view import WhyView


def holdings(
    ledger: Ledger, node: NodeName, allocation: Allocation | None
) -> tuple[HoldingView, ...]:
    """Parts of cards in the order in which the pod's containers see them."""
    if allocation is None or not allocation.cards:
        return ()
    indexes = {gpu.uuid: gpu.index for gpu in ledger.inventory.get(node, ())}
    return tuple(
        HoldingView(
            uuid=card.uuid,
            index=indexes.get(card.uuid, -1),
            model=card.model,
            milli=card.milli,
            memory_bytes=card.memory_bytes,
        )
        for card in allocation.cards
    )


def with_indexes(ledger: Ledger, found: WhyView) -> WhyView:
    """The view with the driver's index of each card in it."""
    named = {one.subject for node in found.nodes for one in node.shortfalls}
    nodes = {node.name for node in found.nodes if node.shortfalls} | {found.pod.node}
    named.update(found.pod.cards)
    if found.preemption is not None:
        for victim in found.preemption.victims:
            named.update(victim.cards)
            nodes.add(victim.node)
        for seat in found.preemption.nominations:
            named.update(seat.cards)
            nodes.add(seat.node)
    known = (gpu for name in sorted(nodes) for gpu in ledger.inventory.get(NodeName(name), ()))
    return replace(found, indexes={gpu.uuid: gpu.index for gpu in known if gpu.uuid in named})


def asks_for_other(record: Record) -> bool:
    """Whether a bound pod's labels ask for something else than it holds.

    They may be edited while it runs; what it holds was decided when it was bound. An unreadable
    allocation is another problem, and a share of another model is compared only if the pod's
    profile relates it.
    """
    pod, allocation = record.pod, record.allocation
    if record.node is None or allocation is None:
        return False
    if pod.problem is not None:
        return True
    claim = pod.shape.claim
    if claim is None:
        return bool(allocation.cards)
    if claim.count != len(allocation.cards) or claim.exclusive != allocation.exclusive:
        return True
    return any(_differs(claim, card) for card in allocation.cards)


def _differs(claim: GpuClaim, card: CardCharge) -> bool:
    if claim.compares(card.model) and claim.milli_on(card.model) != card.milli:
        return True
    asked = None if claim.exclusive else claim.memory_bytes
    return asked is not None and asked != card.memory_bytes
