"""The collector's metrics: cards and their links, and the readings. Values in, text out.

Units are base units. What the driver does not report has no series.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kubeshare_py.domain.card_reading import (
    NEEDY,
    CardLink,
    CardReading,
    FarEnd,
    JudgedCard,
    RdmaDevice,
    ReadinessReport,
    as_labels,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.exporters.metric import (
    BUILD_INFO,
    Metric,
    Value,
    Values,
    gauges,
    head,
    label_text,
    registry,
)

# The collector's metric `gpu_capacity`: one series per card, as KubeShare 2.0 exposes it.
#
# Rendered here, because prometheus_client would append `_total` to the name of a counter, and sort
# labels differently from KubeShare: node, uuid, model, memory, index. OpenMetrics has no counters
# without that suffix; there it is a gauge, which it is by nature.


NAME = "gpu_capacity"
METRIC = Metric(
    NAME,
    "counter",
    "Cards of this node that pods may get, at the Unix time of the scrape.",
    ("node", "uuid", "model", "memory", "index"),
)
OPENMETRICS_KIND = "gauge"
#: The path of the collector's page.
PATH = "/kubeshare-collector"


@dataclass(frozen=True, slots=True)
class Sample:
    """One series with its value: of `gpu_capacity` the Unix time of the scrape in whole seconds."""

    labels: Mapping[str, str]
    value: float


def capacity_samples(node: NodeName, cards: Iterable[Gpu], now: float) -> tuple[Sample, ...]:
    """One sample per card of `node`; `now` is Unix time (s)."""
    return tuple(
        Sample(dict(zip(METRIC.labels, _label_values(node, card), strict=True)), int(now))
        for card in cards
    )


def exposition(samples: Iterable[Sample], kind: str = "") -> str:
    """The metric's lines in a scrape of the collector; `kind` replaces its own kind."""
    lines = [
        f"{NAME}{label_text(tuple(sample.labels), sample.labels.values())} {sample.value}\n"
        for sample in samples
    ]
    return "".join([head(METRIC, kind), *lines])


def _label_values(node: NodeName, card: Gpu) -> tuple[str, ...]:
    model = card.model.replace(" ", "-")
    return node, card.uuid, model, str(card.memory_bytes), str(card.index)


# The collector's metrics on which isolation back-ends have what they need of its cards.
#
# Nearly always all cards of a node are alike: one series has their number, and cards that differ
# are named. A series for each card and back-end would be half of what the scheduler reads.


_LABELS = tuple(one.label for one in NEEDY)
OF_NODE = Metric(
    "kubeshare_collector_isolation",
    "gauge",
    "Cards of which this is true; each back-end is ready, not ready and why, or unknown.",
    ("node", *_LABELS),
)
OF_CARD = Metric(
    "kubeshare_gpu_isolation",
    "gauge",
    "1 for each card of its node of which that is not true; this is.",
    ("node", "uuid", *_LABELS),
)

_Labelled = dict[tuple[str, ...], float]


def isolation_values(node: NodeName, cards: Iterable[Gpu]) -> Mapping[str, _Labelled]:
    """All values, by metric; none if nothing is known of any card."""
    cards = tuple(cards)
    alike = Counter(card.readiness for card in cards)
    if not any(alike):
        return {}
    common = min(alike, key=lambda report: (-alike[report], as_labels(report)))
    return {
        OF_NODE.name: {(node, *_words(common)): alike[common]},
        OF_CARD.name: {
            (node, card.uuid, *_words(card.readiness)): 1
            for card in cards
            if card.readiness != common
        },
    }


def _words(report: ReadinessReport) -> tuple[str, ...]:
    words = dict(as_labels(report))
    return tuple(words.get(backend, "") for backend in NEEDY)


_CARD = ("node", "uuid")
_NODE = ("node",)
_KIND = (*_CARD, "kind")

