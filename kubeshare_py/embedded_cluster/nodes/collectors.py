"""The collectors of a simulated cluster, and a Prometheus' answers over their series."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeshare_py.domain.card_reading import CardReading, JudgedCard
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.exporters.collector_metrics import (
    NAME,
    READ,
    CollectorFigures,
    Sample,
    capacity_samples,
    cards_text,
    page,
)
from kubeshare_py.inventory.card_use import BUSY, USE_SERIES
from kubeshare_py.inventory.collector_page import LINK, NUMA, RDMA
from kubeshare_py.inventory.series import (
    CARDS,
    FAULT,
    HEALTHY,
    Matcher,
    SelectorProblem,
    parse_selector,
    selects,
)
from kubeshare_py.topology.wiring import links_of

# The collectors of a simulated cluster: their cards, and which of them answer.


JOB = "kubeshare-collector"
#: The name of a node's nearest RDMA device.
RDMA_DEVICE = "mlx5_0"
#: The collector's usual port; only seen in the label `instance`.
PORT = 9004
#: The fault of a broken card.
REASON = "memory-errors"


class Collectors:
    """One collector per node with cards. All of them are scraped and answer at first."""

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._cards: Mapping[NodeName, tuple[Gpu, ...]] = {
            node.name: node.cards for node in nodes if node.cards
        }
        self._missing: set[GpuUuid] = set()
        self._broken: set[GpuUuid] = set()
        self._used: dict[GpuUuid, tuple[int, int]] = {}
        self._down: set[NodeName] = set()
        self._unscraped: set[NodeName] = set()

    def remove_card(self, node: NodeName, index: int) -> GpuUuid:
        """Let a card fall off the bus: NVML no longer lists it. Raises LookupError if unknown."""
        uuid = self._cards[node][index].uuid
        self._missing.add(uuid)
        return uuid

    def restore_card(self, node: NodeName, index: int) -> GpuUuid:
        """Let a card that was removed be listed again. Raises LookupError if unknown."""
        uuid = self._cards[node][index].uuid
        self._missing.discard(uuid)
        return uuid

    def break_card(self, node: NodeName, index: int) -> GpuUuid:
        """Let a card be listed with a fault. Raises LookupError if unknown."""
        uuid = self._cards[node][index].uuid
        self._broken.add(uuid)
        return uuid

    def mend_card(self, node: NodeName, index: int) -> GpuUuid:
        """Let a card that was broken be healthy again. Raises LookupError if unknown."""
        uuid = self._cards[node][index].uuid
        self._broken.discard(uuid)
        return uuid

    def use_card(self, node: NodeName, index: int, busy_percent: int, in_use_bytes: int) -> GpuUuid:
        """Let this be used of a card from now on; other cards report no use. As above."""
        uuid = self._cards[node][index].uuid
        self._used[uuid] = busy_percent, in_use_bytes
        return uuid

    def take_down(self, node: NodeName) -> None:
        """Let a collector stop answering: its `up` is 0. Raises LookupError if unknown."""
        self._down.add(self._known(node))

    def stop_scraping(self, node: NodeName) -> None:
        """Let Prometheus forget a target: it has no `up`. Raises LookupError if unknown."""
        self._unscraped.add(self._known(node))

    def bring_up(self, node: NodeName) -> None:
        """Let a collector be scraped and answer. Raises LookupError if unknown."""
        self._down.discard(self._known(node))
        self._unscraped.discard(node)

    def listed(self, node: NodeName) -> tuple[Gpu, ...] | None:
        """The cards that the collector of `node` lists; None if it does not answer or exist."""
        if node not in self._cards or node in self._down:
            return None
        return tuple(card for card in self._cards[node] if card.uuid not in self._missing)

    def page(self, node: NodeName, now: float, accept: str = "") -> tuple[bytes, str] | None:
        """The answer to a scrape, and its content type; None as above."""
        listed = self.listed(node)
        if listed is None:
            return None
        figures = CollectorFigures(
            node=node,
            cards=tuple(self._judged(card) for card in listed),
            listed=listed,
            links=links_of(listed),
            errors={},
            unanswered={},
            readings={READ: 1},
        )
        return page(figures, cards_text(figures), now, accept)

    def series(self, now: float) -> Iterator[Sample]:
        """The series that schedulers read, as Prometheus has them after scraping at `now`."""
        for node in self._cards:
            if node in self._unscraped:
                continue
            target = {"job": JOB, "instance": f"{node}:{PORT}"}
            listed = self.listed(node)
            yield Sample({"__name__": "up", **target}, int(listed is not None))
            if listed is None:
                continue
            broken = [card for card in listed if card.uuid in self._broken]
            yield Sample({"__name__": CARDS, **target, "node": node}, len(listed))
            yield Sample({"__name__": HEALTHY, **target, "node": node}, len(listed) - len(broken))
            for sample in capacity_samples(node, listed, now):
                yield Sample({"__name__": NAME, **target, **sample.labels}, sample.value)
            for card in broken:
                wrong = {"node": node, "uuid": card.uuid, "fault": REASON}
                yield Sample({"__name__": FAULT, **target, **wrong}, 1)
            for card in listed:
                for name, value in zip(USE_SERIES, self._use(card), strict=True):
                    if value is not None:
                        labels = {"node": node, "uuid": card.uuid}
                        amount = value / 100 if name == BUSY else value
                        yield Sample({"__name__": name, **target, **labels}, amount)
            yield from _wiring_samples(node, listed, target)

    def _use(self, card: Gpu) -> tuple[int, int] | tuple[None, None]:
        return self._used.get(card.uuid, (None, None))

    def _judged(self, card: Gpu) -> JudgedCard:
        busy_percent, in_use_bytes = self._use(card)
        reading = CardReading(
            uuid=card.uuid,
            index=card.index,
            model=card.model,
            memory_bytes=card.memory_bytes,
            numa_node=card.numa_node,
            parent=card.parent,
            busy_percent=busy_percent,
            used_bytes=in_use_bytes,
            rdma=() if card.rdma is None else ((RDMA_DEVICE, card.rdma),),
        )
        return JudgedCard(reading=reading, faults=(REASON,) if card.uuid in self._broken else ())

    def _known(self, node: NodeName) -> NodeName:
        if node not in self._cards:
            raise LookupError(f"node {node} has no collector")
        return node


def _wiring_samples(
    node: NodeName, cards: tuple[Gpu, ...], target: dict[str, str]
) -> Iterator[Sample]:
    """The wiring of the cards, in GB/s as collectors report it."""
    for link in links_of(cards):
        labels = {"uuid": link.uuid, "peer": link.peer, "type": link.kind}
        yield Sample({"__name__": LINK, **target, "node": node, **labels}, link.speed // 1000)
    for card in cards:
        if card.numa_node is not None:
            labels = {"node": node, "uuid": card.uuid}
            yield Sample({"__name__": NUMA, **target, **labels}, card.numa_node)
        if card.rdma is not None:
            near = {"device": RDMA_DEVICE, "type": card.rdma.value}
            labels = {"node": node, "uuid": card.uuid, **near}
            yield Sample({"__name__": RDMA, **target, **labels}, 1)


# Answers of Prometheus' HTTP API over the series of a simulated cluster.
#
# Only plain selectors are supported, no functions or operators; each series has one value, now.
# Forms: https://prometheus.io/docs/prometheus/latest/querying/api/.


OK, BAD_REQUEST = 200, 400
#: Prometheus refuses range queries with more points per series.
MAX_POINTS = 11_000


@dataclass(frozen=True, slots=True)
class PrometheusAnswer:
    """HTTP status and JSON body."""

    status: int
    body: dict[str, Any]


def query(text: str | None, series: Iterable[Sample], now: float) -> PrometheusAnswer:
    """`/api/v1/query`: an instant vector."""
    try:
        matchers = _selector("query", text)
    except _BadData as problem:
        return _refused(problem)
    return _good(
        {
            "resultType": "vector",
            "result": [
                {"metric": sample.labels, "value": [now, str(sample.value)]}
                for sample in _selected([matchers], series)
            ],
        }
    )


def query_range(
    text: str | None, times: tuple[str, str, str], series: Iterable[Sample]
) -> PrometheusAnswer:
    """`/api/v1/query_range` with `times` = start, end and step: the present value at every step."""
    try:
        matchers = _selector("query", text)
        points = _points(*times)
    except _BadData as problem:
        return _refused(problem)
    return _good(
        {
            "resultType": "matrix",
            "result": [
                {"metric": sample.labels, "values": [[at, str(sample.value)] for at in points]}
                for sample in _selected([matchers], series)
            ],
        }
    )


def series_list(texts: Sequence[str], series: Iterable[Sample]) -> PrometheusAnswer:
    """`/api/v1/series`: labels of what any of the `match[]` selectors selects."""
    try:
        if not texts:
            raise _BadData("no match[] parameter provided")
        selectors = [_selector("match[]", text) for text in texts]
    except _BadData as problem:
        return _refused(problem)
    return _good([sample.labels for sample in _selected(selectors, series)])


class _BadData(ValueError):
    """Prometheus' error type `bad_data`."""


