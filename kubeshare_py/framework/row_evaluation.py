"""Puts the prepared questions of one shape to rows: reasons, the best card of each row, scores."""

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.framework.evaluation_cost import ASKING, EvaluationWork
from kubeshare_py.framework.points import BestCards
from kubeshare_py.framework.prepared_plugins import PreparedPlugins
from kubeshare_py.framework.reasons import NO_CARD


class RowEvaluation:
    """Evaluates k rows at once; `work` counts them."""

    def __init__(self, work: EvaluationWork) -> None:
        self._work = work
        self._lines = np.arange(0)
        self._most_lines = self._width = 0

    def evaluate(
        self, prepared: PreparedPlugins, rows: Rows, static: IntArray
    ) -> tuple[IntArray, IntArray | None, list[IntArray]]:
        """The key of each row, (k,) int64: its score where the shape fits, else minus its mask.

        With it the best card slot of each row, (k,) int64, if the shape claims one card, and one
        array, (k,) int64, for each of `prepared.normalised`. `static` is minus the mask of STATIC
        filters, (k,) int64. Raises PluginFailed.
        """
        minus, cards = self.negated_reasons(prepared, rows, static)
        self._work.rows += len(minus)
        self._work.other += ASKING
        total: IntArray | int = 0
        for score, weight, suspect in prepared.absolute:
            points = score(rows, cards)
            if suspect is not None:
                prepared.check_points(suspect, points, minus == 0)
            if weight != 1:
                points = points * weight
            total = points if isinstance(total, int) else total + points
        keys: IntArray = np.where(minus, minus, total)
        raw = [asked.score(rows, cards) for asked in prepared.normalised]
        return keys, cards.slot if cards else None, raw

    def negated_reasons(
        self, prepared: PreparedPlugins, rows: Rows, static: IntArray
    ) -> tuple[IntArray, BestCards | None]:
        """Minus each row's mask, (k,) int64, NO_CARD for its cards' reasons; and the best cards.

        `static` is minus the mask of STATIC filters, (k,) int64. Raises PluginFailed.

        Masks are combined with "or". Where every reason has its own bit, that is the same as
        subtracting them one after the other.
        """
        minus = prepared.without_cards(rows, static)
        asked = prepared.claim
        if asked is None:
            return self._together(prepared, rows, minus), None
        if asked.by_room is not None:
            # Not `take`, which takes ten times as long with indices that cannot be written.
            ranked = asked.by_room[rows.headroom]
            if asked.keeps:
                # Only idle cards have a `break_order` above 0, and an idle card fits every claim
                # that by_room covers.
                ranked -= rows.break_order
        else:
            fits = asked.card_fits(rows)
            if asked.count > 1:
                return minus - (fits.sum(1) < asked.count), None
            ranked = np.where(fits, asked.rank(rows, fits), -NO_CARD)
        slot = ranked.argmax(1)
        picked = slot + self._offsets(*ranked.shape)
        # The best rank is 0 or more, or -NO_CARD where no card fits.
        minus = minus + np.minimum(ranked.take(picked), 0)
        slot.setflags(write=False)
        picked.setflags(write=False)
        return minus, BestCards(slot, picked)

    def _together(self, prepared: PreparedPlugins, rows: Rows, minus: IntArray) -> IntArray:
        """`minus` with NO_CARD for rows that have no place for several claims, (k,)."""
        if prepared.claims is None:
            return minus
        width = rows.flags.shape[1]
        self._work.other += prepared.claims.cost(len(minus), width)
        without: IntArray = minus - ~prepared.claims.fits(rows)
        return without

    def _offsets(self, rows: int, width: int) -> IntArray:
        """The flat index of each row's first card in a (rows, width) column."""
        if rows > self._most_lines or width != self._width:
            self._most_lines, self._width = max(rows, 1024), width
            self._lines = np.arange(self._most_lines) * width
        return self._lines[:rows]
