"""Score and CardScore: cards of the models that the pod prefers."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.framework.card_groups import (
    WORTHLESS,
    chosen_group,
    fitting_cards,
    nth_best,
    tier_points,
)
from kubeshare_py.plugin import (
    WHOLE_MILLI,
    BestCards,
    CardPreselection,
    CardRank,
    GpuClaim,
    IntArray,
    ModelTable,
    Normaliser,
    Rows,
    RowScore,
    Shape,
)

#: The number of model names while the cluster has one model: "" for empty slots, and it.
_ONE_MODEL = 2


class ModelPreference:
    """100 points for the pod's first choice of models, 0 for the last one that it accepts.

    Several cards have the points of the worst of them. Among equally good cards that fit, cards of
    one model are taken if there are enough, of the model with the fewest cards on the node, even
    for pods that state no models.
    """

    name = "ModelPreference"
    only_for = (
        "claim.preferred",
        "claim.count",
    )
    normaliser: Normaliser | None = None

    def score(self, shape: Shape) -> RowScore | None:
        """Only for pods that prefer some models."""
        asked = [(claim, tier_points(claim.preferred)) for claim in shape.claims]
        preferring = [(claim, points) for claim, points in asked if points is not None]
        if not preferring:
            return None
        if shape.claim is not None and shape.claim.count == 1:
            return partial(best_card, preferring[0][1])
        return worst_of([_worst_card(claim, points) for claim, points in preferring])

    def card_score(self, shape: Shape) -> CardRank | CardPreselection | None:
        """Weighs more than policies for cards of one model."""
        claim = shape.claim
        if claim is None:
            return None
        points = tier_points(claim.preferred)
        if claim.count > 1:
            return CardPreselection(partial(_best_alike, claim.count, points))
        if points is None:
            return None
        return lambda rows: np.maximum(points.of(rows), 0) * WHOLE_MILLI


def worst_of(scores: Sequence[RowScore]) -> RowScore:
    """The lowest of several scores: those of a pod's claims."""

    def worst(rows: Rows, cards: BestCards | None) -> IntArray:
        points = scores[0](rows, cards)
        for score in scores[1:]:
            points = np.minimum(points, score(rows, cards))
        return points

    return worst


def _worst_card(claim: GpuClaim, points: ModelTable) -> RowScore:
    """The points of the worst of a claim's best cards."""
    fitting_of, count = fitting_cards(claim), claim.count

    def worst_card(rows: Rows, cards: BestCards | None) -> IntArray:
        fitting = fitting_of(rows)
        if claim.one_model or claim.one_numa_node:
            _, worst = chosen_group(claim, fitting, points, rows)
        else:
            worst = nth_best(np.where(fitting, points.of(rows), WORTHLESS), count)
        return np.maximum(worst.ravel(), 0)

    return worst_card


def best_card(points: ModelTable, rows: Rows, cards: BestCards | None) -> IntArray:
    """The points of each row's best card, (k,) int64."""
    assert cards is not None
    return np.maximum(cards.of(points.of(rows)), 0)


def best_cards(
    count: int, points: ModelTable, rows: Rows, fits: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The cards that are worth at least as much as the worst of the best `count`, (width,) bool.

    `rows` is one row, and `fits` has the shape (width,).
    """
    worth = np.where(fits, points.of(rows)[0], WORTHLESS)
    least = nth_best(worth[np.newaxis], count).item()
    return fits & (worth >= least)


def _best_alike(
    count: int, points: ModelTable | None, rows: Rows, fits: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Among the best cards those of one model, if there are enough of it."""
    codes, names = rows.models()
    if len(names) <= _ONE_MODEL:
        return fits
    worth = np.zeros_like(codes[0])
    if points is not None:
        worth, fits = points.of(rows)[0], best_cards(count, points, rows, fits)
    enough = []
    for code in np.unique(codes[0][fits]).tolist():
        alike = fits & (codes[0] == code)
        if alike.sum() >= count:
            enough.append((-worth[alike].max(), alike.sum(), code))
    if enough:
        chosen: NDArray[np.bool_] = fits & (codes[0] == min(enough)[2])
        return chosen
    if points is None:
        return fits
    # No model has enough: all better cards, and as many of the worst as needed.
    taken = np.zeros_like(fits)
    taken[np.lexsort((-worth, ~fits))[:count]] = True
    return taken
