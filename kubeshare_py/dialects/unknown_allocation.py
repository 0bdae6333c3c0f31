"""Cards in a `sharedgpu/allocation` of a version that this scheduler does not know.

A newer scheduler placed the pod, so its cards are in use, but what it holds of them is not known.
Each card is then held wholly: no other pod gets a part of it.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.dialects.stored_allocation import VERSIONS
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.bounds import CARD_NAME, CARDS_OF_NODE, GROUP_MINIMUM
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, GpuUuid

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


_PLACEMENT = msgspec.json.Decoder(_AnyPlacement)


def whole_cards_of(text: str) -> Allocation | None:
    """The cards of a placement of an unknown version, each held wholly; None if they are unknown.

    They are known if `claims` is a list and each claim in it names its cards as one of the known
    versions does: by `uuid`, or by a `uuid` in each of `cards`. Names are within their bound, and
    one node can have as many cards. One claim that names none makes all of them unknown. Token,
    port, group and minimum are read if they are as in the known versions. Never raises.
    """
    try:
        placement = _PLACEMENT.decode(text)
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
