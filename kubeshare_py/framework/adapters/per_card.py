"""Card filters and card scores from one plain function of one card.

Python is called for each card: the first question about a shape is one call per card of the
cluster, later ones are one per card of each row that changed (docs/plugins.md has numbers). A
plugin that proves itself is better written in columns (see `points`).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.adapters.node_state import (
    CardState,
    NodeState,
    checked_fit,
    checked_points,
    each_node,
)
from kubeshare_py.framework.boundary import PLUGIN_ERRORS, WrongAnswer, in_words
from kubeshare_py.framework.points import CardPredicate, CardRank
from kubeshare_py.framework.reasons import ReasonTable


class PerCardFilter:
    """A card filter from a function that says whether a card may hold one share of the claim.

    `reason` is what people read where it may not ("GPU is too hot"); `resolvable` says whether
    evicting pods could help. The function must be pure. It is asked about every card in the
    inventory, also about those that other filters refuse.
    """

    def __init__(
        self,
        name: str,
        fits: Callable[[Shape, NodeState, CardState], bool],
        *,
        reason: str,
        resolvable: bool = False,
    ) -> None:
        self.name = name
        self._fits = fits
        self._reason = reason
        self._resolvable = resolvable

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Put the function to each card."""
        mask = reasons.register(self.name, self._reason, resolvable=self._resolvable)

        def masks(rows: Rows) -> IntArray:
            def missed(node: NodeState, card: CardState) -> int:
                return 0 if checked_fit(self._fits(shape, node, card)) else mask

            # An empty slot must not be a nearer miss than a card. On a node without cards, other
            # filters have the nearer reason.
            return _each(rows, missed, empty=mask)

        def fits(rows: Rows) -> NDArray[np.bool_]:
            fitting: NDArray[np.bool_] = masks(rows) == 0
            return fitting

        return CardPredicate(fits, masks)


class PerCardScore:
    """A card score from a function that says how good a card is for a shape, 0…100.

    Answers outside of that range are cut. The function must be pure. It is asked about every card
    in the inventory, also about those on which the shape does not fit.
    """

    def __init__(self, name: str, points: Callable[[Shape, NodeState, CardState], int]) -> None:
        self.name = name
        self._points = points

    def card_score(self, shape: Shape) -> CardRank | None:
        """Put the function to each card."""

        def points(node: NodeState, card: CardState) -> int:
            return checked_points(self._points(shape, node, card))

        return lambda rows: _each(rows, points, empty=0)


def _each(rows: Rows, answer: Callable[[NodeState, CardState], int], empty: int) -> IntArray:
    """The answer for every card, (k, width); `empty` for other slots of nodes that have cards."""
    answers = np.zeros(rows.flags.shape, np.int64)

    def ask(at: int, node: NodeState) -> None:
        cards = node.cards_by_slot()
        if cards:
            answers[at] = empty
        for slot, card in cards.items():
            try:
                answers[at, slot] = answer(node, card)
            except PLUGIN_ERRORS as error:
                raise WrongAnswer(f"card {card.uuid}: {in_words(error)}") from error

    each_node(rows, ask)
    return answers
