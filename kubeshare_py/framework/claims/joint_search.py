"""Exact searches for a place for several claims: which rows have one, and the best on one row."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.framework.claims.joint_layout import ClaimLayout, Way

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
