"""The annotation `sharedgpu/allocation`: all that a restarted scheduler needs of a placement.

Every placement has it, in whatever dialect it was requested; a bound pod is read back from it.
Version 1 is of pods whose containers all see the same cards. A claim is one card:

    {"v":1,"token":"s1-42","dialect":"sharedgpu",
     "claims":[{"uuid":"GPU-1","milli":500,"bytes":8589934592,"model":"Tesla-V100","cell":"n/1"}],
     "exclusive":false,"port":50051,"group":"train","min":3,"isolation":"mps","limit":1000}

Version 2 is of pods whose containers differ. A claim is what one container has of some cards,
`exclusive` is said of each card, and two claims may have the same card:

    {"v":2,"token":"s1-43","dialect":"other",
     "claims":[{"container":"container-0","limit_milli":500,
                "cards":[{"uuid":"GPU-1","milli":500,"bytes":8589934592,"model":"Tesla-V100"}]},
               {"container":"init-1","limit_milli":1000,
                "cards":[{"uuid":"GPU-2","milli":1000,"bytes":17179869184,"exclusive":true}]}],
     "port":50051,"group":"train","min":3,"isolation":"mps","limit":1000}

All but `v`, `token` and `claims` may be absent, and of a card all but `uuid`, `milli` and `bytes`;
`container`, `limit_milli` and `cards` are always there.

Fields that this version does not know are ignored: leaving a placement out of the ledger because a
newer scheduler wrote more about it would give its cards away twice. A change of meaning changes
`v`. Of a version that is not known the cards are held wholly if they can be read
(`whole_cards_of`).
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.dialects.results import (
    ALLOCATION,
    GPU_UUID,
    MANAGER_PORT,
    container_cards,
    is_result,
    visible_cards,
)
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.gpu import TAG, WHOLE_MILLI, tag_of
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.quantity import (
    CARD_NAME,
    CARDS_OF_NODE,
    CLAIM_TAGS,
    GROUP_MINIMUM,
    HELD_BYTES,
    HELD_MILLI,
    POD_CLAIMS,
)
from kubeshare_py.domain.request import ContainerRef

# The two formats of `sharedgpu/allocation` as JSON values, made from allocations and back.
#
# `dialects.allocation` describes them.


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
_BACKENDS = {str(one.value): one for one in IsolationBackend}
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
            cards=tuple([_charge(card, exclusive=card.exclusive) for card in one.cards]),
            limit_milli=one.limit_milli,
        )
        for one in placement.claims
    )
    try:
        cards = summed([card for claim in claims for card in claim.cards])
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
    # None also for a back-end that only another version knows: the ledger does not need it.
    backend = _BACKENDS.get(placement.isolation)
    return Allocation(
        token=DecisionToken(placement.token),
        dialect=placement.dialect,
        cards=cards,
        claims=claims,
        port=placement.port,
        group=placement.group,
        min_available=placement.min,
        group_owners=placement.owners,
        isolation=None if backend is None else Isolation(backend, placement.limit),
    )


_PLACEMENT = msgspec.json.Decoder(StoredPlacement)
_CONTAINERS = msgspec.json.Decoder(StoredContainers)
_ENCODER = msgspec.json.Encoder()
_SECOND = f'{{"v":{BY_CONTAINER},'
#: Deep nesting and lone surrogates do not raise DecodeError.
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


class _StoredVersion(msgspec.Struct):
    v: int


_VERSION = msgspec.json.Decoder(_StoredVersion)


def write_allocation(allocation: Allocation) -> str:
    """Write the annotation's value."""
    return _ENCODER.encode(stored(allocation)).decode()


def read_allocation(text: str) -> Allocation | str:
    """Read the annotation's value; a sentence that says what is wrong if it is none.

    Never raises: every user who may annotate pods may write it.
    """
    at_once = _at_once(text) if _SECOND in text[:8] else None
    if at_once is not None:
        return at_once
    try:
        placement = _PLACEMENT.decode(text)
    except _UNDECODABLE as error:
        version = written_version(text)
        return str(error) if version in (None, POD_WIDE) else _of_version(version, text)
    return pod_wide(placement) if placement.v == POD_WIDE else _of_version(placement.v, text)


def _at_once(text: str) -> Allocation | str | None:
    """Version 2 as `write_allocation` writes it; None if the text is not that after all."""
    try:
        placement = _CONTAINERS.decode(text)
    except _UNDECODABLE:
        return None
    return by_container(placement) if placement.v == BY_CONTAINER else None


def written_version(text: str) -> int | None:
    """The version of the annotation's value; None if it names none."""
    try:
        return _VERSION.decode(text).v
    except _UNDECODABLE:
        return None


def _of_version(version: int | None, text: str) -> Allocation | str:
    if version != BY_CONTAINER:
        return f"version {version} is not known to this scheduler - at `$.v`"
    try:
        return by_container(_CONTAINERS.decode(text))
    except _UNDECODABLE as error:
        return str(error)


