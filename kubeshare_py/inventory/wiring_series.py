"""What collectors tell of their cards' surroundings: series to `Wiring`, some nodes at once.

A node of eight cards has 56 links. With thousands of nodes there are too many series for every
reading, and they hardly ever change: each node is asked about when its cards change and then now
and again.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kubeshare_py.domain.card_reading import CardLink
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.series import Series
from kubeshare_py.topology.wiring import Wiring, wiring_of

LINK = "gpu_link"
#: 1 for each card and instance; it says of which card an instance is a part.
INFO = "kubeshare_gpu_info"
NUMA = "kubeshare_gpu_numa_node"
TOLD = (LINK, INFO, NUMA)

#: So many nodes at once: 3,600 series if they have eight cards each, which take about 0.1 s, and a
#: URL of a few KB.
NODES_A_PORTION = 50

_MB = 1000
_MOST_NUMA_NODES = 4096
#: GB/s; far above any link.
_MOST_GB = 1_000_000

Layout = tuple[tuple[GpuUuid, int], ...]


def question(instances: Iterable[str], selector: str) -> str:
    """A PromQL selector of what these collectors tell."""
    # Backquotes: what escapes a dot there must not be escaped again.
    places = "|".join(re.escape(instance) for instance in instances if "`" not in instance)
    return f'{{__name__=~"{"|".join(TOLD)}",instance=~`{places}`,{selector}}}'


def wirings(
    vector: Iterable[Series], cards: Mapping[NodeName, Sequence[Gpu]]
) -> dict[NodeName, Wiring]:
    """What is told of the cards of these nodes; nothing of nodes that nobody tells of."""
    told: dict[NodeName, _Told] = {}
    for series in vector:
        node = NodeName(series.own("node"))
        if node in cards:
            told.setdefault(node, _Told()).take(series)
    return {
        node: wiring_of(cards[node], one.links, one.numa_nodes, one.parents, one.fabric)
        for node, one in told.items()
    }


@dataclass(slots=True)
class _Told:
    """What is told of one node."""

    links: list[CardLink] = field(default_factory=list)
    numa_nodes: dict[GpuUuid, int] = field(default_factory=dict)
    parents: dict[GpuUuid, GpuUuid] = field(default_factory=dict)
    fabric: str = ""

    def take(self, series: Series) -> None:
        """One series; one that says nothing that can be used is passed over."""
        uuid = GpuUuid(series.own("uuid"))
        if series.name == LINK:
            link = _link(uuid, series)
            if link is not None:
                self.links.append(link)
        elif series.name == INFO:
            parent = series.own("parent")
            if parent:
                self.parents[uuid] = GpuUuid(parent)
            self.fabric = max(self.fabric, series.own("clique"))
        elif series.name == NUMA and 0 <= series.value < _MOST_NUMA_NODES:
            self.numa_nodes[uuid] = int(series.value)


def _link(uuid: GpuUuid, series: Series) -> CardLink | None:
    """Its value is GB/s, 0 where the driver does not say how fast."""
    kind, peer = series.own("type"), series.own("peer")
    if not kind or not peer or not 0 <= series.value < _MOST_GB:
        return None
    return CardLink(uuid=uuid, peer=GpuUuid(peer), kind=kind, speed=round(series.value * _MB))


class Rounds:
    """Whose surroundings are asked about next: new cards first, then those of longest ago."""

    def __init__(self, known: Reading) -> None:
        self._waiting: dict[NodeName, None] = dict.fromkeys(sorted(known.cards))
        self._layouts: dict[NodeName, Layout] = {}
        self._told: dict[NodeName, Wiring] = {}

    def take(self, reading: Reading, changed: Iterable[NodeName]) -> list[NodeName]:
        """Nodes' cards changed: those that have others now, not just ill ones, wait."""
        others = [
            node for node in changed if self._layouts.get(node) != _layout(reading.cards[node])
        ]
        self._waiting.update(dict.fromkeys(others))
        return others

    def renew(self, node: NodeName) -> None:
        """Something else may be told of its cards than before."""
        self._waiting[node] = None

    def waiting(self, answering: Container[NodeName]) -> tuple[NodeName, ...]:
        """A portion of those with new cards, of those whose collector answers."""
        return tuple(islice((one for one in self._waiting if one in answering), NODES_A_PORTION))

    def again(self, answering: Container[NodeName]) -> tuple[NodeName, ...]:
        """A portion of those that were asked about longest ago."""
        return tuple(islice((one for one in self._told if one in answering), NODES_A_PORTION))

    def asked(
        self, nodes: Iterable[NodeName], found: Mapping[NodeName, Wiring], reading: Reading
    ) -> Iterator[tuple[NodeName, Wiring]]:
        """What is new of it. Where nothing is told what was known stays."""
        for node in nodes:
            layout = _layout(reading.cards.get(node, ()))
            moved = self._layouts.get(node) != layout
            known = self._told.pop(node, Wiring())
            self._waiting.pop(node, None)
            self._layouts[node] = layout
            self._told[node] = found.get(node, known)
            if node in found and (moved or found[node] != known):
                yield node, found[node]


def _layout(cards: Iterable[Gpu]) -> Layout:
    return tuple((card.uuid, card.index) for card in cards)
