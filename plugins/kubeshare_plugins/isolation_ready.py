"""Score, CardScore and CardFilter: cards that are ready for the pod's isolation back-end."""

from collections.abc import Iterator, Sequence

import numpy as np

from kubeshare_py.domain.card_reading import in_words, not_ready_reason
from kubeshare_py.plugin import (
    ABSENT,
    BestCards,
    CardPredicate,
    CardRank,
    IntArray,
    IsolationBackend,
    Normaliser,
    NumberTable,
    ReadinessReport,
    ReasonTable,
    Rows,
    RowScore,
    Shape,
    Shortfall,
)

_READY, _UNREPORTED, _NOT_READY = 100, 50, 0


class IsolationReady:
    """100 points if the back-end is ready on the card, 50 if unknown, 0 if something is lacking.

    As a card filter it refuses only cards that are known to lack something. It has no say about
    pods that need no back-end.
    """

    name = "IsolationReady"
    only_for = ("isolation",)
    normaliser: Normaliser | None = None

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """One reason for each thing that may be lacking."""
        if not _matters(shape):
            return None
        backend = shape.isolation

        def mask_of(report: ReadinessReport) -> int:
            reason = not_ready_reason(report, backend)
            return reasons.register(self.name, _reason(reason), resolvable=False) if reason else 0

        masks = NumberTable(_report, mask_of, first=0)

        def reasons_of(rows: Rows) -> IntArray:
            found = masks.of(rows)
            # An empty slot must not be a nearer miss than a card that lacks something.
            is_empty = rows.flags & ABSENT > 0
            return np.where(is_empty, found.max(1, keepdims=True), found)

        return CardPredicate(lambda rows: reasons_of(rows) == 0, reasons_of)

    def card_score(self, shape: Shape) -> CardRank | None:
        """The points of each card; other policies order cards that are equally ready."""
        return _points(shape.isolation).of if _matters(shape) else None

    def score(self, shape: Shape) -> RowScore | None:
        """The points of the row's best card."""
        if not _matters(shape) or shape.claim is None or shape.claim.count > 1:
            return None
        points = _points(shape.isolation)

        def best_card(rows: Rows, cards: BestCards | None) -> IntArray:
            assert cards is not None
            return cards.of(points.of(rows))

        return best_card

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each card that lacks something."""
        if not _matters(shape):
            return
        numbers, reports = row.readiness()
        for slot, uuid in enumerate(row.uuids[0]):
            reason = not_ready_reason(reports[numbers.item(0, slot)], shape.isolation)
            if reason and not row.flags.item(0, slot) & ABSENT:
                yield Shortfall(reason=_reason(reason), subject=uuid)


def _matters(shape: Shape) -> bool:
    return bool(shape.claims) and shape.isolation is not IsolationBackend.NONE


def _reason(reason: str) -> str:
    return f"GPU with {in_words(reason)}"


def _points(backend: IsolationBackend) -> NumberTable[ReadinessReport]:
    def worth(report: ReadinessReport) -> int:
        reason = not_ready_reason(report, backend)
        return _UNREPORTED if reason is None else _NOT_READY if reason else _READY

    return NumberTable(_report, worth, first=_UNREPORTED)


def _report(rows: Rows) -> tuple[IntArray, Sequence[ReadinessReport]]:
    return rows.readiness()