def _good(data: object) -> PrometheusAnswer:
    return PrometheusAnswer(OK, {"status": "success", "data": data})


def _refused(problem: _BadData) -> PrometheusAnswer:
    return PrometheusAnswer(
        BAD_REQUEST, {"status": "error", "errorType": "bad_data", "error": str(problem)}
    )


def _selector(parameter: str, text: str | None) -> tuple[Matcher, ...]:
    try:
        return parse_selector(text or "")
    except SelectorProblem as problem:
        raise _BadData(f'invalid parameter "{parameter}": {problem}') from problem


def _selected(
    selectors: Sequence[tuple[Matcher, ...]], series: Iterable[Sample]
) -> Iterator[Sample]:
    for sample in series:
        if any(selects(matchers, sample.labels) for matchers in selectors):
            yield sample


def _points(start: str, end: str, step: str) -> list[float]:
    numbers: list[float] = []
    for parameter, text in (("start", start), ("end", end), ("step", step)):
        try:
            numbers.append(float(text.removesuffix("s") if parameter == "step" else text))
        except ValueError as problem:
            raise _BadData(
                f'invalid parameter "{parameter}": cannot parse "{text}" to a valid value'
            ) from problem
    first, last, width = numbers
    if width <= 0:
        raise _BadData('invalid parameter "step": zero or negative handling is not accepted')
    if last < first:
        raise _BadData('invalid parameter "end": end timestamp must not be before start time')
    if (last - first) / width > MAX_POINTS:
        raise _BadData(f"exceeded maximum resolution of {MAX_POINTS:,} points per timeseries")
    return [first + number * width for number in range(int((last - first) / width) + 1)]
