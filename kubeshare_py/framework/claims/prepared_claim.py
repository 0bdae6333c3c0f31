"""One profile's questions about the cards of one claim, prepared once and put to rows."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows, read_only
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework import answer_checks
from kubeshare_py.framework.boundary import Boundary
from kubeshare_py.framework.claims.claim_rows import asked_for
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
from kubeshare_py.framework.pre_filters import PreFilters
from kubeshare_py.framework.reasons import NO_CARD, NO_USABLE_GPU, TOO_FEW_GPUS, ReasonTable
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.topology.gang_context import GangContext
from kubeshare_py.topology.rings import PositionSet

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
