"""What a placed pod holds of its cards, and whether its labels still ask for that.

Reads; decides nothing.
"""

from collections.abc import Sequence
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
    if record.node is None or allocation is None or pod.allocation_problem:
        return False
    if pod.problem is not None:
        return True
    asked, held = pod.shape.claims, allocation.claims
    if not asked:
        return bool(allocation.cards)
    if not held and (pod.request is None or pod.request.is_pod_wide):
        return len(asked) > 1 or _is_other(asked[0], allocation.cards)
    containers = [] if pod.request is None else [one.container for one in pod.request.claims]
    if containers != [one.container for one in held]:
        return True
    return any(_is_other(claim, one.cards) for claim, one in zip(asked, held, strict=True))


def _is_other(claim: GpuClaim, cards: Sequence[CardCharge]) -> bool:
    """Whether the claim asks for something else than these cards."""
    alone = all(card.exclusive for card in cards)
    if claim.count != len(cards) or claim.exclusive != alone:
        return True
    return any(_differs(claim, card) for card in cards)


def _differs(claim: GpuClaim, card: CardCharge) -> bool:
    if claim.exclusive:
        return False
    if claim.compares(card.model) and claim.milli_on(card.model) != card.milli:
        return True
    return claim.memory_bytes not in (None, card.memory_bytes)
