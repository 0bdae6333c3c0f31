"""A collector's page, read into the series that Prometheus would make of it.

Lines look the same in the text format and in OpenMetrics, which also marks where a page ends.
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.card_reading import PATHS, BusPath, CardLink
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.printable import MAX_SAID, beginning, listed
from kubeshare_py.domain.quantity import LINK_SPEED, NUMA_NODE
from kubeshare_py.inventory.card_use import MeasuredUse, uses_of_page
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import CAPACITY, CARD_SERIES, CARDS, UP, Series
from kubeshare_py.topology.wiring import Wiring, wiring_of

# The collectors to ask, and which one of several on a node.


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTarget:
    """A collector's pod, as Kubernetes shows it: its address, and its node.

    `is_ready` is from its readiness probe; `is_ending`: it is being deleted.
    """

    node: NodeName
    host: str
    is_ready: bool = True
    is_ending: bool = False


def chosen(targets: Iterable[ScrapeTarget]) -> dict[NodeName, ScrapeTarget]:
    """One collector for each node: first one that stays, then a ready one, then by address."""
    found: dict[NodeName, ScrapeTarget] = {}
    for target in sorted(targets, key=lambda one: (one.is_ending, not one.is_ready, one.host)):
        found.setdefault(target.node, target)
    return found


# Reads the collectors' series on wiring into `Wiring`, some nodes at a time.
#
# A node of eight cards has 56 links. With thousands of nodes that is too many series for every
# reading, and they hardly ever change: each node is queried when its cards change, and from time to
# time.


LINK = "gpu_link"
#: 1 for each card and instance; labels name the card that an instance is a part of.
INFO = "kubeshare_gpu_info"
NUMA = "kubeshare_gpu_numa_node"
#: 1 for each card and RDMA device of its node; the type is what lies between them.
RDMA = "kubeshare_gpu_rdma"
WIRING_SERIES = (LINK, INFO, NUMA, RDMA)

#: The most nodes per query: 3,600 series if each has eight cards, which take about 0.1 s, and a URL
#: of a few KB.
NODES_A_PORTION = 50

_MB = 1000
_MAX_GB = LINK_SPEED.most // _MB
#: The most remarks about one node.
_MAX_REMARKS = 4

#: A node, and a sentence about a bad series of it.
Remark = tuple[NodeName, str]
Layout = tuple[tuple[GpuUuid, int], ...]


def question(instances: Iterable[str], selector: str, names: Iterable[str] = WIRING_SERIES) -> str:
    """A PromQL selector for series of these collectors, at first those on wiring."""
    # Backquotes: a backslash before a dot needs no second one there.
    places = "|".join(re.escape(instance) for instance in instances if "`" not in instance)
    return f'{{__name__=~"{"|".join(names)}",instance=~`{places}`,{selector}}}'


def wirings(
    vector: Iterable[Series],
    cards: Mapping[NodeName, Sequence[Gpu]],
    remark: Callable[[Remark], object] = lambda _: None,
) -> dict[NodeName, Wiring]:
    """The wiring of these nodes' cards; nodes without reports are left out.

    `remark` is called for each series that is ignored because of its value.
    """
    found: dict[NodeName, _NodeWiring] = {}
    for series in vector:
        node = NodeName(series.own("node"))
        if node in cards:
            problem = found.setdefault(node, _NodeWiring()).take(series)
            if problem:
                sentence = beginning(f"node {node}: {problem}", MAX_SAID)
                remark((node, f"{sentence}: left out"))
    return {
        node: wiring_of(cards[node], one.links, one.numa_nodes, one.parents, one.fabric, one.rdma)
        for node, one in found.items()
    }


@dataclass(slots=True)
class _NodeWiring:
    """The reports about one node."""

    links: list[CardLink] = field(default_factory=list)
    numa_nodes: dict[GpuUuid, int] = field(default_factory=dict)
    parents: dict[GpuUuid, GpuUuid] = field(default_factory=dict)
    fabric: str = ""
    rdma: dict[GpuUuid, BusPath] = field(default_factory=dict)

    def take(self, series: Series) -> str:
        """Take in one series; a sentence if its value cannot be used, else ""."""
        uuid = GpuUuid(series.own("uuid"))
        if series.name == LINK:
            kind, peer = series.own("type"), GpuUuid(series.own("peer"))
            if not 0 <= series.value <= _MAX_GB:
                return f"{LINK} of {uuid} to {peer}: {series.value:g} is not within 0…{_MAX_GB}"
            if kind and peer:
                # GB/s, 0 if the driver does not report it.
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
        elif series.name == RDMA:
            return self._take_rdma(uuid, series.own("type"))
        return ""

    def _take_rdma(self, uuid: GpuUuid, path: str) -> str:
        if path not in PATHS:
            return f"{RDMA} of {uuid}: type {path!r} is none of {', '.join(PATHS)}"
        near = self.rdma.get(uuid, BusPath.SYS)
        self.rdma[uuid] = min(near, BusPath(path), key=PATHS.index)
        return ""


class Rounds:
    """The order in which nodes are queried: those with new cards first, then the longest ago."""

    def __init__(self, known: Reading) -> None:
        self._waiting: dict[NodeName, None] = dict.fromkeys(sorted(known.cards))
        self._layouts: dict[NodeName, Layout] = {}
        self._known: dict[NodeName, Wiring] = {}
        self._remarks: dict[NodeName, tuple[str, ...]] = {}

    def diagnostics(self) -> tuple[str, ...]:
        """The remarks of each node's last query."""
        return tuple(line for node in sorted(self._remarks) for line in self._remarks[node])

    def take(self, reading: Reading, changed: Iterable[NodeName]) -> list[NodeName]:
        """Nodes' cards changed.

        Those with other cards, not just unhealthy ones, wait for a query.
        """
        others = [
            node for node in changed if self._layouts.get(node) != _layout(reading.cards[node])
        ]
        self._waiting.update(dict.fromkeys(others))
        return others

    def renew(self, node: NodeName) -> None:
        """Query a node again, because its collector may report other wiring."""
        self._waiting[node] = None

    def waiting(self, answering: Container[NodeName]) -> tuple[NodeName, ...]:
        """A portion of the nodes with new cards whose collector answers."""
        return tuple(islice((one for one in self._waiting if one in answering), NODES_A_PORTION))

    def again(self, answering: Container[NodeName]) -> tuple[NodeName, ...]:
        """A portion of the nodes that were queried longest ago."""
        return tuple(islice((one for one in self._known if one in answering), NODES_A_PORTION))

    def asked(
        self,
        nodes: Iterable[NodeName],
        found: Mapping[NodeName, Wiring],
        reading: Reading,
        remarks: Iterable[Remark] = (),
    ) -> Iterator[tuple[NodeName, Wiring]]:
        """The wiring that is new. Where nothing is reported, the known wiring stays."""
        said: dict[NodeName, dict[str, None]] = {}
        for node, remark in remarks:
            said.setdefault(node, {})[remark] = None
        for node in nodes:
            self._remarks.pop(node, None)
            if node in said:
                self._remarks[node] = tuple(islice(said[node], _MAX_REMARKS))
            layout = _layout(reading.cards.get(node, ()))
            moved = self._layouts.get(node) != layout
            known = self._known.pop(node, Wiring())
            self._waiting.pop(node, None)
            self._layouts[node] = layout
            self._known[node] = found.get(node, known)
            if node in found and (moved or found[node] != known):
                yield node, found[node]


