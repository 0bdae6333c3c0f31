"""Score and CardScore: KubeShare 2.0's formula for pods of priority 1 to 100.

For n healthy cards of the wanted model, with p the priority of each card's cell (0 without a cells
file) and u its used thousandths: (sum of p - sum of u / 10) / n, truncated toward zero. KubeShare's
third term, the mean distance to the cells of the pod's group, is 0 here, because a score depends on
its row alone.
"""

from kubeshare_plugins.kubeshare_opportunistic import (
    TENFOLD,
    normalise,
    tenfold_priorities,
    truncated,
    used_cards,
)
from kubeshare_py.plugin import BestCards, CardRank, IntArray, Rows, RowScore, Shape


class KubeShareGuarantee:
    """Pods of priority 1 to 100: the emptiest card of the emptiest node."""

    name = "KubeShareGuarantee"
    normaliser = staticmethod(normalise)

    def score(self, shape: Shape) -> RowScore | None:
        """Only for pods with a claim and a guarantee."""
        if not shape.claims or not shape.guarantee or shape.policy is not None:
            return None

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            counted, used = used_cards(shape, rows)
            points = tenfold_priorities(counted, rows) - used.sum(1)
            return truncated(points, TENFOLD * counted.sum(1))

        return ask

    def card_score(self, shape: Shape) -> CardRank | None:
        """The emptiest card that fits."""
        if not shape.guarantee or shape.policy is not None:
            return None
        return lambda rows: TENFOLD * rows.cell_priority + rows.free_milli
