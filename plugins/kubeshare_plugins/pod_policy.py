"""CardFilter, Score and CardScore: nodes and cards as the pod itself wishes them chosen.

Its dialect makes a `PlacementPolicy` of what the pod says, such as HAMi's annotations
`hami.io/node-scheduler-policy` and `hami.io/gpu-scheduler-policy`. The formulas are HAMi's
(pkg/scheduler/policy of github.com/Project-HAMi/HAMi), in integers. Plugins that are policies
themselves have no say about such pods.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.domain.request import Order
from kubeshare_py.plugin import (
    ABSENT,
    MAX_SCORE,
    BestCards,
    CardPredicate,
    CardRank,
    CardSetScore,
    IntArray,
    ReasonTable,
    Rows,
    RowScore,
    Shape,
    Shortfall,
)
from kubeshare_py.topology.card_sets import PositionSet

IN_USE = "GPU in use by other pods"
NO_SHARE_LEFT = "no share of GPU left"

#: How full a card or a node is: of each of the three parts so many units are all of it.
_FULL = 1 << 18
#: The digits of a rank: above each other are how full a card is, its NUMA node, and its slot.
_FILLS, _NUMAS, _SLOTS = 1 << 20, 1 << 12, 1 << 8
#: The most sets of cards that are compared one by one.
_MOST_SETS = 20_000


class PodPolicy:
    """Only for pods with a policy of their own.

    A card whose share is all taken is refused to claims without a share, because nothing would be
    left of its time.
    """

    name = "PodPolicy"
    only_for = ("policy",)

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        """Idle cards, if the policy wants them; cards with some share left for claims of none."""
        claim, policy = shape.claim, shape.policy
        if claim is None or policy is None or claim.exclusive:
            return None
        in_use = reasons.register(self.name, IN_USE) if policy.idle else 0
        no_share = reasons.register(self.name, NO_SHARE_LEFT) if not claim.milli else 0
        if not in_use and not no_share:
            return None

        def reasons_of(rows: Rows) -> IntArray:
            masks = (rows.tenants > 0) * in_use | (rows.free_milli <= 0) * no_share
            return np.where(rows.flags & ABSENT, 0, masks)

        return CardPredicate(lambda rows: reasons_of(rows) == 0, reasons_of)

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each card that is in use, or has no share left."""
        claim, policy = shape.claim, shape.policy
        if claim is None or policy is None or claim.exclusive:
            return
        for slot, uuid in enumerate(row.uuids[0]):
            if row.flags.item(0, slot) & ABSENT:
                continue
            if policy.idle and row.tenants.item(0, slot):
                yield Shortfall(reason=IN_USE, subject=uuid)
            if not claim.milli and row.free_milli.item(0, slot) <= 0:
                yield Shortfall(reason=NO_SHARE_LEFT, subject=uuid)

    def normaliser(self, raw: IntArray) -> IntArray:
        """From 0 for the worst row to 100 for the best, and less for every other, (k,) int64."""
        if not len(raw):
            return raw
        least, most = int(raw.min()), int(raw.max())
        points: IntArray = MAX_SCORE * (raw - least) // (most - least or 1)
        return points if most > least else np.full_like(raw, MAX_SCORE)

    def score(self, shape: Shape) -> RowScore | None:
        """How full the node's cards are, before the pod is placed, or how empty."""
        policy = shape.policy
        if policy is None or not shape.claims:
            return None
        sign = 1 if policy.node is Order.FULLEST else -1

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return sign * _node_fill(rows)

        return ask

    def card_score(self, shape: Shape) -> CardRank | CardSetScore | None:
        """The policy's orders; with `joined` a set of cards, or the card that others miss least."""
        policy, claim = shape.policy, shape.claim
        if policy is None or claim is None:
            return None
        rank = partial(_rank, policy.cards, policy.weights)
        if not policy.joined:
            return rank
        if claim.count == 1:
            return lambda rows: _least_missed(rows) * _SLOTS + _slots(rows)
        return CardSetScore(partial(_joined_best, claim.count, rank))


def _parts(rows: Rows) -> tuple[tuple[IntArray, IntArray], ...]:
    """What is taken of each card and what there is: pods, share and memory; (k, width) each."""
    return (
        (np.where(rows.max_tenants > 0, rows.tenants, 0), rows.max_tenants),
        (rows.capacity_milli - rows.free_milli, rows.capacity_milli),
        (rows.capacity_bytes - rows.free_bytes, rows.capacity_bytes),
    )


def _part_of(taken: IntArray, whole: IntArray) -> NDArray[np.float64]:
    """`taken` of `whole`, from 0 to 1; nothing is never full."""
    found: NDArray[np.float64] = taken / np.maximum(whole, 1)
    return np.minimum(np.maximum(found, 0), 1)  # clip() takes five times as long


