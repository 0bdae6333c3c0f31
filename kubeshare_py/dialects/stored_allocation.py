"""The two formats of `sharedgpu/allocation` as JSON values, made from allocations and back.

`dialects.allocation` describes them.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.bounds import CARDS_OF_NODE, CLAIM_TAGS, HELD_BYTES, HELD_MILLI, POD_CLAIMS
from kubeshare_py.domain.card_tags import TAG, tag_of
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.isolation import Isolation, IsolationBackend
from kubeshare_py.domain.request import ContainerRef

#: The versions of a pod whose containers see the same cards, and of one whose containers differ.
POD_WIDE, BY_CONTAINER = 1, 2
VERSIONS = (POD_WIDE, BY_CONTAINER)

TWICE = "one card is claimed twice - at `$.claims`"
TOO_MANY_CARDS = f"more than {CARDS_OF_NODE.most} cards - at `$.claims`"
TOO_MUCH = "holds more of one card than any card has - at `$.claims`"

#: For numbers that are only compared: JSON readers of other languages know no larger integers.
_StoredCount = Annotated[int, Meta(ge=0, le=2**53)]
_Bytes = Annotated[int, Meta(ge=HELD_BYTES.least, le=HELD_BYTES.most)]
#: As in the names of annotations of one container (`results`).
_ContainerName = Annotated[str, Meta(pattern=r"^(container|init)-(0|[1-9][0-9]{0,3})\Z")]

#: Of one gang: uids, or kinds and names (`Pod.owner`).
_GroupOwners = Annotated[tuple[Annotated[str, Meta(max_length=512)], ...], Meta(max_length=64)]

_Tag = Annotated[str, Meta(pattern=rf"^{TAG}\Z")]
#: Of one pod's part of a card: those of all its claims.
_MAX_TAGS = CLAIM_TAGS.most * POD_CLAIMS.most


class _StoredCard(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    uuid: Annotated[str, Meta(min_length=1)]
    milli: Annotated[int, Meta(ge=HELD_MILLI.least, le=HELD_MILLI.most)]
    bytes: _Bytes
    model: str = ""
    cell: str = ""
    tags: Annotated[tuple[_Tag, ...], Meta(max_length=_MAX_TAGS)] = ()


class _CardOfContainer(_StoredCard, frozen=True, gc=False, omit_defaults=True):
    exclusive: bool = False


class _StoredClaim(msgspec.Struct, frozen=True, gc=False):
    container: _ContainerName
    limit_milli: _StoredCount
    cards: Annotated[
        tuple[_CardOfContainer, ...], Meta(min_length=1, max_length=CARDS_OF_NODE.most)
    ]


class StoredPlacement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Version 1: a claim is one card of the whole pod."""

    v: int
    token: str
    claims: Annotated[tuple[_StoredCard, ...], Meta(max_length=CARDS_OF_NODE.most)]
    dialect: str = ""
    exclusive: bool = False
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    group: str | None = None
    min: _StoredCount = 0
    isolation: str = ""
    limit: _StoredCount = 0
    owners: _GroupOwners = ()


class StoredContainers(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Version 2: a claim is what one container has of some cards."""

    v: int
    token: str
    claims: Annotated[tuple[_StoredClaim, ...], Meta(max_length=POD_CLAIMS.most)]
    dialect: str = ""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    group: str | None = None
    min: _StoredCount = 0
    isolation: str = ""
    limit: _StoredCount = 0
    owners: _GroupOwners = ()


def stored(allocation: Allocation) -> StoredPlacement | StoredContainers:
    """The JSON value of an allocation: version 2 if it has claims of containers, else version 1."""
    isolation = allocation.isolation
    backend, limit = (isolation.backend, isolation.limit_milli) if isolation else ("", 0)
    if not allocation.claims:
        return StoredPlacement(
            POD_WIDE,
            allocation.token,
            tuple(
                _StoredCard(
                    card.uuid,
                    card.milli,
                    card.memory_bytes,
                    card.model,
                    card.cell,
                    tuple(map(str, card.tags)),
                )
                for card in allocation.cards
            ),
            allocation.dialect,
            allocation.exclusive,
            allocation.port,
            allocation.group,
            allocation.min_available,
            backend,
            limit,
            allocation.group_owners,
        )
    return StoredContainers(
        BY_CONTAINER,
        allocation.token,
        tuple(map(_stored_claim, allocation.claims)),
        allocation.dialect,
        allocation.port,
        allocation.group,
        allocation.min_available,
        backend,
        limit,
        allocation.group_owners,
    )


def pod_wide(placement: StoredPlacement) -> Allocation | str:
    """The allocation of version 1, or what is wrong with it."""
    claims = placement.claims
    if len(claims) > 1 and _is_any_twice(claims):
        return TWICE
    cards = tuple([_charge(card, exclusive=placement.exclusive) for card in claims])
    return _allocation(placement, cards, ())


def by_container(placement: StoredContainers) -> Allocation | str:
    """The allocation of version 2, or what is wrong with it.

    Containers may share a card: what the pod holds of it is the sum of their parts.
    """
    if any(_is_any_twice(one.cards) for one in placement.claims):
        return TWICE
    claims = tuple(
        ClaimCharge(
            container=_container(one.container),
            cards=tuple(_charge(card, exclusive=card.exclusive) for card in one.cards),
            limit_milli=one.limit_milli,
        )
        for one in placement.claims
    )
    try:
        cards = summed(card for claim in claims for card in claim.cards)
    except ValueError:
        return TOO_MUCH
    if len(cards) > CARDS_OF_NODE.most:
        return TOO_MANY_CARDS
    return _allocation(placement, cards, claims)


def _stored_claim(claim: ClaimCharge) -> _StoredClaim:
    cards = tuple(
        _CardOfContainer(
            card.uuid,
            card.milli,
            card.memory_bytes,
            card.model,
            card.cell,
            tuple(map(str, card.tags)),
            card.exclusive,
        )
        for card in claim.cards
    )
    return _StoredClaim(str(claim.container), claim.limit_milli, cards)


def _is_any_twice(cards: Iterable[_StoredCard]) -> bool:
    uuids = [card.uuid for card in cards]
    return len(set(uuids)) < len(uuids)


def _charge(card: _StoredCard, *, exclusive: bool) -> CardCharge:
    tags = tuple(sorted({*map(tag_of, card.tags)})) if card.tags else ()
    return CardCharge(
        GpuUuid(card.uuid), card.milli, card.bytes, card.model, card.cell, exclusive, tags
    )


def _container(text: str) -> ContainerRef:
    kind, _, index = text.partition("-")
    return ContainerRef(init=kind == "init", index=int(index))


def _allocation(
    placement: StoredPlacement | StoredContainers,
    cards: tuple[CardCharge, ...],
    claims: tuple[ClaimCharge, ...],
) -> Allocation:
    return Allocation(
        token=DecisionToken(placement.token),
        dialect=placement.dialect,
        cards=cards,
        claims=claims,
        port=placement.port,
        group=placement.group,
        min_available=placement.min,
        group_owners=placement.owners,
        isolation=_isolation(placement),
    )


def _isolation(placement: StoredPlacement | StoredContainers) -> Isolation | None:
    """None also for a back-end that only another version knows: the ledger does not need it."""
    for backend in IsolationBackend:
        if backend == placement.isolation:
            return Isolation(backend, placement.limit)
    return None
