"""What a pod holds that gpushare's own scheduler bound, by the annotations that it wrote.

The second generation goes before the first, as in Alibaba Cloud's scheduler; one that cannot be
read is passed over, as `kubectl inspect gpushare` does. Cards are named by their index.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.dialects.gpushare.keys import (
    ALLOCATION,
    CORE_PERCENTAGE,
    DEVICE_RESOURCE,
    MOST_GIB,
    UNITS,
    GpushareKeys,
)
from kubeshare_py.dialects.label_numbers import integer
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.bounds import CARD_INDEX, CARDS_OF_NODE, HELD_BYTES, POD_CLAIMS
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import DecisionToken, card_at
from kubeshare_py.domain.request import ContainerRef

_Index = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,3})\Z")]
_Units = Annotated[int, Meta(ge=0, le=HELD_BYTES.most)]
_OfCards = Annotated[dict[_Index, _Units], Meta(max_length=CARDS_OF_NODE.most)]
_ByContainer = Annotated[dict[_Index, _OfCards], Meta(max_length=POD_CLAIMS.most)]
_ALLOCATION = msgspec.json.Decoder(_ByContainer)
_TOTALS = msgspec.json.Decoder(_OfCards)
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
_TOKEN = DecisionToken("")
_MILLI_OF_PERCENT = WHOLE_MILLI // 100


def read_back(
    annotations: Mapping[str, str], keys: GpushareKeys, unit: str
) -> Allocation | str | None:
    """The cards of a bound pod by their indices; a sentence if its annotations make no sense.

    None if it has none. `unit` counts where the annotations do not tell it by a card's total.
    """
    second = _second_generation(annotations, unit)
    if isinstance(second, Allocation):
        return second
    if keys.index not in annotations:
        return second
    return _first_generation(annotations, keys)


def _first_generation(annotations: Mapping[str, str], keys: GpushareKeys) -> Allocation | str:
    read = {}
    for key in (keys.index, keys.pod, keys.device):
        number = integer(annotations.get(key, ""))
        if number is None or number < 0:
            return f"{key}: {_shown(annotations.get(key, ''))} is no number"
        read[key] = number
    index, units, total = read[keys.index], read[keys.pod], read[keys.device]
    if not CARD_INDEX.allows(index):
        return f"{keys.index}: {CARD_INDEX.problem(index)}"
    if not total:
        return f"{keys.device}: a card of 0 units"
    held = units * _unit_bytes(total)
    if not HELD_BYTES.allows(held):
        return f"{keys.pod}: {HELD_BYTES.problem(held)}"
    return Allocation(token=_TOKEN, cards=(CardCharge(card_at(index), 0, held),))


def _second_generation(annotations: Mapping[str, str], unit: str) -> Allocation | str | None:
    """None if the annotation is not there or says nothing."""
    text = annotations.get(ALLOCATION)
    if not text:
        return None
    try:
        units = _ALLOCATION.decode(text)
        totals = _TOTALS.decode(annotations.get(DEVICE_RESOURCE) or "{}")
        percent = _ALLOCATION.decode(annotations.get(CORE_PERCENTAGE) or "{}")
        largest = max(totals.values(), default=0)
        each = _unit_bytes(largest) if largest else UNITS[unit]
        claims = tuple(
            ClaimCharge(
                container=ContainerRef(False, int(container)),
                cards=tuple(
                    CardCharge(
                        card_at(int(index)),
                        percent.get(container, {}).get(index, 0) * _MILLI_OF_PERCENT,
                        amount * each,
                    )
                    for index, amount in cards.items()
                ),
            )
            for container, cards in units.items()
            if cards
        )
        cards = summed(card for claim in claims for card in claim.cards)
    except (*_UNDECODABLE, ValueError) as error:
        return f"{ALLOCATION}: {error}"
    return Allocation(token=_TOKEN, cards=cards, claims=claims) if claims else None


def _unit_bytes(total: int) -> int:
    """The bytes of a unit, by the total of a card."""
    return UNITS["GiB" if total <= MOST_GIB else "MiB"]


def _shown(text: str) -> str:
    return repr(text[:64]) if text else "nothing"
