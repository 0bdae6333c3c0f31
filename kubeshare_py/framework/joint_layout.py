"""How several claims of one pod may share the cards of a node: what is tried, and the searches.

Searches are exact while there are few ways to try, and greedy beyond that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.domain.request import CardRelation, GpuClaim

# How several claims of one pod may share the cards of a node: what is tried, and in which code.
#
# Claims that ask alike are of one kind. The ways to use one card say how many units of each kind it
# takes. A state says how many units of each kind have a card, as one number: the sum of the counts,
# each times the kind's `step`. Adding a way's `code` to a state gives the next one.


#: Beyond so many states, or ways to use one card, placements are not searched exhaustively.
MAX_STATES, MAX_WAYS = 256, 128
_PAIR = 2
#: Exhaustive searches are promised up to so many claims; see `ClaimLayout.inexact`.
MAX_CLAIMS = 8


@dataclass(frozen=True, slots=True)
class Kind:
    """Units that are placed alike; each takes one card.

    `asks` are indices of distinct claims, of which one unit takes a share each. `claims` are the
    pod's claims, by index: each of them gets one of the units or, if `in_common`, all of them. One
    card takes at most `most` units.
    """

    asks: tuple[int, ...]
    claims: tuple[int, ...]
    units: int
    most: int
    in_common: bool


@dataclass(frozen=True, slots=True)
class Way:
    """A way to use one card: `counts` units of each kind, and the same as (kind, count) `parts`.

    `code` leads from one state to the next. `states` is the set of states from which it is
    possible, a bit for each. `is_shared`: several shares are put on the card.
    """

    counts: tuple[int, ...]
    parts: tuple[tuple[int, int], ...]
    code: int
    states: int
    is_shared: bool


@dataclass(frozen=True, slots=True)
class ClaimLayout:
    """The kinds of a pod's claims, and the ways to use one card.

    `claims` are the pod's, `distinct` its different ones. `complete` is the state in which all
    units have a card. `inexact` says why placements are not searched exhaustively, "" if they are;
    there are no ways then.
    """

    claims: tuple[GpuClaim, ...]
    distinct: tuple[GpuClaim, ...]
    relation: CardRelation
    kinds: tuple[Kind, ...]
    ways: tuple[Way, ...]
    complete: int
    inexact: str

    @property
    def is_pair(self) -> bool:
        """Whether there are two units in all, and no unit takes several shares."""
        is_joint = self.relation is CardRelation.SAME_CARD
        return not is_joint and sum(kind.units for kind in self.kinds) == _PAIR

    def slots(self, units: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The cards' slots, one claim after another, from those of each kind's units."""
        found: dict[int, tuple[int, ...]] = {}
        for kind, slots in zip(self.kinds, units, strict=True):
            for number, claim in enumerate(kind.claims):
                found[claim] = tuple(slots) if kind.in_common else (slots[number],)
        return tuple(slot for claim in sorted(found) for slot in found[claim])


def claim_layout(claims: Sequence[GpuClaim], relation: CardRelation) -> ClaimLayout:
    """The layout of a pod's claims."""
    distinct = tuple(dict.fromkeys(claims))
    kinds = tuple(_kinds(claims, distinct, relation))
    states = prod(kind.units + 1 for kind in kinds)
    ways: tuple[Way, ...] = ()
    if states <= MAX_STATES and _count_ways(kinds, distinct, relation) <= MAX_WAYS:
        ways = tuple(_ways(kinds, distinct, relation))
    inexact = ""
    if not ways:
        what = f"more than {MAX_CLAIMS} claims" if len(claims) > MAX_CLAIMS else "many ways"
        inexact = f"{what}: not searched exhaustively"
    return ClaimLayout(tuple(claims), distinct, relation, kinds, ways, states - 1, inexact)


def _kinds(
    claims: Sequence[GpuClaim], distinct: Sequence[GpuClaim], relation: CardRelation
) -> Iterator[Kind]:
    if relation is CardRelation.SAME_CARD:
        every = tuple(range(len(claims)))
        asks = tuple(distinct.index(claim) for claim in claims)
        yield Kind(asks, every, claims[0].count, most=1, in_common=True)
        return
    for number, claim in enumerate(distinct):
        alike = tuple(index for index, other in enumerate(claims) if other == claim)
        if claim.count == 1:
            shares = relation is CardRelation.FREE and not claim.exclusive
            most = len(alike) if shares else 1
            yield Kind((number,), alike, len(alike), most, in_common=False)
        else:
            yield from (
                Kind((number,), (index,), claim.count, most=1, in_common=True) for index in alike
            )


