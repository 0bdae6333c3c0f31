"""What collectors tell of their cards' surroundings: series to `Wiring`, some nodes at once.

A node of eight cards has 56 links. With thousands of nodes there are too many series for every
reading, and they hardly ever change: each node is asked about when its cards change and then now
and again.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kubeshare_py.domain.bounds import LINK_SPEED, NUMA_NODE
from kubeshare_py.domain.card_reading import CardLink
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.printable import MOST_SAID, beginning
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
_MOST_GB = LINK_SPEED.most // _MB
#: Of one node no more are said.
_MOST_REMARKS = 4

#: A node, and what is odd about a series of it.
Remark = tuple[NodeName, str]
Layout = tuple[tuple[GpuUuid, int], ...]


def question(instances: Iterable[str], selector: str) -> str:
    """A PromQL selector of what these collectors tell."""
    # Backquotes: what escapes a dot there must not be escaped again.
    places = "|".join(re.escape(instance) for instance in instances if "`" not in instance)
    return f'{{__name__=~"{"|".join(TOLD)}",instance=~`{places}`,{selector}}}'


def wirings(
    vector: Iterable[Series],
    cards: Mapping[NodeName, Sequence[Gpu]],
    remark: Callable[[Remark], object] = lambda _: None,
) -> dict[NodeName, Wiring]:
    """What is told of the cards of these nodes; nothing of nodes that nobody tells of.

    `remark` is called for each series that is left out because of its value.
    """
    told: dict[NodeName, _Told] = {}
    for series in vector:
        node = NodeName(series.own("node"))
        if node in cards:
            problem = told.setdefault(node, _Told()).take(series)
            if problem:
                told_of = beginning(f"node {node}: {problem}", MOST_SAID)
                remark((node, f"{told_of}: left out"))
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

    def take(self, series: Series) -> str:
        """One series; of one whose value cannot be used, what is wrong with it, else ""."""
        uuid = GpuUuid(series.own("uuid"))
        if series.name == LINK:
            kind, peer = series.own("type"), GpuUuid(series.own("peer"))
            if not 0 <= series.value <= _MOST_GB:
                return f"{LINK} of {uuid} to {peer}: {series.value:g} is not within 0…{_MOST_GB}"
            if kind and peer:
                # GB/s, 0 where the driver does not say how fast.
                speed = round(series.value * _MB)
                self.links.append(CardLink(uuid=uuid, peer=peer, kind=kind, speed=speed))
        elif series.name == INFO:
            parent = series.own("parent")
            if parent:
                self.parents[uuid] = GpuUuid(parent)
            self.fabric = max(self.fabric, series.own("clique"))
        elif series.name == NUMA:
            if not 0 <= series.value <= NUMA_NODE.most:
                return f"{NUMA} of {uuid}: {series.value:g} is not within 0…{NUMA_NODE.most}"
            self.numa_nodes[uuid] = int(series.value)
        return ""


class Rounds:
    """Whose surroundings are asked about next: new cards first, then those of longest ago."""

    def __init__(self, known: Reading) -> None:
        self._waiting: dict[NodeName, None] = dict.fromkeys(sorted(known.cards))
        self._layouts: dict[NodeName, Layout] = {}
        self._told: dict[NodeName, Wiring] = {}
        self._remarks: dict[NodeName, tuple[str, ...]] = {}

    def diagnostics(self) -> tuple[str, ...]:
        """What was odd when each node was last asked about."""
        return tuple(line for node in sorted(self._remarks) for line in self._remarks[node])

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
        self,
        nodes: Iterable[NodeName],
        found: Mapping[NodeName, Wiring],
        reading: Reading,
        remarks: Iterable[Remark] = (),
    ) -> Iterator[tuple[NodeName, Wiring]]:
        """What is new of it. Where nothing is told what was known stays."""
        said: dict[NodeName, dict[str, None]] = {}
        for node, remark in remarks:
            said.setdefault(node, {})[remark] = None
        for node in nodes:
            self._remarks.pop(node, None)
            if node in said:
                self._remarks[node] = tuple(islice(said[node], _MOST_REMARKS))
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
