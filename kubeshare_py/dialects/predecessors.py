"""What a pod holds that another scheduler bound in one of our dialects.

Its dialect reads that scheduler's annotations. The ledger counts the larger of what they say and of
what the pod's spec asks for: a charge that is too small would give the same share away again.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from kubeshare_py.dialects.dialect import Dialect, PodAsk, UnreadableHolding
from kubeshare_py.dialects.dialect_calls import read_back_by
from kubeshare_py.dialects.dialect_table import DialectTable, owned_part
from kubeshare_py.dialects.read_back import NOTHING_HELD, ReadBack
from kubeshare_py.dialects.unknown_allocation import held_wholly
from kubeshare_py.domain.allocation import Allocation, CardCharge, summed
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken
from kubeshare_py.domain.request import (
    CardRelation,
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
)


def held_by_predecessor(table: DialectTable, pod: PodAsk, request: GpuRequest | None) -> ReadBack:
    """What a bound pod without `sharedgpu/allocation` holds. Never raises."""
    for dialect in table.dialects:
        own = owned_part(dialect, pod, results_too=True)
        if not own.annotations and not own.labels:
            continue
        found = read_back_by(dialect, own)
        if isinstance(found, str):
            return ReadBack(None, found)
        if isinstance(found, UnreadableHolding):
            return ReadBack(_wholly(dialect, found), found.problem)
        if found is not None:
            return _larger(dialect, found, request)
    return NOTHING_HELD


def _wholly(dialect: Dialect, found: UnreadableHolding) -> Allocation | None:
    """The cards that an unreadable annotation names, each held wholly; None if it names none."""
    if not found.cards:
        return None
    cards = held_wholly(found.cards)
    return Allocation(token=DecisionToken(""), dialect=dialect.name, cards=cards)


def _larger(dialect: Dialect, held: Allocation, request: GpuRequest | None) -> ReadBack:
    """The allocation with the larger of its charges and the claims; the differences in words."""
    held = replace(held, dialect=dialect.name)
    if request is None:
        return ReadBack(held, difference="its annotations name GPUs, its spec asks for none")
    differences: list[str] = []
    if not held.claims:
        cards = _cards(held.cards, _together(request), "", differences)
        held = replace(held, cards=cards)
    else:
        asked = {one.container: one for one in request.claims}
        claims = []
        for charge in held.claims:
            one: ContainerClaim | None = asked.get(charge.container)
            where = f"{charge.container}: "
            cards = _cards(charge.cards, one.claim if one else None, where, differences)
            claims.append(replace(charge, cards=cards))
        differences += _without_cards(asked, {charge.container for charge in held.claims})
        held = replace(
            held,
            claims=tuple(claims),
            cards=summed(card for charge in claims for card in charge.cards),
        )
    return ReadBack(held, difference="; ".join(differences))


def _without_cards(
    asked: Mapping[ContainerRef | None, ContainerClaim], told: AbstractSet[ContainerRef]
) -> list[str]:
    return [
        f"{one}: its annotations name no GPU, its spec asks for {asked[one].claim.count}"
        for one in asked
        if one is not None and one not in told
    ]


def _together(request: GpuRequest) -> GpuClaim | None:
    """What all claims ask of each card, if they are of the same cards."""
    claims = [one.claim for one in request.claims]
    if len(claims) == 1 or request.relation is not CardRelation.SAME_CARD:
        return claims[0] if len(claims) == 1 else None
    milli, memory = sum(one.milli for one in claims), sum(one.memory_bytes or 0 for one in claims)
    return replace(claims[0], milli=min(milli, WHOLE_MILLI), memory_bytes=memory)


def _cards(
    cards: tuple[CardCharge, ...], claim: GpuClaim | None, where: str, differences: list[str]
) -> tuple[CardCharge, ...]:
    """The larger charge of each card; differences are added to the list."""
    if claim is None:
        return cards
    if len(cards) != claim.count:
        differences.append(
            f"{where}its annotations name {len(cards)} GPUs, its spec asks for {claim.count}"
        )
    larger = []
    for card in cards:
        differences.extend(f"{where}{one}" for one in _differences(card, claim))
        larger.append(
            replace(
                card,
                milli=max(card.milli, claim.milli),
                memory_bytes=max(card.memory_bytes, claim.memory_bytes or 0),
                exclusive=card.exclusive or claim.exclusive,
            )
        )
    return tuple(larger)


def _differences(card: CardCharge, claim: GpuClaim) -> Iterator[str]:
    if card.milli != claim.milli:
        yield (
            f"of GPU {card.uuid} its annotations say {card.milli} thousandths,"
            f" its spec {claim.milli}"
        )
    memory = claim.memory_bytes
    if memory is not None and card.memory_bytes != memory:
        yield (
            f"of GPU {card.uuid} its annotations say {card.memory_bytes} bytes, its spec {memory}"
        )
