"""One profile's questions about the cards of a pod's claims, prepared once and put to rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import HELD_BACK, IntArray
from kubeshare_py.cluster.derived import flags_of, room
from kubeshare_py.cluster.rows import Rows, read_only
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.mypyc_hints import mypyc_attr
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import CardRelation
from kubeshare_py.framework import answer_checks
from kubeshare_py.framework.boundary import Boundary, PluginFailed, PreFilters
from kubeshare_py.framework.claim_fit import asked_bytes, asked_for, asked_milli, headroom_together
from kubeshare_py.framework.joint_layout import (
    BoolArray,
    ClaimLayout,
    GreedyPlacement,
    Kind,
    UnitAmounts,
    Way,
    best_units,
    possible,
)
from kubeshare_py.framework.points import (
    MAX_KEPT,
    PLACES,
    ByHeadroom,
    CardPredicate,
    CardPreselection,
    CardRank,
    CardScore,
    CardSetScore,
)
from kubeshare_py.framework.reasons import NO_CARD, NO_USABLE_GPU, TOO_FEW_GPUS, ReasonTable
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.topology.card_sets import GangContext, PositionSet

# One row of the cluster while the claims of one pod take its cards, one after another.
#
# The tables do not change: these are the few columns of the cards that differ then.


class TakenCards:
    """What claims took of the cards of `base`, which is one row."""

    def __init__(self, base: Rows) -> None:
        self._base = base
        shape = base.flags.shape
        self._milli: IntArray = np.zeros(shape, np.int64)
        self._bytes: IntArray = np.zeros(shape, np.int64)
        #: How many claims have a part of each card, and how many all of it; (1, width).
        self._uses: IntArray = np.zeros(shape, np.int64)
        self._exclusive: IntArray = np.zeros(shape, np.int64)

    def take(
        self,
        slots: Sequence[int],
        milli: IntArray | int,
        memory: IntArray | int,
        *,
        exclusive: bool,
    ) -> None:
        """A claim takes these cards: `milli` and `memory` (bytes) of each, (1, width) or one
        number.
        """
        at = list(slots)
        for total, asked in ((self._milli, milli), (self._bytes, memory)):
            total[0, at] += np.broadcast_to(asked, total.shape)[0, at]
        self._uses[0, at] += 1
        self._exclusive[0, at] += int(exclusive)

    def rows(self) -> Rows:
        """The row as it is for the next claim; a claim counts as a pod of its own."""
        base = self._base
        if not self._uses.any():
            return base
        tenants, exclusive = base.tenants + self._uses, base.exclusive + self._exclusive
        # Cards stay held back: which ones, the tables know.
        flags = base.flags & HELD_BACK | flags_of(
            base.flags, tenants, base.max_tenants, exclusive, base.excluding
        )
        free_milli, free_bytes = base.free_milli - self._milli, base.free_bytes - self._bytes
        with_share = np.maximum(base.share_bytes, 1)
        headroom, share_headroom, idle = room(
            flags, tenants, free_milli, free_bytes, with_share, np.minimum
        )
        # The rules of the tables, for (1, width): idle positions are different bits, so their sum
        # is a set.
        return _WithoutTaken(
            base,
            tenants=tenants,
            exclusive=exclusive,
            flags=flags,
            free_milli=free_milli,
            free_bytes=free_bytes,
            headroom=headroom,
            share_headroom=share_headroom,
            idle=idle,
            idle_cards=(idle * base.position_bit).sum(1),
            break_order=base.break_order * idle,
        )


@mypyc_attr(native_class=False)
class _WithoutTaken(Rows):
    """The row `base` with other values of some columns."""

    __slots__ = ()

    def __init__(self, base: Rows, **columns: NDArray[Any]) -> None:
        super().__init__(base._columns, None)
        self.__dict__["base"] = base
        for name, values in columns.items():
            values.setflags(write=False)
            self.__dict__[name] = values

    @property
    def index(self) -> IntArray:
        """The number of the row in the tables, (1,)."""
        base: Rows = self.__dict__["base"]
        return base.index

    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        return column.take(self.index, 0)

    def _take(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = getattr(self.__dict__["base"], name)
        return values.view()


# One profile's questions about the cards of one claim, prepared once and put to rows.


C = TypeVar("C")
CARD_FILTER, CARD_SCORE = "CardFilter", "CardScore"


class PreparedClaim:
    """One profile's card filters and card scores, prepared for one claim of a shape.

    Arrays have the shape (k,) for k rows, or (k, width) for their cards; numbers are int64.
    """

    __slots__ = (
        "_boundary",
        "_profile",
        "_reasons",
        "among",
        "best_set",
        "by_room",
        "cards",
        "claim",
        "count",
        "keeps",
        "ranks",
    )

    def __init__(
        self,
        profile: Profile,
        shape: Shape,
        before: PreFilters,
        boundary: Boundary,
        reasons: ReasonTable,
    ) -> None:
        """`shape` has one claim, and `before` its PreFilter values. Raises PluginFailed."""
        claim = shape.claim
        assert claim is not None
        self._profile, self._boundary, self._reasons = profile, boundary, reasons
        self.claim = claim
        self.count = claim.count
        self.cards: list[CardPredicate] = []
        self.ranks: list[tuple[CardRank, int, object | None]] = []
        self.best_set: CardSetScore | None = None
        self.among: list[CardPreselection] = []
        #: Whether the column `break_order` orders equal idle cards.
        self.keeps = False
        self._prepare_card_filters(shape, before)
        self._prepare_ranks(shape, before)
        self.by_room = self._by_headroom() if self.count == 1 else None

    def _prepare_card_filters(self, shape: Shape, before: PreFilters) -> None:
        call, guarded, reasons = self._boundary.call, self._boundary.guarded, self._reasons
        masks = answer_checks.card_masks(lambda: reasons.registered)
        for plugin in self._profile.card_filters:
            if not self._profile.asks(plugin, shape):
                continue
            question = call(
                plugin,
                CARD_FILTER,
                answer_checks.card_predicate,
                plugin.card_filter,
                shape,
                reasons,
                *before.arguments(plugin),
            )
            if question is not None:
                fits = self._if_checked(plugin, answer_checks.card_fits)
                lacks = self._if_checked(plugin, masks)
                self.cards.append(
                    replace(
                        question,
                        fits=guarded(plugin, CARD_FILTER, fits, question.fits),
                        reasons=guarded(plugin, CARD_FILTER, lacks, question.reasons),
                    )
                )

    def _prepare_ranks(self, shape: Shape, before: PreFilters) -> None:
        guarded, count = self._boundary.guarded, self.count
        for plugin, weight in self._profile.card_scores:
            if not self._profile.asks(plugin, shape):
                continue
            rank = self._boundary.call(
                plugin,
                CARD_SCORE,
                answer_checks.card_rank,
                plugin.card_score,
                shape,
                *before.arguments(plugin),
            )
            if isinstance(rank, CardSetScore):
                self.best_set = self.best_set or self._guarded_set(plugin, rank)
            elif isinstance(rank, CardPreselection):
                stay = self._if_checked(
                    plugin, lambda answer, rows, fits: answer_checks.left(answer, count, fits)
                )
                preselect = guarded(plugin, CARD_SCORE, stay, rank.preselect)
                self.among.append(CardPreselection(asked_for(self.claim, preselect)))
            elif isinstance(rank, ByHeadroom):
                self.keeps |= rank.keeps
                self.ranks.append((asked_for(self.claim, rank), weight, None))
            elif rank is not None:
                numbers = self._if_checked(plugin, answer_checks.card_numbers)
                suspect = None if numbers is None else plugin
                rank = guarded(plugin, CARD_SCORE, numbers, rank)
                self.ranks.append((asked_for(self.claim, rank), weight, suspect))

    def _guarded_set(self, plugin: CardScore, best: CardSetScore) -> CardSetScore:
        guarded, count, near = self._boundary.guarded, self.count, best.near_gang

        def check(
            answer: object,
            rows: Rows,
            fits: NDArray[np.bool_],
            gang_context: GangContext | None = None,
        ) -> str | None:
            return answer_checks.slots(answer, count, fits)

        chosen = self._if_checked(plugin, check)
        choose = asked_for(self.claim, guarded(plugin, CARD_SCORE, chosen, best.choose))
        if near is None:
            return CardSetScore(choose)
        near = asked_for(self.claim, guarded(plugin, CARD_SCORE, chosen, near))
        return CardSetScore(choose, near)

    def _by_headroom(self) -> IntArray | None:
        """Ranks by room, (1002,), if room alone decides.

        The last entry, -1, is for cards without room.
        """
        least = [question.least_headroom for question in self.cards]
        table = np.zeros(WHOLE_MILLI + 2, np.int64)
        for rank, weight, _ in self.ranks:
            if not isinstance(rank, ByHeadroom):
                return None
            table[:-1] += weight * rank.ranks
        if not least or None in least:
            return None
        if self.keeps:
            table = table * PLACES + MAX_KEPT
        table[: max(one for one in least if one is not None)] = -NO_CARD
        table[-1] = -NO_CARD
        return table

    def _if_checked(self, plugin: object, check: C) -> C | None:
        """The check, unless the plugin's answers are trusted."""
        return None if self._profile.trusts(plugin) else check

    # --- answers -------------------------------------------------------------------------------

    def card_fits(self, rows: Rows) -> NDArray[np.bool_]:
        """Which cards of the rows fit, (k, width) bool."""
        if not self.cards:
            unflagged: NDArray[np.bool_] = rows.flags == 0
            return unflagged
        fits = self.cards[0].fits(rows)
        for question in self.cards[1:]:
            fits = fits & question.fits(rows)
        return fits

    def card_reasons(self, rows: Rows) -> IntArray:
        """The mask of each row's count-th nearest card, (k,): 0 exactly if `count` cards fit."""
        combined = self.combined_reasons(rows)
        if self.count > combined.shape[1]:
            few = self._reasons.register("framework", TOO_FEW_GPUS, resolvable=False)
            return np.full(len(rows.index), few, np.int64)
        # (k,) of (k, width): the smallest masks are the nearest cards; 0 comes first, where one
        # fits.
        nth: IntArray = np.partition(combined, self.count - 1, axis=1)[:, self.count - 1]
        return nth

    def combined_reasons(self, rows: Rows) -> IntArray:
        """The mask of each card of the rows, (k, width)."""
        combined = np.zeros_like(rows.flags)
        for question in self.cards:
            combined |= question.reasons(rows)
        if not self.cards:
            useless = self._reasons.register("framework", NO_USABLE_GPU)
            combined = np.where(rows.flags, useless, combined)
        return combined

    def may_fit_later(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows have cards enough that evictions could free, or that fit now, (k,)."""
        useful = self.combined_reasons(rows) & self._reasons.unresolvable == 0
        enough: NDArray[np.bool_] = useful.sum(1) >= self.count
        return enough

    def best_slots(self, rows: Rows, gang_context: GangContext | None = None) -> tuple[int, ...]:
        """The `count` best cards of this one row, as slots, best first."""
        fits = self.preselected(rows, read_only(self.card_fits(rows)[0]))
        best = self.best_set_of(rows, fits, gang_context)
        if best is not None:
            return best
        ranked = self.worth(rows, fits[None], gang_context).ravel()
        # (width,): stable, so that equal cards come by slot.
        return tuple(np.argsort(-ranked, kind="stable")[: self.count].tolist())

    def preselected(self, rows: Rows, fits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The cards of this one row that remain of those that fit, (width,) bool."""
        for among in self.among:
            fits = read_only(among.preselect(rows, fits))
        return fits

    def best_set_of(
        self, rows: Rows, fits: NDArray[np.bool_], gang_context: GangContext | None = None
    ) -> tuple[int, ...] | None:
        """The best set of this one row's cards, best first; None if no plugin chooses sets."""
        best_set = self.best_set
        if best_set is None:
            return None
        if gang_context is None or best_set.near_gang is None:
            return best_set.choose(rows, fits)
        return best_set.near_gang(rows, fits, gang_context)

    def worth(
        self, rows: Rows, fits: NDArray[np.bool_], gang_context: GangContext | None = None
    ) -> IntArray:
        """The rank of each card that fits, (k, width), -1 for others; see `rank`.

        With a context, for one row: cards near those of the pod's gang come first.
        """
        keep = None if gang_context is None else _kept_near(rows, fits[0], gang_context)
        return np.where(fits, self.rank(rows, fits, keep), -1)

    def rank(
        self, rows: Rows, fits: NDArray[np.bool_], keep: IntArray | None = None
    ) -> IntArray | int:
        """The weighted sum of the cards' ranks, (k, width).

        `break_order` (k, width) replaces the column of that name. `fits` (k, width) says on which
        cards ranks are checked. Raises PluginFailed.
        """
        total: IntArray | int = 0
        for rank, weight, suspect in self.ranks:
            points = rank(rows)
            if suspect is not None:
                self._refuse(suspect, CARD_SCORE, answer_checks.ranks(points, fits))
            total = total + (points if weight == 1 else points * weight)
        if not self.keeps:
            return total
        return total * PLACES + MAX_KEPT - (rows.break_order if keep is None else keep)

    def _refuse(self, plugin: object, point: str, wrong: str | None) -> None:
        if wrong is not None:
            raise self._boundary.wrong(plugin, point, wrong)


def _kept_near(rows: Rows, fits: NDArray[np.bool_], gang_context: GangContext) -> IntArray:
    """The column `break_order` of one row for a member of a gang, (width,)."""
    bits: list[int] = rows.position_bit[0].tolist()
    fitting = sum(bit for bit, fit in zip(bits, fits.tolist(), strict=True) if fit)
    idle = PositionSet(fitting & rows.idle_cards.item(0))
    places = rows.boards[rows.board.item(0)].places(idle, gang_context)
    return np.array([places[bit.bit_length() - 1] if bit else MAX_KEPT for bit in bits], np.int64)


# One profile's questions about several claims of one pod, which are placed together.


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
        # (kinds, 1), against `counts`, (kinds, k): a card takes `most` units, so the division
        # rounds up.
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
        # (lines,): each unit fits a card. If two units fit more than one in all, each can have its
        # own; else one card must take both.
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
    # (kinds, k): kinds from the one with the fewest cards. If each has as many cards as its units
    # and those of all kinds before it need, the choice of others cannot take its last one.
    apart: BoolArray = np.all(np.take_along_axis(counts, order, 0) >= needed, axis=0)
    return apart
