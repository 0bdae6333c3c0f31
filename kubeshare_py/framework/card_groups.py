"""Groups of cards with something in common, for claims of several cards.

A group is all cards of a row with one model, one NUMA node, or both. Shapes: (k, width) for the
cards of k rows.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.claim_fit import ModelTable, fits_claim, fits_model, fits_uuid
from kubeshare_py.framework.points import CardPredicate
from kubeshare_py.framework.scores import MAX_SCORE

#: The group of cards in no group, and that of rows in which no group has enough cards.
NO_GROUP, NONE_CHOSEN = -1, -2
#: The worth of a card that does not count.
WORTHLESS = -1

Fitting = Callable[[Rows], NDArray[np.bool_]]


def tier_points(preferred: PreferredModels | None) -> ModelTable | None:
    """100 for models of the first tier, 0 for the last; None if they have no order."""
    if preferred is None or len(preferred.tiers) <= 1:
        return None
    last = len(preferred.tiers) - 1

    def points(model: str) -> int:
        tier = preferred.tier(model)
        return WORTHLESS if tier is None else MAX_SCORE * (last - tier) // last

    return ModelTable(points, empty=WORTHLESS)


def fitting_cards(claim: GpuClaim) -> Fitting:
    """Which cards could hold one share of the claim, as GpuFit, GpuModel and GpuUuids decide."""
    parts = [part for part in (fits_model(claim), fits_uuid(claim)) if part is not None]
    fits = fits_claim(claim)
    if not parts:
        return fits

    def all_fit(rows: Rows) -> NDArray[np.bool_]:
        found = fits(rows)
        for part in parts:
            found = found & part(rows)
        return found

    return all_fit


def nth_best(worth: IntArray, count: int) -> IntArray:
    """The worth of each row's count-th best card, (k, 1) int64; WORTHLESS if it has fewer.

    `worth` is (k, width) int64.
    """
    width = worth.shape[1]
    if count > width:
        return np.full((len(worth), 1), WORTHLESS, np.int64)
    at = width - count
    # (k, 1): partition puts only entry `at` where sorting would, in time linear in width.
    nth: IntArray = np.partition(worth, at, axis=1)[:, at : at + 1]
    return nth


def chosen_group(
    claim: GpuClaim, fitting: NDArray[np.bool_], points: ModelTable | None, rows: Rows
) -> tuple[NDArray[np.bool_], IntArray]:
    """The cards of each row's best group that has enough fitting cards, (k, width) bool.

    `fitting` has the same shape. Groups are as the claim asks: of one NUMA node, of one model, or
    of both. The best group is the one whose worst card is best, then the one with the fewest cards.
    Also returns the worth of that worst card, (k, 1) int64.
    """
    groups = _groups(claim, rows)
    worth = np.zeros_like(groups) if points is None else points.of(rows)
    lines = (len(groups), 1)
    chosen = np.full(lines, NONE_CHOSEN, np.int64)
    best = np.full(lines, WORTHLESS, np.int64)
    fewest = np.zeros(lines, np.int64)
    for number in np.unique(groups[groups > NO_GROUP]).tolist():
        there = fitting & (groups == number)
        cards = there.sum(1, keepdims=True)
        worst = nth_best(np.where(there, worth, WORTHLESS), claim.count)
        better = (cards >= claim.count) & ((worst > best) | ((worst == best) & (cards < fewest)))
        chosen[better], best[better], fewest[better] = number, worst[better], cards[better]
    return groups == chosen, best


def in_one_group(claim: GpuClaim, mask: int) -> CardPredicate:
    """A question that leaves the cards of each row's best group.

    If too few cards fit altogether, all are left, because another filter gives that reason.
    """
    fitting_of, points = fitting_cards(claim), tier_points(claim.preferred)

    def fits(rows: Rows) -> NDArray[np.bool_]:
        fitting = fitting_of(rows)
        allowed, _ = chosen_group(claim, fitting, points, rows)
        few: NDArray[np.bool_] = fitting.sum(1, keepdims=True) < claim.count
        return allowed | few

    return CardPredicate(fits, lambda rows: np.where(fits(rows), 0, mask))


def too_few(claim: GpuClaim, row: Rows, groups: IntArray, reason: str) -> Iterator[Shortfall]:
    """The number of fitting cards in the largest group, if more cards fit in other groups.

    `row` is one row, and `groups` the number of each of its cards' group, (1, width); numbers below
    0 are no group.
    """
    fitting = fitting_cards(claim)(row)
    there = groups[fitting]
    # (fitting cards,): `unique` counts each group; the largest counts.
    most = max(np.unique(there[there > NO_GROUP], return_counts=True)[1].tolist(), default=0)
    if most < claim.count <= fitting.sum():
        yield Shortfall(reason=reason, resource="gpu", asked=claim.count, free=most, unit="count")


def _groups(claim: GpuClaim, rows: Rows) -> IntArray:
    """The group of each card, (k, width); a card whose model or NUMA node is unknown has none."""
    numa = rows.numa
    if not claim.one_model:
        return numa
    codes, names = rows.models()
    named = np.array([bool(name) for name in names])[codes]
    if not claim.one_numa_node:
        return np.where(named, codes, NO_GROUP)
    # (k, width): one number for each pair of NUMA node and model, as codes are below len(names).
    return np.where(named & (numa > NO_GROUP), numa * len(names) + codes, NO_GROUP)