def _count_ways(kinds: Sequence[Kind], distinct: Sequence[GpuClaim], relation: CardRelation) -> int:
    """The number of ways, without making them."""
    if relation is not CardRelation.FREE:
        return len(kinds)
    sharing = [kind for kind in kinds if not _is_alone(kind, distinct)]
    return prod(kind.most + 1 for kind in sharing) - 1 + len(kinds) - len(sharing)


def _ways(
    kinds: Sequence[Kind], distinct: Sequence[GpuClaim], relation: CardRelation
) -> Iterator[Way]:
    steps = [prod(kind.units + 1 for kind in kinds[:number]) for number in range(len(kinds))]
    alone = [_is_alone(kind, distinct) for kind in kinds]
    for counts in product(*(range(kind.most + 1) for kind in kinds)):
        total = sum(counts)
        mixes = total > 1 and (
            relation is not CardRelation.FREE
            or any(count and one for count, one in zip(counts, alone, strict=True))
        )
        if not total or mixes:
            continue
        shares = sum(
            count * len(kind.asks) for count, kind in zip(counts, kinds, strict=True) if count
        )
        code = sum(count * step for count, step in zip(counts, steps, strict=True))
        parts = tuple((kind, count) for kind, count in enumerate(counts) if count)
        yield Way(counts, parts, code, _states_before(kinds, counts), shares > 1)


def _is_alone(kind: Kind, distinct: Sequence[GpuClaim]) -> bool:
    """Whether units of this kind share their cards with no other unit."""
    return any(distinct[number].exclusive for number in kind.asks)


def _states_before(kinds: Sequence[Kind], counts: Sequence[int]) -> int:
    """The states in which so many units of each kind have no card yet, a bit for each."""
    found, step = 1, 1
    for kind, count in zip(kinds, counts, strict=True):
        found = sum(found << placed * step for placed in range(kind.units - count + 1))
        step *= kind.units + 1
    return found


# Places several claims one after the other, the largest first: for claims beyond exact searches.
#
# A place that is found takes no more than there is. A row may be missed on which another order
# would have found one.


@dataclass(slots=True)
class UnitAmounts:
    """What one unit asks of each card, all (k, width): which fit, milli, bytes, and its rank."""

    fits: NDArray[np.bool_]
    milli: IntArray
    memory: IntArray
    worth: IntArray


class GreedyPlacement:
    """One attempt on k rows: `found` says which rows have a place, (k,) bool.

    `units` are the slots of each kind's units, (units, k) int64 for each kind; arbitrary on rows
    without a place.
    """

    def __init__(
        self, layout: ClaimLayout, amounts: Sequence[UnitAmounts], free: tuple[IntArray, IntArray]
    ) -> None:
        """`amounts` are those of the layout's kinds; `free` are milli and bytes, (k, width)."""
        self._layout = layout
        self._free_milli, self._free_bytes = (column.copy() for column in free)
        self._used = np.zeros_like(self._free_milli)
        self._closed = np.zeros(self._used.shape, np.bool_)
        self._lines = np.arange(len(self._used))
        self.found: NDArray[np.bool_] = np.ones(len(self._used), np.bool_)
        self.units: list[IntArray] = [np.zeros(0, np.int64) for _ in layout.kinds]
        for number in sorted(range(len(layout.kinds)), key=self._order):
            self.units[number] = self._placed(layout.kinds[number], amounts[number])

    def _order(self, number: int) -> tuple[bool, int, int, int]:
        """Exclusive claims first, then by what one unit asks, then by the number of units."""
        kind = self._layout.kinds[number]
        claim = self._layout.distinct[kind.asks[0]]
        return not claim.exclusive, -claim.milli, -(claim.memory_bytes or 0), -kind.units

    def _placed(self, kind: Kind, asked: UnitAmounts) -> IntArray:
        """Place the units of a kind; their slots, (units, k).

        Units that take a card each get the best ones at once, others one after the other.
        """
        if kind.most == 1:
            return self._on_best(asked, kind.units, self._is_alone(kind)).T
        return np.array([self._on_best(asked, 1, alone=False)[:, 0] for _ in range(kind.units)])

    def _is_alone(self, kind: Kind) -> bool:
        exclusive = self._layout.distinct[kind.asks[0]].exclusive
        return exclusive or self._layout.relation is CardRelation.DIFFERENT_CARDS

    def _on_best(self, asked: UnitAmounts, count: int, alone: bool) -> IntArray:
        """Take a unit each of the `count` best cards that have room; their slots, (k, count)."""
        may = asked.fits & ~self._closed
        if alone:
            may &= self._used == 0
        else:
            room = (self._free_milli >= asked.milli) & (self._free_bytes >= asked.memory)
            may &= (self._used == 0) | room
        if count > may.shape[1]:
            self.found[:] = False
            return np.zeros((len(may), count), np.int64)
        ranked = np.where(may, asked.worth, -1)
        slots: IntArray
        if count == 1:
            slots = ranked.argmax(1)[:, None]
        else:
            # (k, count): stable, so that of equal cards the lower slot is first, as argmax takes
            # it.
            slots = np.argsort(-ranked, axis=1, kind="stable")[:, :count]
        at = self._lines[:, None], slots
        self.found &= may[at].all(1)
        self._free_milli[at] -= asked.milli[at]
        self._free_bytes[at] -= asked.memory[at]
        self._used[at] += 1
        self._closed[at] |= alone
        return slots