_GAUGES = (
    Metric(
        "gpu_link",
        "gauge",
        "GB/s between two cards at most, both directions summed; the type as in nvidia-smi topo.",
        ("node", "uuid", "peer", "type"),
    ),
    Metric(
        "kubeshare_gpu_info",
        "gauge",
        "1 for each card and instance, those that are gone or divided included.",
        (*_CARD, "index", "model", "bus", "parent", "profile", "clique"),
    ),
    Metric("kubeshare_gpu_healthy", "gauge", "1 for a card without a fault, else 0.", _CARD),
    Metric("kubeshare_gpu_fault", "gauge", "1 for each thing wrong now.", (*_CARD, "fault")),
    Metric("kubeshare_gpu_memory_bytes", "gauge", "Memory of a card.", _CARD),
    Metric("kubeshare_gpu_memory_reserved_bytes", "gauge", "Memory that the driver keeps.", _CARD),
    Metric(
        "kubeshare_gpu_memory_used_bytes",
        "gauge",
        "Memory in use, with what the driver keeps unless the driver reports that apart.",
        _CARD,
    ),
    Metric(
        "kubeshare_gpu_divided",
        "gauge",
        "1 for a card in MIG mode: its instances are given away, not it.",
        _CARD,
    ),
    Metric("kubeshare_gpu_numa_node", "gauge", "The NUMA node that is near a card.", _CARD),
    Metric(
        "kubeshare_gpu_rdma",
        "gauge",
        "1 for a card and an RDMA device; the type is what lies between, as in nvidia-smi topo.",
        (*_CARD, "device", "type"),
    ),
    Metric(
        "kubeshare_rdma_device",
        "gauge",
        "1 for each RDMA device; the switch is the upstream port of its PCIe switch, if any.",
        ("node", "device", "bus", "switch"),
    ),
    Metric(
        "kubeshare_rdma_numa_node",
        "gauge",
        "The NUMA node that is near an RDMA device.",
        ("node", "device"),
    ),
    Metric(
        "kubeshare_gpu_links",
        "gauge",
        "NVLinks that are up, by what they lead to: card, switch or other.",
        (*_CARD, "to"),
    ),
    Metric("kubeshare_gpu_memory_errors", "gauge", "ECC errors since the last reset.", _KIND),
    Metric("kubeshare_gpu_remapped_rows", "gauge", "Rows of memory replaced by spares.", _KIND),
    Metric("kubeshare_gpu_busy_ratio", "gauge", "Part of the time in which a kernel ran.", _CARD),
    Metric(
        "kubeshare_gpu_memory_busy_ratio",
        "gauge",
        "Part of the time in which memory was read or written.",
        _CARD,
    ),
    Metric("kubeshare_gpu_temperature_celsius", "gauge", "Temperature of a card.", _CARD),
    Metric("kubeshare_gpu_power_watts", "gauge", "Power that a card draws.", _CARD),
    Metric("kubeshare_gpu_processes", "gauge", "Processes on a card.", _CARD),
    OF_NODE,
    OF_CARD,
)
_OTHERS = (
    Metric(
        "kubeshare_gpu_driver_errors_total",
        "counter",
        "Errors that the driver reported since the collector was started, by code.",
        (*_CARD, "code"),
    ),
    Metric(
        "kubeshare_collector_driver_info",
        "gauge",
        "1; empty without a driver.",
        (*_NODE, "version"),
    ),
    Metric("kubeshare_collector_cards", "gauge", "Cards in gpu_capacity.", _NODE),
    Metric(
        "kubeshare_collector_healthy_cards",
        "gauge",
        "Those of them that have no kubeshare_gpu_fault.",
        _NODE,
    ),
    Metric(
        "kubeshare_collector_reading_age_seconds",
        "gauge",
        "Since the driver last answered; absent until it has.",
        _NODE,
    ),
    Metric("kubeshare_collector_reading_duration_seconds", "gauge", "Of the last reading.", _NODE),
    Metric(
        "kubeshare_collector_readings_total",
        "counter",
        "Readings by result: read, failed, or hung when the driver did not answer.",
        (*_NODE, "result"),
    ),
    Metric(
        "kubeshare_collector_driver_failures_total",
        "counter",
        "Questions to which the driver gave an error, by its function.",
        (*_NODE, "question", "error"),
    ),
)
#: Everything on the collector's page except process_* and python_*.
CATALOGUE = (METRIC, *_GAUGES, *_OTHERS, BUILD_INFO)

READ, FAILED, HUNG = "read", "failed", "hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorFigures:
    """What the collector knows. `errors` by uuid and code, `unanswered` by question and error.

    `age_s` and `took_s` are of the last reading, None before the first.
    """

    node: NodeName
    cards: tuple[JudgedCard, ...] = ()
    listed: tuple[Gpu, ...] = ()
    links: tuple[CardLink, ...] = ()
    rdma: tuple[RdmaDevice, ...] = ()
    errors: Mapping[tuple[GpuUuid, str], int]
    unanswered: Mapping[tuple[str, str], int]
    readings: Mapping[str, int]
    driver: str = ""
    age_s: float | None = None
    took_s: float | None = None


def page(
    figures: CollectorFigures,
    cards: str,
    listed_at: float,
    accept: str,
    process: Iterable[Collector] = (),
) -> tuple[bytes, str]:
    """The text in the format that `accept` prefers (an HTTP header), and its content type.

    `cards` is the result of `cards_text` for the same figures. `listed_at` is the Unix time (s) of
    the scrape; `process` gives further metrics.
    """
    encoder, content_type = choose_encoder(accept)
    is_open = content_type.startswith("application/openmetrics-text")
    kind = OPENMETRICS_KIND if is_open else ""
    capacity = exposition(capacity_samples(figures.node, figures.listed, listed_at), kind)
    given = registry(_OTHERS, reading_values(figures))
    for one in process:
        given.register(one)
    return (capacity + cards).encode() + encoder(given), content_type


def cards_text(figures: CollectorFigures) -> str:
    """The part that does not change between two readings, the same in both formats."""
    return gauges(_GAUGES, card_values(figures))


