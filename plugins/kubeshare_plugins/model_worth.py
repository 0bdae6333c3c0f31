"""Score and CardScore: cards of the models that the profile calls cheap, fast, or good value."""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from kubeshare_plugins.model_preference import best_card, best_cards, worst_of
from kubeshare_py.domain.gpu import name_part, names_model
from kubeshare_py.framework.card_groups import WORTHLESS, chosen_group, fitting_cards, nth_best
from kubeshare_py.plugin import (
    MAX_SCORE,
    ArgumentError,
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
    checked,
)

_Amount = Annotated[int, Meta(ge=1, le=10**9)]

#: Points per card on the scale of BinPack's card ranks, 0…1000.
_A_POINT = 10


class ModelValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model costs and how fast it is, in any units that are the same for all models."""

    price: _Amount
    speed: _Amount


def _cheapness(worth: ModelValue) -> Fraction:
    return Fraction(-worth.price)


def _speed(worth: ModelValue) -> Fraction:
    return Fraction(worth.speed)


def _value(worth: ModelValue) -> Fraction:
    return Fraction(worth.speed, worth.price)


_GOALS = {"cheapest": _cheapness, "fastest": _speed, "value": _value}


class ModelWorth:
    """100 points for the best model of the table, 0 for the worst and for unlisted models.

    The goal says what is best: `cheapest` of the cards that fit, `fastest`, or `value`, speed per
    price. Models in between get points in proportion. Several cards have the points of the worst of
    them. Names in the table are parts of model names (`ModelWish`); the first match counts.
    """

    name = "ModelWorth"
    normaliser: Normaliser | None = None

    def __init__(
        self, goal: str = "cheapest", models: Mapping[str, Mapping[str, int]] | None = None
    ) -> None:
        """Raises ArgumentError for an unknown goal or a bad entry."""
        if goal not in _GOALS:
            raise ArgumentError(f"goal: must be {' or '.join(_GOALS)}")
        given = checked({} if models is None else models, dict[str, object], "models")
        table: dict[str, Fraction] = {}
        for name, one in given.items():
            part = name_part(name)
            if part is None:
                raise ArgumentError(f"models[{name}]: must be the name of a model or words of it")
            table[part] = _GOALS[goal](checked(one, ModelValue, f"models[{name}]"))
        self._points = _in_proportion(table)

    def score(self, shape: Shape) -> RowScore | None:
        """For every pod that claims cards."""
        if not shape.claims or not self._points:
            return None
        points = ModelTable(self._points_of, empty=WORTHLESS)
        if shape.claim is not None and shape.claim.count == 1:
            return partial(best_card, points)
        return worst_of([_worst_card(claim, points) for claim in shape.claims])

    def card_score(self, shape: Shape) -> CardRank | CardPreselection | None:
        """The same for each card; of several cards, those that are worth most."""
        claim = shape.claim
        if claim is None or not self._points:
            return None
        points = ModelTable(self._points_of, empty=WORTHLESS)
        if claim.count > 1:
            return CardPreselection(partial(best_cards, claim.count, points))
        return lambda rows: np.maximum(points.of(rows), 0) * _A_POINT

    def _points_of(self, model: str) -> int:
        named = (points for part, points in self._points.items() if names_model(part, model))
        return next(named, 0)


def _worst_card(claim: GpuClaim, points: ModelTable) -> RowScore:
    """The points of the worst of a claim's best cards, of one group if it asks for one."""
    fitting_of, count = fitting_cards(claim), claim.count

    def worst_card(rows: Rows, cards: BestCards | None) -> IntArray:
        fitting = fitting_of(rows)
        if claim.one_model or claim.one_numa_node:
            fitting, _ = chosen_group(claim, fitting, None, rows)
        worst = nth_best(np.where(fitting, points.of(rows), WORTHLESS), count)
        return np.maximum(worst.ravel(), 0)

    return worst_card


def _in_proportion(worths: Mapping[str, Fraction]) -> dict[str, int]:
    """From 0 for the worst to 100 for the best; if all are equal, all get 100."""
    if not worths:
        return {}
    worst, best = min(worths.values()), max(worths.values())
    span = best - worst
    if not span:
        return dict.fromkeys(worths, MAX_SCORE)
    return {name: int(MAX_SCORE * (worth - worst) / span) for name, worth in worths.items()}
