"""Merges one instant vector into what is known of cards.

Series may repeat, garble or omit some. A card is gone when its node's collector answers (`up` is
1), does not list it, and does not claim to list more than has arrived. Otherwise the last known
card stays. Where a card counts that several nodes list is decided in `cluster/card_disputes`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kubeshare_py.domain.card_reading import NEEDY, ReadinessReport, of_labels
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.quantity import CARDS_OF_NODE
from kubeshare_py.inventory.series import (
    CAPACITY,
    CARDS,
    FAULT,
    HEALTHY,
    OF_CARD,
    OF_NODE,
    UP,
    SampleProblem,
    Series,
    read_series,
)

# What is known of all nodes' cards, from one reading to the next.


#: Seconds that a collector's scrape time may stand still before its node is silent.
LATE_AFTER_S = 120.0


@dataclass(frozen=True, slots=True)
class Scrape:
    """The newest scrape time (Unix, s) of a node's series, and when (s) it was first read."""

    value: float
    first_read_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is known of all nodes. `collectors` maps an `instance` to the node that it is on."""

    cards: Mapping[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    collectors: Mapping[str, NodeName] = field(default_factory=dict)
    silent_since: Mapping[NodeName, float] = field(default_factory=dict)
    scrapes: Mapping[NodeName, Scrape] = field(default_factory=dict)


# Which isolation back-ends have what they need of a node's cards, as its collectors report it.
#
# Of cards that are alike, a collector reports only their number. If the numbers do not add up,
# because series were dropped on the way, or if collectors differ, the readiness is unknown.


@dataclass(slots=True)
class ReportedReadiness:
    """The reports about one node."""

    _common: set[tuple[str, ReadinessReport, float]] = field(default_factory=set)
    #: The readiness of cards that are not named, unless a report contradicts it.
    _alike: ReadinessReport = ()
    _named: dict[GpuUuid, ReadinessReport] = field(default_factory=dict)

    def take(self, series: Series) -> None:
        """Take in one series of either kind."""
        report = of_labels((backend.value, series.own(backend.label)) for backend in NEEDY)
        if series.name != OF_CARD:
            self._alike = report if not self._common or report == self._alike else ()
            self._common.add((series.instance, report, series.value))
        elif series.value != 0:
            uuid = GpuUuid(series.own("uuid"))
            self._named[uuid] = report if self._named.get(uuid, report) == report else ()

    def of(self, uuid: GpuUuid) -> ReadinessReport:
        """The readiness of one card, if the reports add up."""
        return self._named.get(uuid, self._alike)

    def comes_out(
        self, listed: Mapping[str, set[GpuUuid]], garbled: set[GpuUuid], cards: int
    ) -> bool:
        """Whether all `cards` are there, and of each collector as many unnamed as are alike."""
        return not self._common or (
            len(garbled.union(*listed.values())) == cards
            and all(
                len((listed.get(collector, set()) | garbled) - self._named.keys()) == count
                for collector, _, count in self._common
            )
        )

    def is_named(self, uuid: GpuUuid) -> bool:
        """Whether a report names this card."""
        return uuid in self._named


#: A scrape time this far (s) in the future is of a wrong clock. So is a new one this far in the
#: past, because Prometheus repeats samples of the last five minutes and none older.
AHEAD_S, BEHIND_S = 60.0, 360.0

#: The most cards of a node; a larger count is ignored.
_MAX_CARDS = 10_000

#: The most cards that a sentence names.
_NAMED = 16

_CardsByUuid = dict[GpuUuid, Gpu]


@dataclass(slots=True)
class _NodeSamples:
    """The samples of one node."""

    cards: _CardsByUuid = field(default_factory=dict)
    #: The listed cards, by collector.
    uuids: dict[str, set[GpuUuid]] = field(default_factory=dict)
    #: Cards that stay as known, because their samples cannot be read.
    garbled: set[GpuUuid] = field(default_factory=set)
    #: How many cards its collector claims to list.
    count: int = 0
    #: Cards with a fault, and the cards of each fault.
    faulty: set[GpuUuid] = field(default_factory=set)
    faults: dict[str, list[GpuUuid]] = field(default_factory=dict)
    #: How many of the listed cards have no fault, by collector.
    healthy: dict[str, float] = field(default_factory=dict)
    isolation: ReportedReadiness = field(default_factory=ReportedReadiness)
    #: Some sample is missing, and it is unknown which.
    is_partial: bool = False
    scraped_at: float = 0.0

    def counts_agree(self) -> bool:
        """Whether cards without a fault are healthy: there are as many as a collector claims."""
        return any(
            len((self.uuids.get(collector, set()) | self.garbled) - self.faulty) == count
            for collector, count in self.healthy.items()
        )


def taken_out(node: NodeName, fault: str, uuids: Iterable[GpuUuid]) -> str:
    """The sentence that says which cards of a node take no new pods; a `fault` of "" is unknown.

    The log has a sentence once, as long as it stays the same.
    """
    cards = sorted({*uuids})
    more = f" and {len(cards) - _NAMED} more" if len(cards) > _NAMED else ""
    return f"node {node}: {fault or 'unhealthy'}, no new pods: {', '.join(cards[:_NAMED])}{more}"


class SampleMerge:
    """One instant vector, read after `previous`."""

    def __init__(self, previous: Reading) -> None:
        self.previous = previous
        self.collectors: dict[str, NodeName] = {}
        self.diagnostics: list[str] = []
        self._nodes: dict[NodeName, _NodeSamples] = {}
        self._up: list[str] = []

    def take(self, vector: Iterable[Series]) -> None:
        """Take in all series of the vector, in any order."""
        by_name: dict[str, list[Series]] = {}
        for series in vector:
            by_name.setdefault(series.name, []).append(series)
        for series in by_name.get(UP, ()):
            self._take_up(series)
        for series in by_name.get(CARDS, ()):
            self._take_count(series)
        for series in (*by_name.get(FAULT, ()), *by_name.get(HEALTHY, ())):
            self._take_word(series)
        for series in (*by_name.get(OF_NODE, ()), *by_name.get(OF_CARD, ())):
            if node := NodeName(series.own("node")):
                self._of(node).isolation.take(series)
        for series in by_name.get(CAPACITY, ()):
            self._take_card(series)

    def answering(self) -> set[NodeName]:
        """The nodes whose collector answers."""
        return {self.collectors[instance] for instance in self._up if instance in self.collectors}

    def cards_by_node(self) -> dict[NodeName, tuple[Gpu, ...]]:
        """Each node's cards by index: those listed, and those not known to be gone."""
        answering = self.answering()
        self._check_counts(answering)
        return {
            node: self._most(
                node,
                sorted(
                    self._cards_of(node, node in answering),
                    key=lambda card: (card.index, card.uuid),
                ),
            )
            for node in {*self.previous.cards, *self._listing()}
        }

    def _most(self, node: NodeName, cards: list[Gpu]) -> tuple[Gpu, ...]:
        """As many cards as a node may have, the first by index."""
        problem = CARDS_OF_NODE.problem(len(cards))
        if problem:
            self.diagnostics.append(f"node {node}: number of cards {problem}: the first are used")
        return tuple(cards[: CARDS_OF_NODE.most])

    def scrapes(self, now: float) -> dict[NodeName, Scrape]:
        """The newest scrape time of each node."""
        scrapes = dict(self.previous.scrapes)
        for node, listed in self._nodes.items():
            known = scrapes.get(node)
            if listed.scraped_at and (known is None or listed.scraped_at != known.value):
                scrapes[node] = Scrape(listed.scraped_at, now)
        return scrapes

    def silent(self, scrapes: dict[NodeName, Scrape], now: float) -> set[NodeName]:
        """Known nodes that do not answer, or whose scrape time stands still."""
        late = {
            node
            for node, listed in self._nodes.items()
            if listed.scraped_at and now - scrapes[node].first_read_at > LATE_AFTER_S
        }
        return ({*self.previous.cards} - self.answering() - {*self._listing()}) | late

    def check_clocks(self, unix_now: float) -> None:
        """Report nodes whose new scrape times cannot be right."""
        for node, listed in sorted(self._nodes.items()):
            known = self.previous.scrapes.get(node)
            if not listed.scraped_at or (known and known.value == listed.scraped_at):
                continue
            for is_wrong, how in (
                (listed.scraped_at > unix_now + AHEAD_S, f"more than {AHEAD_S:.0f} s ahead"),
                (listed.scraped_at < unix_now - BEHIND_S, f"more than {BEHIND_S:.0f} s behind"),
            ):
                if is_wrong:
                    self.diagnostics.append(f"node {node}: its clock is {how} of the scheduler's")

    def check_faults(self) -> None:
        """Report which cards take no new pods, and why; one sentence for each fault of a node."""
        for node, listed in sorted(self._nodes.items()):
            for fault, uuids in sorted(listed.faults.items()):
                self.diagnostics.append(taken_out(node, fault, uuids))

    def check_collectors(self) -> None:
        """Report collectors that describe one node differently."""
        for node, listed in sorted(self._nodes.items()):
            if len(listed.uuids) > 1 and len({frozenset(one) for one in listed.uuids.values()}) > 1:
                places = " and ".join(sorted(listed.uuids))
                self.diagnostics.append(
                    f"node {node}: the collectors at {places} list different cards of it"
                )

    # --- inside --------------------------------------------------------------------------------

    def _listing(self) -> Iterator[NodeName]:
        """The nodes with listed cards."""
        return (node for node, listed in self._nodes.items() if listed.uuids)

    def _of(self, node: NodeName) -> _NodeSamples:
        return self._nodes.setdefault(node, _NodeSamples())

    def _take_up(self, series: Series) -> None:
        """Whether a collector answers. Its node is in the scrape's labels, or known from before.

        A collector that is no longer scraped is forgotten: another one may get its address.
        """
        node = series.labels.get("node") or self.previous.collectors.get(series.instance)
        if node:
            self.collectors[series.instance] = NodeName(node)
        if series.value == 1:
            self._up.append(series.instance)

    def _take_count(self, series: Series) -> None:
        node = NodeName(series.own("node"))
        if node:
            if series.instance:
                self.collectors[series.instance] = node
            if 0 <= series.value <= _MAX_CARDS:
                listed = self._of(node)
                listed.count = max(listed.count, int(series.value))

    def _take_word(self, series: Series) -> None:
        node = NodeName(series.own("node"))
        if node and series.name == HEALTHY:
            self._of(node).healthy[series.instance] = series.value
        elif node and series.value != 0:
            uuid, listed = GpuUuid(series.own("uuid")), self._of(node)
            listed.faulty.add(uuid)
            listed.faults.setdefault(series.own("fault"), []).append(uuid)

    def _take_card(self, series: Series) -> None:
        found = read_series(series.labels, self._readiness)
        if isinstance(found, SampleProblem):
            self._garbled(found)
            return
        node, card = found.node, found.card
        if series.instance:
            self.collectors[series.instance] = node
        listed = self._of(node)
        listed.scraped_at = max(listed.scraped_at, series.value)
        listed.uuids.setdefault(series.instance, set()).add(card.uuid)
        self._list(node, listed, card)

    def _readiness(self, node: NodeName, uuid: GpuUuid) -> ReadinessReport:
        listed = self._nodes.get(node)
        return () if listed is None else listed.isolation.of(uuid)

    def _garbled(self, problem: SampleProblem) -> None:
        self.diagnostics.append(str(problem))
        node = problem.node or self._node_of(problem)
        if not node:
            return
        listed = self._of(node)
        if problem.uuid:
            listed.garbled.add(problem.uuid)
        else:
            listed.is_partial = True

    def _node_of(self, problem: SampleProblem) -> NodeName:
        """The node of a card whose series does not name it."""
        if problem.instance in self.collectors:
            return self.collectors[problem.instance]
        had = (node for node in sorted(self.previous.cards) if self._had(node, problem.uuid))
        return next(had, NodeName(""))

    def _list(self, node: NodeName, listed: _NodeSamples, card: Gpu) -> None:
        if listed.cards.setdefault(card.uuid, card) != card:
            # It is unknown which one is right; the smaller promises nothing that is not there.
            known = listed.cards[card.uuid]
            listed.cards[card.uuid] = min(known, card, key=lambda one: one.memory_bytes)
            self.diagnostics.append(f"{card.uuid}: {node} lists it twice, differently")

    def _had(self, node: NodeName, uuid: GpuUuid) -> bool:
        return any(card.uuid == uuid for card in self.previous.cards.get(node, ()))

    def _check_counts(self, answering: set[NodeName]) -> None:
        """Find collectors of which less has arrived than they claim to list."""
        for node, listed in sorted(self._nodes.items()):
            arrived = len(listed.garbled.union(*listed.uuids.values()))
            if arrived < listed.count and node in answering:
                listed.is_partial = True
                self.diagnostics.append(
                    f"node {node}: {arrived} of the {listed.count} cards that its collector lists "
                    "have arrived: nothing of it counts as gone"
                )
            elif listed.healthy and node in answering and not listed.counts_agree():
                counts = " or ".join(f"{count:g}" for count in sorted({*listed.healthy.values()}))
                self.diagnostics.append(
                    f"node {node}: its collector says that {counts} of its {arrived} cards are "
                    f"well, and by {FAULT} it is {arrived - len(listed.faulty)}: none of them "
                    "becomes well by that"
                )

    def _cards_of(self, node: NodeName, answers: bool) -> Iterator[Gpu]:
        listed = self._nodes.get(node) or _NodeSamples()
        counts_agree, isolation = listed.counts_agree(), listed.isolation
        comes_out = isolation.comes_out(listed.uuids, listed.garbled, listed.count)
        if not comes_out and listed.cards:
            self.diagnostics.append(
                f"node {node}: {OF_NODE} counts other cards than have arrived: what isolation "
                "back-ends lack on those that are not named is not known"
            )
        known = {card.uuid: card for card in self.previous.cards.get(node, ())}
        kept = {
            uuid: card
            for uuid, card in known.items()
            if not answers or listed.is_partial or uuid in listed.garbled
        }
        for card in (kept | listed.cards).values():
            was_healthy = card.uuid not in known or known[card.uuid].healthy
            is_healthy = card.uuid not in listed.faulty and (counts_agree or was_healthy)
            if not (is_healthy or card.uuid in listed.faulty) and node in self._nodes:
                self.diagnostics.append(
                    f"{card.uuid} of node {node}: nothing says that it is well again; it was "
                    "unhealthy and stays so"
                )
            readiness = card.readiness if comes_out or isolation.is_named(card.uuid) else ()
            is_same = card.healthy == is_healthy and card.readiness == readiness
            yield card if is_same else replace(card, healthy=is_healthy, readiness=readiness)
