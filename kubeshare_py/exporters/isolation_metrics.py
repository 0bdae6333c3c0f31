"""The collector's metrics on which isolation back-ends have what they need of its cards.

Nearly always all cards of a node are alike: one series has their number, and cards that differ are
named. A series for each card and back-end would be half of what the scheduler reads.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.readiness import NEEDY, ReadinessReport, as_labels
from kubeshare_py.exporters.metric import Metric

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


def values(node: NodeName, cards: Iterable[Gpu]) -> Mapping[str, _Labelled]:
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
