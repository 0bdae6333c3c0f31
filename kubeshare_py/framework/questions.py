"""What a profile asks about one shape: its plugins' questions, prepared once and put to rows."""

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import (
    MOST_KEPT,
    PLACES,
    Among,
    BestSet,
    ByRoom,
    CardQuestion,
    CardRank,
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
from kubeshare_py.topology.company import Company


class Questions:
    """What a profile asks about one shape: its plugins, prepared."""

    __slots__ = (
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
        "static",
    )

    def __init__(self, profile: Profile, shape: Shape) -> None:
        # A table for each shape: what one pod's owner writes cannot use up another's bits.
        reasons = self.reasons = ReasonTable()
        self.static: list[RowFilter] = []
        self.row_filters: list[RowFilter] = []
        for plugin in profile.filters:
            question = plugin.filter(shape, reasons)
            if question is not None:
                static = plugin.depends is Depends.STATIC
                (self.static if static else self.row_filters).append(question)
        self.cards: list[CardQuestion] = []
        self.ranks: list[tuple[CardRank, int]] = []
        self.best_set: BestSet | None = None
        self.among: list[Among] = []
        self.absolute: list[tuple[RowScore, int]] = []
        self.normalised: list[Normalised] = []
        self.count = shape.claim.count if shape.claim else 0
        if self.count:
            cards = (plugin.card_filter(shape, reasons) for plugin in profile.card_filters)
            self.cards = [question for question in cards if question is not None]
            self._ask_for_ranks(profile, shape)
        #: Whether equal idle cards come in the order of the column `keep`.
        self.keeps = any(isinstance(rank, ByRoom) and rank.keeps for rank, _ in self.ranks)
        self.by_room = self._by_room() if self.count == 1 else None
        for scorer, weight in profile.scores:
            score = scorer.score(shape)
            if score is not None and scorer.normaliser is None:
                self.absolute.append((score, weight))
            elif score is not None and scorer.normaliser is not None:
                self.normalised.append(Normalised(score, scorer.normaliser, weight))

    def _ask_for_ranks(self, profile: Profile, shape: Shape) -> None:
        for plugin, weight in profile.card_scores:
            rank = plugin.card_score(shape)
            if isinstance(rank, BestSet):
                self.best_set = self.best_set or rank
            elif isinstance(rank, Among):
                self.among.append(rank)
            elif rank is not None:
                self.ranks.append((rank, weight))

    def _by_room(self) -> IntArray | None:
        """Rank by room, if nothing else decides; the last entry, -1, is for cards without room."""
        least = [question.least_room for question in self.cards]
        table = np.zeros(WHOLE_MILLI + 2, np.int64)
        for rank, weight in self.ranks:
            if not isinstance(rank, ByRoom):
                return None
            table[:-1] += weight * rank.ranks
        if not least or None in least:
            return None
        if self.keeps:
            table = table * PLACES + MOST_KEPT
        table[: max(one for one in least if one is not None)] = -NO_CARD
        table[-1] = -NO_CARD
        return table

    # --- answers -------------------------------------------------------------------------------

    def static_reasons(self, rows: Rows) -> IntArray:
        """Minus the reasons that depend on the node object alone."""
        masks: IntArray = np.where(rows.column("present"), 0, NO_NODE)
        for question in self.static:
            mask = question(rows)
            if mask is not None:
                masks |= mask
        return -masks

    def without_cards(self, rows: Rows, static: IntArray) -> IntArray:
        """Minus each row's reasons, those of its cards left out."""
        minus = static
        for question in self.row_filters:
            mask = question(rows)
            if mask is not None:
                minus = minus - mask if self.reasons.distinct else -(-minus | mask)
        return minus

    def card_fits(self, rows: Rows) -> NDArray[np.bool_]:
        """Which cards of the rows fit; (rows, width)."""
        if not self.cards:
            unflagged: NDArray[np.bool_] = rows.column("flags") == 0
            return unflagged
        fits = self.cards[0].fits(rows)
        for question in self.cards[1:]:
            fits = fits & question.fits(rows)
        return fits

    def card_reasons(self, rows: Rows) -> IntArray:
        """What the count-th nearest card of each row lacks: 0 exactly if `count` cards fit."""
        combined = self.combined_reasons(rows)
        if self.count > combined.shape[1]:
            few = self.reasons.register("framework", TOO_FEW_GPUS, resolvable=False)
            return np.full(len(rows.index), few, np.int64)
        nth: IntArray = np.partition(combined, self.count - 1, axis=1)[:, self.count - 1]
        return nth

    def combined_reasons(self, rows: Rows) -> IntArray:
        """What each card of the rows lacks."""
        combined = np.zeros_like(rows.column("flags"))
        for question in self.cards:
            combined |= question.reasons(rows)
        if not self.cards:
            useless = self.reasons.register("framework", NO_USABLE_GPU)
            combined = np.where(rows.column("flags"), useless, combined)
        return combined

    def best_slots(self, rows: Rows, company: Company | None = None) -> tuple[int, ...]:
        """Which cards of this one row: of as many as are asked for, the best first."""
        fits = self.card_fits(rows)[0]
        for among in self.among:
            fits = among.leave(rows, fits)
        best_set, keep = self.best_set, None
        if best_set is not None:
            if company is None or best_set.near is None:
                return best_set.choose(rows, fits)
            return best_set.near(rows, fits, company)
        if company is not None:
            keep = _kept_near(rows, fits, company)
        ranked = np.where(fits, self.rank(rows, keep), -1).ravel()
        return tuple(np.argsort(-ranked, kind="stable")[: self.count].tolist())

    def rank(self, rows: Rows, keep: IntArray | None = None) -> IntArray | int:
        """`keep` in place of the column of this name."""
        total: IntArray | int = 0
        for rank, weight in self.ranks:
            points = rank(rows)
            total = total + (points if weight == 1 else points * weight)
        if not self.keeps:
            return total
        return total * PLACES + MOST_KEPT - (rows.column("keep") if keep is None else keep)


def _kept_near(rows: Rows, fits: NDArray[np.bool_], company: Company) -> IntArray:
    """In place of the column `keep` of one row, for a member of a gang."""
    bits: list[int] = rows.column("bit")[0].tolist()
    fitting = sum(bit for bit, fit in zip(bits, fits.tolist(), strict=True) if fit)
    idle = fitting & rows.column("idle_cards").item(0)
    places = rows.boards[rows.column("board").item(0)].places(idle, company)
    return np.array([places[bit.bit_length() - 1] if bit else MOST_KEPT for bit in bits], np.int64)
