"""One profile's questions about one shape, prepared once and put to rows."""

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
from kubeshare_py.framework.points import (
    MAX_KEPT,
    PLACES,
    ByHeadroom,
    CardPredicate,
    CardPreselection,
    CardRank,
    CardScore,
    CardSetScore,
    Depends,
    RowFilter,
    RowScore,
)
from kubeshare_py.framework.reasons import (
    NO_CARD,
    NO_NODE,
    NO_USABLE_GPU,
    TOO_FEW_GPUS,
    ReasonTable,
)
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.scores import Normalised
from kubeshare_py.topology.gang_context import GangContext
from kubeshare_py.topology.rings import PositionSet

C = TypeVar("C")
FILTER, CARD_FILTER, SCORE, CARD_SCORE = "Filter", "CardFilter", "Score", "CardScore"


class PreparedPlugins:
    """One profile's plugins, prepared for one shape.

    Arrays have the shape (k,) for k rows, or (k, width) for their cards; numbers are int64. Masks
    are negated: a row's number is minus its mask of reasons, and 0 where the shape fits.
    """

    __slots__ = (
        "_boundary",
        "_profile",
        "absolute",
        "among",
        "best_set",
        "by_room",
        "cards",
        "count",
        "keeps",
        "normalised",
        "ranks",
        "reasons",
        "row_filters",
        "scorers",
        "static",
    )

    def __init__(self, profile: Profile, shape: Shape, boundary: Boundary) -> None:
        """Raises PluginFailed if a plugin fails while it prepares its question."""
        self._profile, self._boundary = profile, boundary
        # Each shape has its own table, so that one pod's wishes cannot use up another's bits.
        self.reasons = ReasonTable()
        self.static: list[RowFilter] = []
        self.row_filters: list[RowFilter] = []
        self.cards: list[CardPredicate] = []
        self.ranks: list[tuple[CardRank, int, object | None]] = []
        self.best_set: CardSetScore | None = None
        self.among: list[CardPreselection] = []
        #: Questions with their weights, and the plugin if its answers are to be checked.
        self.absolute: list[tuple[RowScore, int, object | None]] = []
        #: The names of these plugins, in the same order.
        self.scorers: list[str] = []
        self.normalised: list[Normalised] = []
        self.count = shape.claim.count if shape.claim else 0
        self._prepare_filters(shape)
        if self.count:
            self._prepare_card_filters(shape)
            self._prepare_ranks(shape)
        #: Whether the column `break_order` orders equal idle cards.
        self.keeps = any(isinstance(rank, ByHeadroom) and rank.keeps for rank, *_ in self.ranks)
        self.by_room = self._by_headroom() if self.count == 1 else None
        self._prepare_scores(shape)

    def _prepare_filters(self, shape: Shape) -> None:
        call, guarded, reasons = self._boundary.call, self._boundary.guarded, self.reasons
        check = answer_checks.row_masks(lambda: reasons.registered)
        for plugin in self._profile.filters:
            question = call(
                plugin, FILTER, answer_checks.function_or_none, plugin.filter, shape, reasons
            )
            if question is not None:
                static = plugin.depends is Depends.STATIC
                filters = self.static if static else self.row_filters
                filters.append(guarded(plugin, FILTER, self._if_checked(plugin, check), question))

    def _prepare_card_filters(self, shape: Shape) -> None:
        call, guarded, reasons = self._boundary.call, self._boundary.guarded, self.reasons
        masks = answer_checks.card_masks(lambda: reasons.registered)
        for plugin in self._profile.card_filters:
            question = call(
                plugin,
                CARD_FILTER,
                answer_checks.card_predicate,
                plugin.card_filter,
                shape,
                reasons,
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

    def _prepare_ranks(self, shape: Shape) -> None:
        guarded, count = self._boundary.guarded, self.count
        for plugin, weight in self._profile.card_scores:
            rank = self._boundary.call(
                plugin, CARD_SCORE, answer_checks.card_rank, plugin.card_score, shape
            )
            if isinstance(rank, CardSetScore):
                self.best_set = self.best_set or self._guarded_set(plugin, rank)
            elif isinstance(rank, CardPreselection):
                stay = self._if_checked(
                    plugin, lambda answer, rows, fits: answer_checks.left(answer, count, fits)
                )
                self.among.append(
                    CardPreselection(guarded(plugin, CARD_SCORE, stay, rank.preselect))
                )
            elif isinstance(rank, ByHeadroom):
                self.ranks.append((rank, weight, None))
            elif rank is not None:
                numbers = self._if_checked(plugin, answer_checks.card_numbers)
                suspect = None if numbers is None else plugin
                self.ranks.append((guarded(plugin, CARD_SCORE, numbers, rank), weight, suspect))

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
        return CardSetScore(
            guarded(plugin, CARD_SCORE, chosen, best.choose),
            None if near is None else guarded(plugin, CARD_SCORE, chosen, near),
        )

    def _prepare_scores(self, shape: Shape) -> None:
        call, guarded = self._boundary.call, self._boundary.guarded
        for plugin, weight in self._profile.scores:
            score = call(plugin, SCORE, answer_checks.function_or_none, plugin.score, shape)
            if score is None:
                continue
            numbers = self._if_checked(plugin, answer_checks.row_numbers)
            score = guarded(plugin, SCORE, numbers, score)
            if plugin.normaliser is None:
                self.absolute.append((score, weight, None if numbers is None else plugin))
                self.scorers.append(plugin.name)
            else:
                normal = self._if_checked(plugin, answer_checks.normalised)
                normaliser = guarded(plugin, SCORE, normal, plugin.normaliser)
                self.normalised.append(Normalised(score, normaliser, weight))

    def _if_checked(self, plugin: object, check: C) -> C | None:
        """The check, unless the plugin's answers are trusted."""
        return None if self._profile.trusts(plugin) else check

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

    # --- answers -------------------------------------------------------------------------------

    def static_reasons(self, rows: Rows) -> IntArray:
        """Minus the mask of each row, (k,), for reasons that depend on the node object alone."""
        masks: IntArray = np.where(rows.present, 0, NO_NODE)
        for question in self.static:
            mask = question(rows)
            if mask is not None:
                masks |= mask
        return -masks

    def without_cards(self, rows: Rows, static: IntArray) -> IntArray:
        """Minus the mask of each row, (k,), without the reasons of its cards.

        `static` is (k,), too.
        """
        minus = static
        for question in self.row_filters:
            mask = question(rows)
            if mask is not None:
                minus = minus - mask if self.reasons.distinct else -(-minus | mask)
        return minus

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
            few = self.reasons.register("framework", TOO_FEW_GPUS, resolvable=False)
            return np.full(len(rows.index), few, np.int64)
        nth: IntArray = np.partition(combined, self.count - 1, axis=1)[:, self.count - 1]
        return nth

    def combined_reasons(self, rows: Rows) -> IntArray:
        """The mask of each card of the rows, (k, width)."""
        combined = np.zeros_like(rows.flags)
        for question in self.cards:
            combined |= question.reasons(rows)
        if not self.cards:
            useless = self.reasons.register("framework", NO_USABLE_GPU)
            combined = np.where(rows.flags, useless, combined)
        return combined

    def best_slots(self, rows: Rows, gang_context: GangContext | None = None) -> tuple[int, ...]:
        """The `count` best cards of this one row, as slots, best first."""
        fits = read_only(self.card_fits(rows)[0])
        for among in self.among:
            fits = read_only(among.preselect(rows, fits))
        best_set, keep = self.best_set, None
        if best_set is not None:
            if gang_context is None or best_set.near_gang is None:
                return best_set.choose(rows, fits)
            return best_set.near_gang(rows, fits, gang_context)
        if gang_context is not None:
            keep = _kept_near(rows, fits, gang_context)
        ranked = np.where(fits, self.rank(rows, fits[None], keep), -1).ravel()
        return tuple(np.argsort(-ranked, kind="stable")[: self.count].tolist())

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

    def check_points(self, plugin: object, points: IntArray, fits: NDArray[np.bool_]) -> None:
        """Raises PluginFailed if a score is out of range on a row that fits.

        `points` and `fits` have the shape (k,).
        """
        self._refuse(plugin, SCORE, answer_checks.scores(points, fits))

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