# Cards in a `sharedgpu/allocation` of a version that this scheduler does not know.
#
# A newer scheduler placed the pod, so its cards are in use, but what it holds of them is not known.
# Each card is then held wholly: no other pod gets a part of it.


_LAST_PORT = 65535
#: Of claims, and of cards of a claim; what a list has in all is bounded by the annotation's size.
_MAX_ENTRIES = 1024
_Uuid = Annotated[str, Meta(min_length=CARD_NAME.least, max_length=CARD_NAME.most)]


class _AnyCard(msgspec.Struct):
    uuid: _Uuid


class _AnyClaim(msgspec.Struct):
    uuid: _Uuid | None = None
    cards: Annotated[tuple[_AnyCard, ...], Meta(max_length=_MAX_ENTRIES)] = ()


class _AnyPlacement(msgspec.Struct):
    v: int
    claims: Annotated[tuple[_AnyClaim, ...], Meta(max_length=_MAX_ENTRIES)]
    token: object = None
    port: object = None
    group: object = None
    min: object = None


_ANY_PLACEMENT = msgspec.json.Decoder(_AnyPlacement)


def whole_cards_of(text: str) -> Allocation | None:
    """The cards of a placement of an unknown version, each held wholly; None if they are unknown.

    They are known if `claims` is a list and each claim in it names its cards as one of the known
    versions does: by `uuid`, or by a `uuid` in each of `cards`. Names are within their bound, and
    one node can have as many cards. One claim that names none makes all of them unknown. Token,
    port, group and minimum are read if they are as in the known versions. Never raises.
    """
    try:
        placement = _ANY_PLACEMENT.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    named = [_uuids(claim) for claim in placement.claims]
    uuids = dict.fromkeys(uuid for found in named for uuid in found)
    if placement.v in VERSIONS or not all(named) or not 0 < len(uuids) <= CARDS_OF_NODE.most:
        return None
    token, group = placement.token, placement.group
    return Allocation(
        token=DecisionToken(token if isinstance(token, str) else ""),
        cards=held_wholly(map(GpuUuid, uuids)),
        port=_integer(placement.port, 1, _LAST_PORT),
        group=group if isinstance(group, str) else None,
        min_available=_integer(placement.min, 0, GROUP_MINIMUM.most) or 0,
    )


def held_wholly(uuids: Iterable[GpuUuid]) -> tuple[CardCharge, ...]:
    """The cards as a pod holds them of which it is not known how much of them it holds."""
    return tuple(CardCharge(uuid, WHOLE_MILLI, 0, exclusive=True) for uuid in uuids)


def _uuids(claim: _AnyClaim) -> list[str]:
    own = [] if claim.uuid is None else [claim.uuid]
    return own + [card.uuid for card in claim.cards]


def _integer(value: object, least: int, most: int) -> int | None:
    """The value if it is an integer within these bounds; else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if least <= value <= most else None


# What a bound pod holds, read back from its annotations, and whether they agree.


#: The most characters of an annotation in a sentence; a list of six cards is not longer.
_MAX_SHOWN = 256
#: The end of the keys with the cards of one container.
_CARDS = ".gpu_uuid"


class ReadBack(msgspec.Struct, frozen=True, gc=False):
    """What a bound pod's annotations say that it holds.

    `problem` says why its allocation cannot be read. `allocation` is then None; or, if another
    version wrote it and its cards can be read, each of them held wholly. `mismatch` names the cards
    or the port in its containers' variables if they are not the allocation's. `difference` says
    where another scheduler's annotations and the pod's spec differ; the larger is in `allocation`.
    """

    allocation: Allocation | None = None
    problem: str = ""
    mismatch: str = ""
    difference: str = ""


NOTHING_HELD = ReadBack()


def read_back(annotations: Mapping[str, str]) -> ReadBack:
    """What a bound pod holds. Never raises."""
    text = annotations.get(ALLOCATION)
    held = read_allocation(text) if text else None
    if not isinstance(held, str):
        return ReadBack(held, "", _mismatch(annotations, held))
    whole = whole_cards_of(text or "")
    return ReadBack(whole, f"{ALLOCATION}: {held}", _mismatch(annotations, whole))


def _mismatch(annotations: Mapping[str, str], held: Allocation | None) -> str:
    """The first annotation that is not as the allocation says, with both values; "" if none."""
    ours = {GPU_UUID: "" if held is None else visible_cards(held.cards)}
    if held is not None and held.claims:
        ours |= container_cards(held)
    for key in annotations:
        # Nearly no key has it anywhere.
        if _CARDS in key and key.endswith(_CARDS) and key not in ours and is_result(key):
            ours[key] = ""
    for key, cards in ours.items():
        told = annotations.get(key, "")
        if told != cards:
            return f"{key} says {_shown(told)}, the allocation {_shown(cards)}"
    port = annotations.get(MANAGER_PORT, "")
    if not port or held is None or port == str(held.port):
        return ""
    return f"{MANAGER_PORT} says {_shown(port)}, the allocation {held.port or 'nothing'}"


def _shown(text: str) -> str:
    return beginning(text, _MAX_SHOWN) if text else "nothing"
