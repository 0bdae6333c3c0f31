"""What a pod holds that another scheduler bound in one of our dialects.

Its dialect reads that scheduler's annotations. The ledger counts the larger of what they say and of
what the pod's spec asks for: a charge that is too small would give the same share away again.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from kubeshare_py.dialects.allocation import NOTHING_HELD, ReadBack, held_wholly
from kubeshare_py.dialects.dialect import Dialect, PodAsk, UnreadableHolding, read_back_by
from kubeshare_py.dialects.dialects import DialectTable, owned_part
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import CardRelation, ContainerRef, GpuClaim, GpuRequest
from kubeshare_py.domain.values import replace


def held_by_predecessor(
    table: DialectTable, pod: PodAsk, request: GpuRequest | None, *, is_initialized: bool = False
) -> ReadBack:
    """What a bound pod without `sharedgpu/allocation` holds. Never raises.

    `is_initialized`: its init containers but sidecars have ended, and hold nothing any more.
    """
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
            held = _larger(dialect, found, request, pod)
            return _without_ended(held, pod) if is_initialized else held
    return NOTHING_HELD


def _wholly(dialect: Dialect, found: UnreadableHolding) -> Allocation | None:
    """The cards that an unreadable annotation names, each held wholly; None if it names none."""
    if not found.cards:
        return None
    cards = held_wholly(found.cards)
    return Allocation(token=DecisionToken(""), dialect=dialect.name, cards=cards)


def _larger(
    dialect: Dialect, held: Allocation, request: GpuRequest | None, pod: PodAsk
) -> ReadBack:
    """The allocation with the larger of its charges and the claims; the differences in words."""
    held = replace(held, dialect=dialect.name)
    if request is None:
        return ReadBack(held, difference="its annotations name GPUs, its spec asks for none")
    differences: list[str] = []
    if not held.claims:
        cards = _cards(held.cards, _together(request), "", differences)
        held = replace(held, cards=cards)
    else:
        asked = {one.container: one.claim for one in request.claims}
        held = replace(held, claims=_claims(held.claims, asked, _ending(pod), differences))
        differences += _without_cards(asked, {charge.container for charge in held.claims})
        held = replace(held, cards=summed(card for one in held.claims for card in one.cards))
    return ReadBack(held, difference="; ".join(differences))


def _without_ended(found: ReadBack, pod: PodAsk) -> ReadBack:
    """What is held when init containers have ended: they are charged what others do not hold."""
    held, ended = found.allocation, _ending(pod)
    if held is None or all(one.container not in ended for one in held.claims):
        return found
    claims = tuple(one for one in held.claims if one.container not in ended)
    cards = summed(card for one in claims for card in one.cards)
    left = replace(held, claims=claims, cards=cards)
    return ReadBack(left, found.problem, found.mismatch, found.difference)


def _ending(pod: PodAsk) -> AbstractSet[ContainerRef]:
    """The init containers that have ended when the others start."""
    return {one.container for one in pod.containers if one.container.init and not one.sidecar}


def _claims(
    held: Sequence[ClaimCharge],
    asked: Mapping[ContainerRef | None, GpuClaim],
    ending: AbstractSet[ContainerRef],
    differences: list[str],
) -> tuple[ClaimCharge, ...]:
    """The larger charges of each container.

    Of a card that an init container uses before others do, only what it asks for beyond these.
    """
    cards = {
        one.container: _cards(
            one.cards, asked.get(one.container), f"{one.container}: ", differences
        )
        for one in held
        if one.container not in ending
    }
    most = {
        card.uuid: (card.milli, card.memory_bytes)
        for card in summed(card for each in cards.values() for card in each)
    }
    for one in held:
        if one.container in ending:
            claim = asked.get(one.container)
            where = f"{one.container}: "
            cards[one.container] = _beyond(one.cards, claim, most, where, differences)
    return tuple(replace(one, cards=cards[one.container]) for one in held)


def _beyond(
    cards: tuple[CardCharge, ...],
    claim: GpuClaim | None,
    most: dict[GpuUuid, tuple[int, int]],
    where: str,
    differences: list[str],
) -> tuple[CardCharge, ...]:
    """The cards of an init container; of each, `most` is held beside it, and is added to."""
    if claim is not None and len(cards) != claim.count:
        differences.append(_other_count(cards, claim, where))
    found = []
    for card in cards:
        milli, memory = most.get(card.uuid, (0, 0))
        part = card
        if claim is not None:
            part = replace(
                card,
                milli=max(card.milli, claim.milli - milli),
                memory_bytes=max(card.memory_bytes, (claim.memory_bytes or 0) - memory),
                exclusive=card.exclusive or claim.exclusive,
            )
            if (part.milli, part.memory_bytes) != (card.milli, card.memory_bytes):
                differences.extend(f"{where}{one}" for one in _differences(card, claim))
        most[card.uuid] = milli + part.milli, memory + part.memory_bytes
        found.append(part)
    return tuple(found)


def _without_cards(
    asked: Mapping[ContainerRef | None, GpuClaim], told: AbstractSet[ContainerRef]
) -> list[str]:
    return [
        f"{one}: its annotations name no GPU, its spec asks for {asked[one].count}"
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
        differences.append(_other_count(cards, claim, where))
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


def _other_count(cards: Sequence[CardCharge], claim: GpuClaim, where: str) -> str:
    return f"{where}its annotations name {len(cards)} GPUs, its spec asks for {claim.count}"


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
