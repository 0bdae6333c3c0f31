"""The collector's metric `gpu_capacity`: one series per card, as KubeShare 2.0 exposes it.

Written out here because prometheus_client would append `_total` to the name of a counter, and
sort nothing the way KubeShare declares it: node, uuid, model, memory, index. OpenMetrics has no
counters without that suffix; there it is a gauge, which it is by nature.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName

NAME = "gpu_capacity"
KIND, OPENMETRICS_KIND = "counter", "gauge"
HELP = "Cards of this node that pods may get, at the Unix time of the scrape."
LABELS = ("node", "uuid", "model", "memory", "index")
#: Where the collector serves its metric.
PATH = "/kubeshare-collector"
#: Prometheus text exposition format 0.0.4.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Sample:
    """One series with its value: Unix time in whole seconds, when it was scraped."""

    labels: Mapping[str, str]
    value: int


def capacity_samples(node: NodeName, cards: Iterable[Gpu], now: float) -> tuple[Sample, ...]:
    """One sample per card of `node`; `now` is Unix time in seconds."""
    return tuple(
        Sample(dict(zip(LABELS, _label_values(node, card), strict=True)), int(now))
        for card in cards
    )


def exposition(samples: Iterable[Sample], kind: str = KIND) -> str:
    """The lines of this metric in a scrape of the collector."""
    lines = [f"# HELP {NAME} {HELP}", f"# TYPE {NAME} {kind}"]
    for sample in samples:
        labels = ",".join(
            f'{name}="{text.translate(_ESCAPES)}"' for name, text in sample.labels.items()
        )
        lines.append(f"{NAME}{{{labels}}} {sample.value}")
    return "\n".join(lines) + "\n"


def _label_values(node: NodeName, card: Gpu) -> tuple[str, ...]:
    model = card.model.replace(" ", "-")
    return node, card.uuid, model, str(card.memory_bytes), str(card.index)