def _layout(cards: Iterable[Gpu]) -> Layout:
    return tuple((card.uuid, card.index) for card in cards)


#: The last line of a page in OpenMetrics.
END = "# EOF"
#: The parser raises ValueError for a bad line, and the others for lines that it did not expect.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
_BEGINNINGS = tuple(f"{name}{after}" for name in CARD_SERIES for after in "{ ")
_WIRING = tuple(f"{name}{{" for name in WIRING_SERIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapedPage:
    """A collector's answer: its series with `up`, or the problem with the whole page.

    `wiring` are the lines on the wiring of its cards: many, and nearly always the same. `uses` are
    what is used of its cards, if that was asked for.
    """

    vector: tuple[Series, ...]
    wiring: str = ""
    diagnostics: tuple[str, ...] = ()
    problem: str = ""
    uses: tuple[MeasuredUse, ...] = ()


def read_page(
    text: str, node: NodeName, instance: str, *, has_end: bool = False, with_uses: bool = False
) -> ScrapedPage:
    """Read the page of the collector on `node` at `instance` (`host:port`).

    A page that reports another node than its own, or no cards at all, is not a collector's. With
    `has_end`, a page without its last line is incomplete. Lines that cannot be read are named, and
    no card counts as gone because of them.
    """
    if has_end and not text.rstrip().endswith(END):
        return no_answer(node, instance, "its page is cut off")
    given = {"instance": instance}
    every = text.split("\n")
    lines = [(at, line) for at, line in enumerate(every, 1) if line.startswith(_BEGINNINGS)]
    if not any(line.startswith((CAPACITY, CARDS)) for _, line in lines):
        return no_answer(node, instance, f"its page has neither {CAPACITY} nor {CARDS}")
    vector = [Series({"__name__": UP, **given, "node": node}, 1.0)]
    diagnostics: list[str] = []
    for found in _series(lines, given):
        if isinstance(found, Series):
            vector.append(found)
        else:
            number, rule = found
            where = f"node {node}: line {number} of the page at {instance}"
            diagnostics.append(f"{where}: {beginning(rule, MAX_SAID)}")
    others = sorted({one.own("node") for one in vector} - {node, ""})
    if others:
        return no_answer(node, instance, f"it says that it is on {listed(others)}")
    cards = sum(line.startswith(CAPACITY) for _, line in lines)
    # KubeShare's collectors do not count their cards; listed but unreadable ones count too.
    vector.append(Series({"__name__": CARDS, **given, "node": node}, float(cards)))
    wiring = "\n".join(line for line in every if line.startswith(_WIRING))
    uses = uses_of_page(text, node) if with_uses else ()
    said = tuple(diagnostics)
    return ScrapedPage(vector=tuple(vector), wiring=wiring, diagnostics=said, uses=uses)


def wiring_of_page(text: str) -> Iterator[Series]:
    """The series of a page's `wiring`; lines that cannot be read are skipped."""
    lines = [*enumerate(text.split("\n"), 1)]
    return (found for found in _series(lines, {}) if isinstance(found, Series))


def no_answer(node: NodeName, instance: str, problem: str) -> ScrapedPage:
    """The page of a collector that gave none, or none that can be used."""
    return ScrapedPage(
        vector=(Series({"__name__": UP, "instance": instance, "node": node}, 0.0),),
        diagnostics=(f"node {node}: no answer of the collector at {instance}: {problem}",),
        problem=problem,
    )


def _series(
    lines: list[tuple[int, str]], given: dict[str, str]
) -> Iterator[Series | tuple[int, str]]:
    """The series of all lines; if they cannot be read together, line by line with the problems."""
    try:
        yield from _parsed("\n".join(line for _, line in lines), given)
    except _UNREADABLE:
        for number, line in lines:
            try:
                yield from _parsed(line, given)
            except ValueError as problem:
                yield number, str(problem)
            except _UNREADABLE:
                yield number, f"not a line of the text format: {line}"


def _parsed(text: str, given: dict[str, str]) -> list[Series]:
    return [
        Series({**sample.labels, "__name__": sample.name, **given}, _number(sample.value))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def _number(value: float) -> float:
    """The value as Prometheus reads it; the parser keeps whole numbers whole, however large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
