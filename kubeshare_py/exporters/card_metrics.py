"""Metrics of each card, in the text format.

Rendered here: with 40,000 cards there are a quarter of a million series, for which
prometheus-client's general rendering takes seconds, and this a tenth of one.
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from collections.abc import Iterable, Sequence

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.exporters.metric import Metric
from kubeshare_py.views.figures import CardFigures

_LABELS = ("node", "uuid", "model")
CARD_METRICS = (
    Metric(
        "kubeshare_card_capacity_milli",
        "gauge",
        "Thousandths of a GPU that pods may hold of a card.",
        _LABELS,
    ),
    Metric(
        "kubeshare_card_capacity_bytes", "gauge", "Memory that pods may hold of a card.", _LABELS
    ),
    Metric(
        "kubeshare_card_allocated_milli", "gauge", "Thousandths of a GPU that pods hold.", _LABELS
    ),
    Metric("kubeshare_card_allocated_bytes", "gauge", "Memory that pods hold of a card.", _LABELS),
    Metric("kubeshare_card_tenants", "gauge", "Pods on a card.", _LABELS),
    Metric("kubeshare_card_healthy", "gauge", "1 for a card that takes new pods, else 0.", _LABELS),
    Metric(
        "kubeshare_card_memory_scaling",
        "gauge",
        "Memory that pods may hold of a card, per byte that it has; only where it is not 1.",
        _LABELS,
    ),
)

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_NEED_ESCAPES = frozenset('\\"\n')


class CardPage:
    """Collects portions of cards; `chunks` is the text, one metric after the other."""

    def __init__(self) -> None:
        self._parts: list[list[bytes]] = [[] for _ in CARD_METRICS]

    def add(self, cards: CardFigures) -> None:
        """Render some cards; about 2 µs for each."""
        labels = [
            f'{{node="{node}",uuid="{uuid}",model="{model}"}} '
            for node, uuid, model in zip(
                map(_escaped, cards.nodes),
                map(_escaped, cards.uuids),
                map(_escaped, cards.models),
                strict=True,
            )
        ]
        columns: tuple[Sequence[int], ...] = (
            cards.capacity_milli,
            cards.capacity_bytes,
            cards.allocated_milli,
            cards.allocated_bytes,
            cards.tenants,
            cards.healthy,
        )
        for metric, parts, values in zip(CARD_METRICS[:-1], self._parts[:-1], columns, strict=True):
            name = metric.name
            lines = [f"{name}{label}{value}\n" for label, value in zip(labels, values, strict=True)]
            parts.append("".join(lines).encode())
        name, parts = CARD_METRICS[-1].name, self._parts[-1]
        scaled = [
            f"{name}{label}{scaling / WHOLE_MILLI:g}\n"
            for label, scaling in zip(labels, cards.memory_scaling, strict=True)
            if scaling != WHOLE_MILLI
        ]
        if scaled:
            parts.append("".join(scaled).encode())

    def chunks(self) -> Iterable[bytes]:
        """The text in pieces; none without cards."""
        for metric, parts in zip(CARD_METRICS, self._parts, strict=True):
            if parts:
                yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} gauge\n".encode()
                yield from parts


def _escaped(text: str) -> str:
    return text if _NEED_ESCAPES.isdisjoint(text) else text.translate(_ESCAPES)
