"""The collector's metric `gpu_capacity`: one series per card, as KubeShare 2.0 exposes it.

Written out here because prometheus_client would append `_total` to the name of a counter, and
sort nothing the way KubeShare declares it: node, uuid, model, memory, index.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName

NAME = "gpu_capacity"
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
        Sample(
            {
                "node": node,
                "uuid": card.uuid,
                "model": card.model.replace(" ", "-"),
                "memory": str(card.memory_bytes),
                "index": str(card.index),
            },
            int(now),
        )
        for card in cards
    )


def exposition(samples: Iterable[Sample]) -> str:
    """The text that a scrape of the collector gets."""
    lines = [f"# HELP {NAME} GPUs of this node.", f"# TYPE {NAME} counter"]
    for sample in samples:
        labels = ",".join(
            f'{name}="{text.translate(_ESCAPES)}"' for name, text in sample.labels.items()
        )
        lines.append(f"{NAME}{{{labels}}} {sample.value}")
    return "\n".join(lines) + "\n"