def _in_units(fill: NDArray[np.float64]) -> IntArray:
    """The sum of parts in units of which `_FULL` are all of one part.

    Parts are not rounded before they are added: those with the same sum are equally full.
    """
    found: IntArray = np.rint(fill * _FULL).astype(np.int64)
    return found


def _node_fill(rows: Rows) -> IntArray:
    """How full all cards of each row are together, (k,)."""
    there = rows.flags & ABSENT == 0
    fill = np.zeros(len(there))
    for taken, whole in _parts(rows):
        fill += _part_of((taken * there).sum(1), (whole * there).sum(1))
    return _in_units(fill)


def _card_fill(rows: Rows, weights: tuple[int, int, int]) -> IntArray:
    """How full each card is, (k, width), from 0 to below `_FILLS`."""
    fill = np.zeros(rows.flags.shape)
    for weight, (taken, whole) in zip(weights, _parts(rows), strict=True):
        fill += weight * _part_of(taken, whole)
    return _in_units(fill * len(weights) / sum(weights))


def _rank(orders: tuple[Order, ...], weights: tuple[int, int, int], rows: Rows) -> IntArray:
    """The rank of each card by these orders, then by its slot, the highest first; (k, width)."""
    numa = np.minimum(np.maximum(rows.numa + 1, 0), _NUMAS - 1)
    rank: IntArray = np.zeros(rows.flags.shape, np.int64)
    for order in orders:
        if order in _BY_NUMA:
            rank = rank * _NUMAS + _BY_NUMA[order](numa)
        else:
            rank = rank * _FILLS + _BY_FILL[order](_card_fill(rows, weights))
    return rank * _SLOTS + _slots(rows)


def _slots(rows: Rows) -> IntArray:
    return np.arange(rows.flags.shape[1])


def _low_first(numa: IntArray) -> IntArray:
    return np.where(numa > 0, _NUMAS - numa, 0)


_BY_NUMA: Mapping[Order, Callable[[IntArray], IntArray]] = {
    Order.HIGH_NUMA: lambda numa: numa,
    Order.LOW_NUMA: _low_first,
}
_BY_FILL: Mapping[Order, Callable[[IntArray], IntArray]] = {
    Order.FULLEST: lambda fill: fill,
    Order.EMPTIEST: lambda fill: _FILLS - 1 - fill,
}


def _bandwidths(rows: Rows, number: int) -> IntArray:
    """Between the positions of a board, (count, count) int64."""
    board = rows.boards[number].board
    found: IntArray = np.array(board.bandwidth, np.int64).reshape(board.count, board.count)
    return found


def _positions(rows: Rows) -> IntArray:
    """Each card's position on its board, (k, width); -1 for a card on none."""
    exponents = np.frexp(rows.position_bit.astype(np.float64))[1].astype(np.int64)
    found: IntArray = exponents - 1
    return found


def _least_missed(rows: Rows) -> IntArray:
    """The less a card is joined to others that take pods, the more; (k, width)."""
    joined: IntArray = np.zeros(rows.flags.shape, np.int64)
    positions, usable = _positions(rows), rows.flags == 0
    for number in sorted({*rows.board.tolist()}):
        between = _bandwidths(rows, number)
        for line in np.flatnonzero(rows.board == number).tolist():
            slots = np.flatnonzero(usable[line] & (positions[line] >= 0))
            own = positions[line][slots]
            if len(own) and len(between):
                joined[line, slots] = between[np.ix_(own, own)].sum(1)
    most = joined.max(initial=0)
    missed: IntArray = most - joined
    return missed


def _joined_best(
    count: int, rank: CardRank, rows: Rows, fits: NDArray[np.bool_]
) -> tuple[int, ...]:
    """The set of cards with the most bandwidth between them; of equal ones the first by rank."""
    order = np.argsort(-rank(rows)[0], kind="stable")
    slots = [slot for slot in order.tolist() if fits[slot]]
    if comb(len(slots), count) > _MOST_SETS:
        return _of_board(count, rows, slots)
    positions = _positions(rows)[0]
    between = _bandwidths(rows, rows.board.item(0))

    def joined(chosen: tuple[int, ...]) -> int:
        own = [positions.item(slot) for slot in chosen if positions.item(slot) >= 0]
        return int(between[np.ix_(own, own)].sum()) if own and len(between) else 0

    return max(combinations(slots, count), key=joined)


def _of_board(count: int, rows: Rows, slots: list[int]) -> tuple[int, ...]:
    """The set that `Topology` would take, where there are too many to compare all."""
    bits: list[int] = rows.position_bit[0].tolist()
    there = PositionSet(sum(bits[slot] for slot in slots))
    chosen = rows.boards[rows.board.item(0)].choose(there, count)
    best = tuple(slot for slot in slots if bits[slot] & chosen)
    return best if len(best) == count else tuple(slots[:count])
