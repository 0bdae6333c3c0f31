"""What a placed pod holds of its cards, and whether its labels still ask for that.

Reads; decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.request import ContainerRef, GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.view import HoldingView, WhyView


@dataclass(frozen=True, slots=True)
class ClaimedPart:
    """A claim of one container, or of the whole pod (None), and the cards held for it."""

    container: ContainerRef | None
    claim: GpuClaim
    cards: tuple[CardCharge, ...]


def holdings(
    ledger: Ledger, node: NodeName, allocation: Allocation | None
) -> tuple[HoldingView, ...]:
    """Parts of cards in the order in which the pod's containers see them."""
    return holdings_of(ledger, node, allocation.cards) if allocation is not None else ()


def holdings_of(
    ledger: Ledger, node: NodeName, cards: Sequence[CardCharge]
) -> tuple[HoldingView, ...]:
    """These parts of cards of one node, in the same order."""
    there = ledger.inventory.get(node, ())
    return tuple(
        HoldingView(
            uuid=card.uuid,
            index=next((gpu.index for gpu in there if gpu.uuid == card.uuid), -1),
            model=card.model,
            milli=card.milli,
            memory_bytes=card.memory_bytes,
        )
        for card in cards
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
    claims = pod.shape.claims
    if not claims:
        return bool(allocation.cards)
    if not allocation.claims:  # nearly always
        return len(claims) != 1 or _is_other(claims[0], allocation.cards)
    parts = claimed_parts(pod, allocation)
    return parts is None or any(_is_other(one.claim, one.cards) for one in parts)


def claims_of(pod: Pod, shape: Shape) -> list[tuple[ContainerRef | None, GpuClaim]]:
    """The claims of a shape of the pod, and the containers that have them; None is the pod."""
    claims, request = shape.claims, pod.request
    if request is None or len(request.claims) != len(claims):
        return [(None, claim) for claim in claims]
    return [(one.container, claim) for one, claim in zip(request.claims, claims, strict=True)]


def claimed_parts(pod: Pod, allocation: Allocation) -> list[ClaimedPart] | None:
    """Each claim of a pod, and the cards held for it; None if these are of other containers.

    Guests have no claims.
    """
    asked = claims_of(pod, pod.shape)
    if not allocation.claims:
        # All containers see all cards, or the pod's one claim was written down as of all of them.
        return [ClaimedPart(*one, allocation.cards) for one in asked] if len(asked) == 1 else None
    of_containers = [(one, claim) for one, claim in asked if one is not None]
    of_containers.sort(key=lambda pair: pair[0])
    guests = {one.container for one in pod.request.guests} if pod.request is not None else ()
    held = sorted(
        (part for part in allocation.claims if part.container not in guests),
        key=lambda part: part.container,
    )
    if [one for one, _ in of_containers] != [part.container for part in held]:
        return None
    pairs = zip(of_containers, held, strict=True)
    return [ClaimedPart(one, claim, part.cards) for (one, claim), part in pairs]


def _is_other(claim: GpuClaim, cards: Sequence[CardCharge]) -> bool:
    if claim.count != len(cards) or claim.exclusive != all(card.exclusive for card in cards):
        return True
    return any(_differs(claim, card) for card in cards)


def _differs(claim: GpuClaim, card: CardCharge) -> bool:
    if claim.exclusive:
        return False
    if claim.compares(card.model) and claim.milli_on(card.model) != card.milli:
        return True
    return claim.memory_bytes not in (None, card.memory_bytes)
