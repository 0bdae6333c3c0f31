"""What a profile asks about one shape: its plugins' questions, prepared once."""

import numpy as np

from kubeshare_py.cluster.columns import IntArray
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
from kubeshare_py.framework.reasons import NO_CARD, ReasonTable
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.scores import Normalised


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
