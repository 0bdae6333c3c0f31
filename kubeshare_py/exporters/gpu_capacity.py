"""The collector's metric `gpu_capacity`: one series per card, as KubeShare 2.0 exposes it.

Rendered here, because prometheus_client would append `_total` to the name of a counter, and sort
labels differently from KubeShare: node, uuid, model, memory, index. OpenMetrics has no counters
without that suffix; there it is a gauge, which it is by nature.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.exporters.metric import Metric
from kubeshare_py.exporters.text_lines import head, label_text

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
    """One series with its value: the Unix time of the scrape in whole seconds."""

    labels: Mapping[str, str]
    value: int


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