def reading_values(figures: CollectorFigures) -> Values:
    """Values about the readings, by metric."""
    node = figures.node
    values: dict[str, dict[tuple[str, ...], Value]] = {
        "kubeshare_gpu_driver_errors_total": {
            (node, *key): count for key, count in figures.errors.items()
        },
        "kubeshare_collector_driver_info": {(node, figures.driver): 1},
        "kubeshare_collector_cards": {(node,): len(figures.listed)},
        "kubeshare_collector_healthy_cards": {(node,): _healthy_count(figures)},
        "kubeshare_collector_readings_total": {
            (node, result): figures.readings.get(result, 0) for result in (READ, FAILED, HUNG)
        },
        "kubeshare_collector_driver_failures_total": {
            (node, *key): count for key, count in figures.unanswered.items()
        },
    }
    for name, number in (
        ("kubeshare_collector_reading_age_seconds", figures.age_s),
        ("kubeshare_collector_reading_duration_seconds", figures.took_s),
    ):
        if number is not None:
            values[name] = {(node,): number}
    return values


def _healthy_count(figures: CollectorFigures) -> int:
    """How many of the listed cards have no fault."""
    faulty = {card.reading.uuid for card in figures.cards if card.faults}
    return sum(card.uuid not in faulty for card in figures.listed)


def card_values(figures: CollectorFigures) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    """Values about the cards and their links, by metric."""
    values: dict[str, dict[tuple[str, ...], float]] = {
        "gpu_link": {
            (figures.node, link.uuid, link.peer, link.kind): link.speed / 1000
            for link in figures.links
        },
        **isolation_values(figures.node, figures.listed),
        "kubeshare_rdma_device": {
            (figures.node, one.name, one.bus, one.switch): 1 for one in figures.rdma
        },
        "kubeshare_rdma_numa_node": {
            (figures.node, one.name): one.numa_node
            for one in figures.rdma
            if one.numa_node is not None
        },
    }
    for card in figures.cards:
        for name, labels, value in _card_values(card):
            values.setdefault(name, {})[figures.node, card.reading.uuid, *labels] = value
    return values


_LabelledSeries = tuple[str, tuple[str, ...], float]


def _card_values(card: JudgedCard) -> Iterator[_LabelledSeries]:
    reading = card.reading
    fabric = reading.fabric
    yield (
        "kubeshare_gpu_info",
        (
            str(reading.index),
            reading.model.replace(" ", "-"),
            reading.bus,
            reading.parent or "",
            reading.profile,
            f"{fabric.cluster}.{fabric.clique}" if fabric is not None and fabric.cluster else "",
        ),
        1,
    )
    yield "kubeshare_gpu_healthy", (), int(not card.faults)
    for fault in card.faults:
        yield "kubeshare_gpu_fault", (fault,), 1
    for device, path in reading.rdma:
        yield "kubeshare_gpu_rdma", (device, path.value), 1
    if card.is_read:
        yield from _readings(reading)
        yield from _counts(reading)


def _readings(reading: CardReading) -> Iterator[_LabelledSeries]:
    for name, value in _PLAIN.items():
        number = value(reading)
        if number is not None:
            yield name, (), number


def _counts(reading: CardReading) -> Iterator[_LabelledSeries]:
    errors = reading.errors
    for name, kind, count in (
        ("kubeshare_gpu_memory_errors", "corrected", errors.corrected),
        ("kubeshare_gpu_memory_errors", "uncorrected", errors.uncorrected),
        ("kubeshare_gpu_remapped_rows", "corrected", errors.remapped_corrected),
        ("kubeshare_gpu_remapped_rows", "uncorrected", errors.remapped_uncorrected),
    ):
        if count is not None:
            yield name, (kind,), count
    for end in FarEnd:
        count = sum(link.far_end is end for link in reading.links)
        if count:
            yield "kubeshare_gpu_links", (end.value,), count


def _scaled(value: int | None, unit: int) -> float | None:
    return None if value is None else value / unit


_PLAIN: Mapping[str, Callable[[CardReading], float | None]] = {
    "kubeshare_gpu_memory_bytes": lambda one: one.memory_bytes or None,
    "kubeshare_gpu_memory_reserved_bytes": lambda one: one.reserved_bytes,
    "kubeshare_gpu_memory_used_bytes": lambda one: one.used_bytes,
    "kubeshare_gpu_divided": lambda one: None if one.divided is None else int(one.divided),
    "kubeshare_gpu_numa_node": lambda one: one.numa_node,
    "kubeshare_gpu_busy_ratio": lambda one: _scaled(one.busy_percent, 100),
    "kubeshare_gpu_memory_busy_ratio": lambda one: _scaled(one.copying_percent, 100),
    "kubeshare_gpu_temperature_celsius": lambda one: one.temperature_celsius,
    "kubeshare_gpu_power_watts": lambda one: _scaled(one.power_milliwatts, 1000),
    "kubeshare_gpu_processes": lambda one: None if one.processes is None else len(one.processes),
}
