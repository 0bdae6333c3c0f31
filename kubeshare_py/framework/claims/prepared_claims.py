"""One profile's questions about several claims of one pod, which are placed together."""

from collections.abc import Sequence

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows, read_only
from kubeshare_py.domain.request import CardRelation
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.claims.claim_fit import asked_bytes, asked_milli, headroom_together
from kubeshare_py.framework.claims.joint_greedy import GreedyPlacement, UnitAmounts
from kubeshare_py.framework.claims.joint_layout import ClaimLayout, Kind, Way
from kubeshare_py.framework.claims.joint_search import BoolArray, best_units, possible
from kubeshare_py.framework.claims.prepared_claim import CARD_FILTER, PreparedClaim
from kubeshare_py.framework.claims.taken_cards import TakenCards
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.topology.gang_context import GangContext

NOT_TOGETHER = "too little GPU for all of its containers together"
#: From so many ways on, rows are compared before they are searched.
_MANY_WAYS = 16
#: So many uses of one card by one way cost as much as asking about one row.
_USES_OF_ROW = 50
#: Placing one unit of claims that are not searched costs as much as so many uses.
_USES_OF_UNIT = 4


class PreparedClaims:
    """Several claims: each is asked about alone, and then it is searched for a place for all.

    A row has a place if each claim's cards fit it, and if what claims take of one card together is
    free there. Arrays have the shape (k,) for k rows, or (k, width) for their cards.
    """

    __slots__ = ("_layout", "_milli_of", "_reasons", "claims", "in_turn")

    def __init__(
        self,
        layout: ClaimLayout,
        claims: Sequence[PreparedClaim],
        reasons: ReasonTable,
        *,
        in_turn: bool = False,
    ) -> None:
        """`claims` are the layout's distinct ones.

        `in_turn`: each claim's cards are the best ones once the claims before it have theirs, if
        all get a place in this way.
        """
        self._layout, self._reasons = layout, reasons
        self.in_turn = in_turn
        self.claims = claims
        self._milli_of = [asked_milli(one.claim) for one in claims]

    def cost(self, rows: int, width: int) -> int:
        """The cost, in rows, of searching so many rows for a place."""
        layout = self._layout
        units = sum(min(kind.units, width * kind.most) for kind in layout.kinds)
        return rows * width * (len(layout.ways) or _USES_OF_UNIT * units) // _USES_OF_ROW

    def fits(self, rows: Rows) -> BoolArray:
        """Which rows have a place for all claims, (k,) bool."""
        layout = self._layout
        by_kind = self._by_kind([one.card_fits(rows) for one in self.claims])
        counts: IntArray = np.array([fits.sum(1) for fits in by_kind])
        least = np.array([[-(-kind.units // kind.most)] for kind in layout.kinds])
        found: BoolArray = np.all(counts >= least, axis=0)
        if not found.any():
            return found
        open_rows = found & ~_apart(layout, counts) if layout.ways else found
        if (not layout.ways or len(layout.ways) > _MANY_WAYS) and open_rows.any():
            # Nearly always the first attempt finds a place, or too little is free in all.
            found &= headroom_together(layout.claims, rows) > 0
            tried = np.flatnonzero(open_rows & found)
            placed = self._greedy(rows, by_kind, tried).found
            if not layout.ways:
                found[tried] = placed
                return found
            open_rows &= found
            open_rows[tried[placed]] = False
        lines = np.flatnonzero(open_rows)
        if len(lines):
            found[lines] = self._search(rows, by_kind, lines)
        return found

    def _search(self, rows: Rows, by_kind: Sequence[BoolArray], lines: IntArray) -> BoolArray:
        """Which of these lines of the rows have a place, searched exactly; (lines,) bool."""
        layout = self._layout
        if not layout.is_pair:
            return possible(layout, self._allowed(rows, by_kind, layout.ways, lines))
        two_cards: BoolArray = np.logical_or.reduce(by_kind).take(lines, 0).sum(1) > 1
        ways = [way for way in layout.ways if way.code == layout.complete]
        for shared in self._allowed(rows, by_kind, ways, lines):
            two_cards |= shared.any(1)
        return two_cards

    def best_slots(self, rows: Rows, gang_context: GangContext | None = None) -> tuple[int, ...]:
        """The best cards of this one row, where there is a place: slots, one claim after another.

        Claims whose cards are chosen as a set get their best sets first, if the others then still
        have a place. Raises PluginFailed.
        """
        slots = self._slots_in_turn(rows, gang_context) if self.in_turn else None
        if slots is not None:
            return slots
        fits = [one.card_fits(rows) for one in self.claims]
        narrowed, every = self._narrowed(rows, fits, gang_context), self._by_kind(fits)
        # The row was found without a context: with one, a search that is not exact may end wrong.
        attempts = ((narrowed, gang_context), (every, gang_context), (every, None))
        for by_kind, context in attempts:
            units = None if by_kind is None else self._units(rows, by_kind, context)
            if units is not None:
                return self._layout.slots(units)
        raise PluginFailed(CARD_FILTER, CARD_FILTER, "answers differ about the same cards")

    def card_reasons(self, rows: Rows) -> IntArray:
        """The mask of each row without a place, (k,).

        What single claims lack, or that they do not fit together.
        """
        masks: IntArray = np.zeros(len(rows.index), np.int64)
        for one in self.claims:
            masks |= one.card_reasons(rows)
        inexact = f" ({self._layout.inexact})" if self._layout.inexact else ""
        together = self._reasons.register("framework", f"{NOT_TOGETHER}{inexact}")
        return np.where(masks, masks, together)

    def may_fit_later(self, rows: Rows) -> BoolArray:
        """Which rows have cards enough for each claim alone that evictions could free, (k,)."""
        found: BoolArray = np.ones(len(rows.index), np.bool_)
        for one in self.claims:
            found &= one.may_fit_later(rows)
        return found

    # --- inside --------------------------------------------------------------------------------

    def _slots_in_turn(
        self, rows: Rows, gang_context: GangContext | None
    ) -> tuple[int, ...] | None:
        """One claim after another on this one row; None if one of them gets no place so."""
        found: list[int] = []
        taken = TakenCards(rows)
        for claim in self._layout.claims:
            number = self._layout.distinct.index(claim)
            asked, left = self.claims[number], taken.rows()
            if asked.card_fits(left).sum() < asked.count:
                return None
            slots = asked.best_slots(left, gang_context)
            milli = self._milli_of[number](rows)
            taken.take(slots, milli, asked_bytes(claim, milli, rows), exclusive=claim.exclusive)
            found += slots
        return tuple(found)

    def _of_kind(self, kind: Kind, fits: Sequence[BoolArray]) -> BoolArray:
        """Which cards one unit fits, (k, width)."""
        found = fits[kind.asks[0]]
        for number in kind.asks[1:]:
            found = found & fits[number]
        return found

    def _by_kind(self, fits: Sequence[BoolArray]) -> list[BoolArray]:
        return [self._of_kind(kind, fits) for kind in self._layout.kinds]

    def _allowed(
        self,
        rows: Rows,
        single: Sequence[BoolArray],
        ways: Sequence[Way],
        lines: IntArray | None = None,
    ) -> list[BoolArray]:
        """For each of these ways the cards that may be used so, (k, width) each.

        `single` are those that one unit of each kind fits. Only these `lines` of the rows count.
        """
        milli = [of(rows) for of in self._milli_of]
        memory = [
            asked_bytes(one.claim, taken, rows)
            for one, taken in zip(self.claims, milli, strict=True)
        ]
        free_milli, free_bytes = rows.free_milli, rows.free_bytes
        if lines is not None:
            free_milli, free_bytes = free_milli.take(lines, 0), free_bytes.take(lines, 0)
            single = [one.take(lines, 0) for one in single]
            milli, memory = ([_lines_of(one, lines) for one in part] for part in (milli, memory))
        return [self._may(way, single, free_milli, free_bytes, milli, memory) for way in ways]

    def _may(
        self,
        way: Way,
        single: Sequence[BoolArray],
        free_milli: IntArray,
        free_bytes: IntArray,
        milli: Sequence[IntArray | int],
        memory: Sequence[IntArray | int],
    ) -> BoolArray:
        found: BoolArray | None = None
        all_milli: IntArray | int = 0
        all_bytes: IntArray | int = 0
        for kind, fits, count in zip(self._layout.kinds, single, way.counts, strict=True):
            if count:
                found = fits if found is None else found & fits
                for number in kind.asks:
                    all_milli = all_milli + count * milli[number]
                    all_bytes = all_bytes + count * memory[number]
        assert found is not None
        if not way.is_shared:
            return found
        return found & (free_milli >= all_milli) & (free_bytes >= all_bytes)

    def _narrowed(
        self, rows: Rows, fits: Sequence[BoolArray], gang_context: GangContext | None
    ) -> list[BoolArray] | None:
        """The cards of each kind, (1, width), once claims with sets have theirs; None if too few.

        None also if no claim's cards are chosen as a set.
        """
        found = self._by_kind(fits)
        asked = [self.claims[kind.asks[0]] for kind in self._layout.kinds]
        if not any(one.among or one.best_set for one in asked):
            return None
        for number, (kind, one) in enumerate(zip(self._layout.kinds, asked, strict=True)):
            if kind.units != one.count or not (one.among or one.best_set):
                continue
            if found[number].sum() < one.count:
                return None
            left = one.preselected(rows, read_only(found[number][0]))
            slots = one.best_set_of(rows, left, gang_context)
            if slots is None:
                found[number] = left[None]
                continue
            chosen = np.zeros_like(left)
            chosen[list(slots)] = True
            for other, there in enumerate(found):
                found[other] = chosen[None] if other == number else there & ~chosen
        return found

    def _units(
        self, rows: Rows, by_kind: Sequence[BoolArray], gang_context: GangContext | None
    ) -> Sequence[Sequence[int]] | None:
        """The slots of each kind's units on this one row; None if there is no place."""
        layout = self._layout
        if not layout.ways:
            found = self._greedy(rows, by_kind, np.zeros(1, np.int64), gang_context)
            return [slots[:, 0].tolist() for slots in found.units] if found.found[0] else None
        worth = self._worth(rows, by_kind, gang_context)
        return best_units(
            layout,
            [one[0].tolist() for one in self._allowed(rows, by_kind, layout.ways)],
            [points[0].tolist() for points in worth],
        )

    def _worth(
        self, rows: Rows, by_kind: Sequence[BoolArray], gang_context: GangContext | None
    ) -> list[IntArray]:
        """The rank of each card for one unit of each kind, (k, width) each."""
        found = []
        for kind, fits in zip(self._layout.kinds, by_kind, strict=True):
            points: IntArray = np.zeros(fits.shape, np.int64)
            for number in kind.asks:
                points = points + self.claims[number].worth(rows, fits, gang_context)
            found.append(points)
        return found

    def _greedy(
        self,
        rows: Rows,
        by_kind: Sequence[BoolArray],
        lines: IntArray,
        gang_context: GangContext | None = None,
    ) -> GreedyPlacement:
        """Place these lines of the rows; for kinds that ask for one claim."""
        amounts = []
        worth = self._worth(rows, by_kind, gang_context)
        for kind, fits, points in zip(self._layout.kinds, by_kind, worth, strict=True):
            [number] = kind.asks
            milli = self._milli_of[number](rows)
            memory = asked_bytes(self.claims[number].claim, milli, rows)
            each, bytes_each = (
                np.broadcast_to(part, fits.shape).take(lines, 0) for part in (milli, memory)
            )
            amounts.append(
                UnitAmounts(fits.take(lines, 0), each, bytes_each, points.take(lines, 0))
            )
        free = rows.free_milli.take(lines, 0), rows.free_bytes.take(lines, 0)
        return GreedyPlacement(self._layout, amounts, free)


def _lines_of(asked: IntArray | int, lines: IntArray) -> IntArray | int:
    """What is asked of the cards of these lines; one number stays what it is."""
    return asked if isinstance(asked, int) else asked.take(lines, 0)


def _apart(layout: ClaimLayout, counts: IntArray) -> BoolArray:
    """Where each unit can have a card of its own, whatever is chosen for the others, (k,) bool.

    `counts`, (kinds, k), are the cards that one unit of each kind fits. Not found are rows where
    that depends on the choice, or on what claims of the same card take together.
    """
    if layout.relation is CardRelation.SAME_CARD:
        return np.zeros(counts.shape[1], np.bool_)
    units = np.array([kind.units for kind in layout.kinds])
    order = np.argsort(counts, 0, kind="stable")
    needed = np.cumsum(units.take(order), 0)
    apart: BoolArray = np.all(np.take_along_axis(counts, order, 0) >= needed, axis=0)
    return apart
