"""From one reading of Prometheus to the next: which nodes' cards changed, and who is silent.

A card is gone when its node's collector answers (`up` is 1) and does not list it. A collector
that does not answer says nothing: its node keeps its last known cards and counts as silent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.inventory import gpu_capacity
from kubeshare_py.inventory.gpu_capacity import SampleProblem, read_series
from kubeshare_py.inventory.series_selectors import Matcher, selects

UP = "up"
#: How long a collector's scrape time may stand still before its node counts as silent.
LATE_AFTER_S = 120.0

_Cards = dict[GpuUuid, Gpu]


@dataclass(frozen=True, slots=True)
class Series:
    """One element of an instant vector; its labels include `__name__`."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Scrape:
    """The newest scrape time that a node's series carried, and when we first read that one."""

    value: float
    first_read_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is known of all nodes. `collectors` tells from an `instance` which node it is on."""

    cards: Mapping[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    collectors: Mapping[str, NodeName] = field(default_factory=dict)
    silent_since: Mapping[NodeName, float] = field(default_factory=dict)
    scrapes: Mapping[NodeName, Scrape] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next reading, which nodes' cards differ from the previous one, and what was ignored."""

    reading: Reading
    changed: tuple[tuple[NodeName, tuple[Gpu, ...]], ...]
    diagnostics: tuple[str, ...]


def next_reading(
    previous: Reading, vector: Iterable[Series], now: float, selector: tuple[Matcher, ...] = ()
) -> Step:
    """Take in one instant vector with `gpu_capacity` and `up` series, read at one instant.

    Both must come from one query: read apart, a collector that restarts in between looks like
    one that answers and has no cards. `now` is in seconds, of any clock that `previous` used.
    """
    heard = _Heard(previous)
    for series in vector:
        if selects(selector, series.labels):
            heard.take(series, now)
        else:
            heard.ignored(series)
    cards = heard.cards_by_node()
    reading = Reading(
        cards=cards,
        collectors=heard.collectors,
        silent_since={
            node: previous.silent_since.get(node, now) for node in sorted(heard.silent(now))
        },
        scrapes=heard.scrapes,
    )
    changed = tuple(
        (node, cards[node])
        for node in sorted(cards)
        if node not in previous.cards or previous.cards[node] != cards[node]
    )
    return Step(reading=reading, changed=changed, diagnostics=tuple(heard.diagnostics))


class _Heard:
    """What one instant vector says, while it is being read."""

    def __init__(self, previous: Reading) -> None:
        self.previous = previous
        self.collectors = dict(previous.collectors)
        self.scrapes = dict(previous.scrapes)
        self.diagnostics: list[str] = []
        self._listed: dict[NodeName, _Cards] = {}
        self._garbled: dict[NodeName, set[GpuUuid]] = {}
        self._owner: dict[GpuUuid, NodeName] = {}
        self._up: list[str] = []

    def take(self, series: Series, now: float) -> None:
        name = series.labels.get("__name__")
        if name == UP:
            if series.value == 1:
                self._up.append(series.labels.get("instance", ""))
        elif name == gpu_capacity.NAME:
            self._take_card(series, now)

    def ignored(self, series: Series) -> None:
        if series.labels.get("__name__") == gpu_capacity.NAME:
            node, uuid, job = (series.labels.get(name, "?") for name in ("node", "uuid", "job"))
            self.diagnostics.append(f"{uuid} of node {node}: ignored, job {job!r} is not selected")

    def _take_card(self, series: Series, now: float) -> None:
        found = read_series(series.labels)
        if isinstance(found, SampleProblem):
            self.diagnostics.append(str(found))
            self._garbled.setdefault(found.node, set()).add(found.uuid)
            return
        if instance := series.labels.get("instance"):
            self.collectors[instance] = found.node
        known = self.scrapes.get(found.node)
        if known is None or series.value != known.value:
            self.scrapes[found.node] = Scrape(series.value, now)
        self._listed.setdefault(found.node, {})
        if self._owns(found.node, found.card.uuid):
            self._list(found.node, found.card)

    def _owns(self, node: NodeName, uuid: GpuUuid) -> bool:
        """Whether a card counts on `node`: of two that list it, on the one that had it before."""
        owner = self._owner.setdefault(uuid, node)
        if owner == node:
            return True
        keeper, loser = sorted((owner, node), key=lambda one: (not self._has_had(one, uuid), one))
        self.diagnostics.append(f"{uuid}: listed by {loser} too, counted on {keeper} only")
        self._owner[uuid] = keeper
        if keeper == node:
            del self._listed[loser][uuid]
        return keeper == node

    def _list(self, node: NodeName, card: Gpu) -> None:
        cards = self._listed[node]
        if cards.setdefault(card.uuid, card) != card:
            # Which one is right cannot be told; the smaller promises nothing that is not there.
            cards[card.uuid] = min(cards[card.uuid], card, key=lambda one: one.memory_bytes)
            self.diagnostics.append(f"{card.uuid}: {node} lists it twice, differently")

    def _has_had(self, node: NodeName, uuid: GpuUuid) -> bool:
        return any(card.uuid == uuid for card in self.previous.cards.get(node, ()))

    def answering(self) -> set[NodeName]:
        """Nodes whose collector answers."""
        return {self.collectors[instance] for instance in self._up if instance in self.collectors}

    def cards_by_node(self) -> dict[NodeName, tuple[Gpu, ...]]:
        """Each node's cards by index: those listed, and those that nothing says are gone."""
        answering = self.answering()
        return {
            node: tuple(
                sorted(
                    (self._kept(node, node in answering) | self._listed.get(node, {})).values(),
                    key=lambda card: (card.index, card.uuid),
                )
            )
            for node in {*self.previous.cards, *self._listed}
        }

    def silent(self, now: float) -> set[NodeName]:
        """Nodes known of old that do not answer, or whose scrape time stands still."""
        late = {
            node
            for node, scrape in self.scrapes.items()
            if self._listed.get(node) and now - scrape.first_read_at > LATE_AFTER_S
        }
        return ({*self.previous.cards} - self.answering() - {*self._listed}) | late

    def _kept(self, node: NodeName, answering: bool) -> _Cards:
        garbled = self._garbled.get(node, set())
        return {
            card.uuid: card
            for card in self.previous.cards.get(node, ())
            if self._owner.get(card.uuid, node) == node and (not answering or card.uuid in garbled)
        }
