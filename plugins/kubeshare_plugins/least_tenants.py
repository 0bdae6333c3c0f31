"""Score and CardScore: the card with the fewest pods on it."""

import numpy as np

from kubeshare_py.plugin import BestCards, CardRank, IntArray, Normaliser, Rows, RowScore, Shape

_MAX = 100


class LeastTenants:
    """Fewer pods per card mean less interference; the size of their shares does not matter."""

    name = "LeastTenants"
    normaliser: Normaliser | None = None

    def score(self, shape: Shape) -> RowScore | None:
        """100 for an idle card, one less for each pod on the best card.

        No say about whole cards.
        """
        if shape.claim is None or shape.claim.count > 1 or shape.policy is not None:
            return None
        return _row

    def card_score(self, shape: Shape) -> CardRank | None:
        """The same for each card."""
        return None if shape.policy is not None else _card


def _card(rows: Rows) -> IntArray:
    return _MAX - np.minimum(rows.tenants, _MAX)


def _row(rows: Rows, cards: BestCards | None) -> IntArray:
    assert cards is not None
    return _MAX - np.minimum(cards.of(rows.tenants), _MAX)
