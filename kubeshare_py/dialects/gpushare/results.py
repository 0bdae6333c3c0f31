"""The annotations by which gpushare's tools know what a pod got.

The first generation (gpushare-scheduler-extender, gpushare-device-plugin and `kubectl inspect
gpushare` of github.com/AliyunContainerService) names one card by its index. The second one
(Alibaba Cloud's scheduler; the same `inspect` reads it first) has JSON objects by the container's
and the card's index, and can name several cards. All amounts are units.
"""

import json
from collections.abc import Callable, Sequence

from kubeshare_py.dialects.dialect import PlacedNode
from kubeshare_py.dialects.gpushare.keys import (
    ALLOCATION,
    ASSIGNED,
    ASSUME_TIME,
    CORE_PERCENTAGE,
    DEVICE_RESOURCE,
    OF_CONTAINER,
    GpushareKeys,
)
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI

_MILLI_OF_PERCENT = WHOLE_MILLI // 100
#: Of a pod whose containers have not been told yet.
_NOT_YET = "false"
#: When a device plugin gave the card: never here. No tool of gpushare reads this time.
_NEVER = "0"


def results(
    allocation: Allocation, node: PlacedNode, keys: GpushareKeys, unit_bytes: int
) -> dict[str, str]:
    """The annotations of a pod that was placed on these cards of the node.

    The first generation cannot name several cards: it then says only the amounts that containers
    know as variables, of each card. Raises KeyError for a card that is not on the node.
    """

    def units(card: CardCharge) -> int:
        return card.memory_bytes // unit_bytes

    def total(card: CardCharge) -> int:
        return node.cards[card.uuid].memory_bytes // unit_bytes

    time = str(node.decided_at_ns)
    parts = {str(one.container.index): one.cards for one in allocation.containers}
    written = {
        ALLOCATION: _text({at: _by_index(cards, node, units) for at, cards in parts.items()}),
        ASSIGNED: _NOT_YET,
        ASSUME_TIME: time,
        DEVICE_RESOURCE: _text(_by_index(allocation.cards, node, total)),
    }
    if any(card.milli for card in allocation.cards):
        written[CORE_PERCENTAGE] = _text(
            {at: _by_index(cards, node, _percent) for at, cards in parts.items()}
        )
    for at, cards in parts.items():
        written[f"{OF_CONTAINER}{at}"] = str(units(cards[0]))
    first, *others = allocation.cards
    written[keys.device] = str(min(map(total, allocation.cards)))
    written[keys.pod] = str(units(first))
    if not others:
        written |= {
            keys.index: str(node.cards[first.uuid].index),
            keys.assigned: _NOT_YET,
            keys.assume_time: time,
            keys.assign_time: _NEVER,
        }
    return written


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _percent(card: CardCharge) -> int:
    return card.milli // _MILLI_OF_PERCENT


def _by_index(
    cards: Sequence[CardCharge], node: PlacedNode, amount: Callable[[CardCharge], int]
) -> dict[str, int]:
    """Amounts by the index of their card; MIG instances of one card count together."""
    found: dict[str, int] = {}
    for card in cards:
        index = str(node.cards[card.uuid].index)
        found[index] = found.get(index, 0) + amount(card)
    return found