# Exact searches for a place for several claims: which rows have one, and the best on one row.


BoolArray = NDArray[np.bool_]
#: Up to so many rows are searched one by one, which takes less time.
_FEW = 12
_WORD = 64
_ALL = (1 << _WORD) - 1

#: By which way each card was used: the earlier uses, the card's slot, and the way.
_Trail = tuple["_Trail", int, Way] | None


def possible(layout: ClaimLayout, allowed: Sequence[BoolArray]) -> BoolArray:
    """Which rows have a place for all claims, (k,) bool.

    `allowed` says for each way of the layout which cards may be used by it, (k, width) bool each.
    """
    rows = len(allowed[0])
    if rows <= _FEW:
        lines = zip(*(one.tolist() for one in allowed), strict=True)
        return np.array([_is_possible(layout, line) for line in lines], np.bool_)
    words = layout.complete // _WORD + 1
    reached: IntArray = np.zeros((words, rows), np.uint64)
    reached[0] = 1
    for slot in range(allowed[0].shape[1]):
        before = reached.copy()
        for way, may in zip(layout.ways, allowed, strict=True):
            usable = may[:, slot]
            if usable.any():
                _use(reached, before, way, usable)
    last, bit = divmod(layout.complete, _WORD)
    # (k,): whether the bit of the state in which every unit has a card is set. The numbers are
    # typed, because uint64 and int have no common type of integers in numpy.
    complete: BoolArray = reached[last] >> np.uint64(bit) & np.uint64(1) > 0
    return complete


def _is_possible(layout: ClaimLayout, allowed: Sequence[Sequence[bool]]) -> bool:
    """As `possible` for one row; `allowed` is (ways, width)."""
    reached, last = 1, 1 << layout.complete
    for usable in zip(*allowed, strict=True):
        before = reached
        for way, may in zip(layout.ways, usable, strict=True):
            if may:
                reached |= (before & way.states) << way.code
        if reached & last:
            return True
    return False


def _use(reached: IntArray, before: IntArray, way: Way, usable: BoolArray) -> None:
    """Add the states that a way leads to, on the rows whose card is usable.

    Both sets of states are (words, k) uint64, a bit for each state.
    """
    skipped, shift = divmod(way.code, _WORD)
    # A way adds its code to a state: all states, a bit each, move up by so many bits. What leaves a
    # word, (k,), at the top enters the next one at the bottom.
    zero, left, right = np.uint64(0), np.uint64(shift), np.uint64(_WORD - shift)
    for word in range(skipped, len(reached)):
        source = word - skipped
        moved = (before[source] & _word(way.states, source)) << left
        if shift and source:
            moved |= (before[source - 1] & _word(way.states, source - 1)) >> right
        reached[word] |= np.where(usable, moved, zero)


def _word(states: int, number: int) -> np.uint64:
    return np.uint64(states >> number * _WORD & _ALL)


def best_units(
    layout: ClaimLayout, allowed: Sequence[Sequence[bool]], worth: Sequence[Sequence[int]]
) -> list[list[int]] | None:
    """The slots of each kind's units with the highest sum of worth; None if there is no place.

    `allowed` is (ways, width) and `worth` of one unit on a card (kinds, width). Of places that are
    worth the same, the one with the lower slots.
    """
    reached: dict[int, tuple[int, _Trail]] = {0: (0, None)}
    for slot, usable in enumerate(zip(*allowed, strict=True)):
        if not any(usable):
            continue
        further = dict(reached)
        for way, may in zip(layout.ways, usable, strict=True):
            if not may:
                continue
            gain = 0
            for kind, count in way.parts:
                gain += count * worth[kind][slot]
            for state, (points, trail) in reached.items():
                if way.states >> state & 1:
                    known = further.get(state + way.code)
                    if known is None or known[0] < points + gain:
                        further[state + way.code] = points + gain, (trail, slot, way)
        reached = further
    end = reached.get(layout.complete)
    return None if end is None else _units(layout, end[1])


def _units(layout: ClaimLayout, trail: _Trail) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in layout.kinds]
    while trail is not None:
        trail, slot, way = trail
        for slots, count in zip(found, way.counts, strict=True):
            slots.extend([slot] * count)
    return [sorted(slots) for slots in found]
