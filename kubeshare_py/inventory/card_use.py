"""How much of their cards pods really use, as collectors measure it.

People see it beside what pods ask for; no decision depends on it. Most of these values differ from
one reading to the next, so they are read seldom and apart from the cards.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.quantity import CARD_BYTES, CARDS_OF_NODE
from kubeshare_py.inventory.series import Series

#: The part (0 to 1) of the last seconds in which a kernel ran, and bytes of memory in use.
BUSY = "kubeshare_gpu_busy_ratio"
IN_USE = "kubeshare_gpu_memory_used_bytes"
USE_SERIES = (BUSY, IN_USE)
#: Seconds from one reading of a node's values to the next.
EVERY_S = 30.0
#: The age (s) from which values are not shown any more.
MAX_AGE_S = 120.0

_WHOLE = 1000
# The parser that reads the cards would take longer for these lines than for all others. What a
# collector of ours would not write, such as a label with a backslash, is passed over. The search is
# for the literal beginning; with ^ it would try each character.
_LINE = re.compile(rf"\n({'|'.join(USE_SERIES)})\{{([^}}\n]*)\}} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')


class MeasuredUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Thousandths of the time in which a card was busy, and bytes; None where not known."""

    uuid: GpuUuid
    busy_milli: int | None = None
    in_use_bytes: int | None = None


NodeUse = tuple[NodeName, tuple[MeasuredUse, ...]]


@dataclass(slots=True)
class CardUses:
    """The last values of each node. Times are of one clock, in seconds."""

    #: Those that came last are last.
    _nodes: dict[NodeName, tuple[float, tuple[MeasuredUse, ...]]] = field(default_factory=dict)

    def take(self, nodes: Iterable[NodeUse], now: float) -> None:
        """Take in values that were just read, and drop those that are too old."""
        for node, uses in nodes:
            self._nodes.pop(node, None)
            self._nodes[node] = now, uses
        while self._nodes:
            oldest = next(iter(self._nodes))
            if now - self._nodes[oldest][0] <= MAX_AGE_S:
                return
            del self._nodes[oldest]

    def of(self, node: NodeName, now: float) -> Mapping[str, MeasuredUse]:
        """The values of a node's cards by uuid, none that are too old."""
        read_at, uses = self._nodes.get(node, (now, ()))
        return {one.uuid: one for one in uses} if now - read_at <= MAX_AGE_S else {}


def uses_of_page(text: str, node: NodeName) -> tuple[MeasuredUse, ...]:
    """The values on a collector's page, only those of its own node."""
    found = _FoundUses()
    for name, inside, number in _LINE.findall(f"\n{text}"):
        labels = dict(_LABEL.findall(inside))
        if labels.get("node") == node:
            found.take(name, labels.get("uuid", ""), _number(number))
    return found.uses()


def uses_of_vector(vector: Iterable[Series]) -> dict[NodeName, tuple[MeasuredUse, ...]]:
    """The values among Prometheus' series, by node."""
    nodes: dict[NodeName, _FoundUses] = {}
    for series in vector:
        if series.name in USE_SERIES:
            found = nodes.setdefault(NodeName(series.own("node")), _FoundUses())
            found.take(series.name, series.own("uuid"), series.value)
    return {node: found.uses() for node, found in nodes.items()}


@dataclass(slots=True)
class _FoundUses:
    """The values of one node by metric and uuid; of two, the larger one counts."""

    _by_metric: dict[str, dict[GpuUuid, int]] = field(default_factory=dict)

    def take(self, name: str, uuid: str, value: float) -> None:
        """Take in a value, unless it is NaN or cannot be."""
        amount, most = (value * _WHOLE, _WHOLE) if name == BUSY else (value, CARD_BYTES.most)
        if uuid and 0 <= amount <= most:
            cards = self._by_metric.setdefault(name, {})
            key = GpuUuid(uuid)
            cards[key] = max(round(amount), cards.get(key, 0))

    def uses(self) -> tuple[MeasuredUse, ...]:
        """No more than a node may have cards."""
        busy, in_use = (self._by_metric.get(name, {}) for name in USE_SERIES)
        uuids = sorted(busy.keys() | in_use.keys())[: CARDS_OF_NODE.most]
        return tuple(MeasuredUse(uuid, busy.get(uuid), in_use.get(uuid)) for uuid in uuids)


def _number(text: str) -> float:
    """NaN for what is no number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
