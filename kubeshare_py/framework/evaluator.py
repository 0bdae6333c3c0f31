"""Chooses places for shapes by one profile's plugins, and puts what-if questions to other rows.

Answers about the rows of the tables, which are the ledger's or an overlay's, are cached
(`result_cache`): asking again for a shape costs one
question for each row that changed since, and one argmax.
"""

from collections.abc import Callable
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import OneRow, Rows, SomeRows
from kubeshare_py.cluster.tables import Tables
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import Boundary, PluginFailed
from kubeshare_py.framework.choice import (
    Choice,
    best_row,
    best_row_among,
    cards_on,
    normalised_points,
    total_scores,
)
from kubeshare_py.framework.evaluation_cost import ASKING, DIAGNOSING, EvaluationWork
from kubeshare_py.framework.ledger_fit import guarded
from kubeshare_py.framework.plugin_calls import Hint, bounds, hints
from kubeshare_py.framework.points import MAX_PODS, RowHeadroom
from kubeshare_py.framework.reasons import NO_CARD, NO_NODE, NO_USABLE_GPU, Reason
from kubeshare_py.framework.result_cache import CachedResults, ResultCache
from kubeshare_py.framework.row_evaluation import RowEvaluation
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.shape_diagnosis import diagnosis, masks, reason_set
from kubeshare_py.topology.gang_context import GangContext


class Evaluator:
    """Asks one profile's plugins about the rows of some tables.

    Arrays of int64 or bool have the shape (rows,) with one entry for each row of the tables, or
    (k,) with one for each of the k rows of a `Rows` argument or an index of rows.

    A shape for which a plugin fails fits nowhere until `retry`, and questions about the rows of the
    tables answer so. Questions about other rows (`fits`, `lack_only_cards`, `rate`, `headroom`,
    `cards_of`, `keys_on`) raise PluginFailed.
    """

    def __init__(
        self,
        profile: Profile,
        ledger: Ledger,
        work: EvaluationWork | None = None,
        boundary: Boundary | None = None,
        tables: Tables | None = None,
    ) -> None:
        """`work` counts questions and `boundary` failures; several evaluators may share them.

        `tables` are an overlay's, if the questions are not about the ledger's own.
        """
        self.boundary = boundary or Boundary()
        self.work = work or EvaluationWork()
        self.tables: Tables = tables or ledger
        #: Evaluators of overlays above these tables.
        self.above: WeakSet[Evaluator] = WeakSet()
        self._ledger = ledger
        self.evaluation = RowEvaluation(self.work)
        self.results = self._cache(profile)
        #: Shapes that fit nowhere because a plugin failed for them.
        self.failed = self.results.failed
        self._hints: list[Hint] = []
        #: Called with a shape when it is forgotten, so that other caches forget it too.
        self.forget_too: Callable[[Shape], None] = lambda shape: None
        self._use(guarded(profile))

    def _cache(self, profile: Profile) -> ResultCache:
        return ResultCache(profile, self.tables, self.evaluation, self.work, self.boundary)

    def add_ledger_filter(self) -> None:
        """Add the ledger's rule to the filters, because it refused a placement."""
        profile = guarded(self.profile, anew=True)
        if profile is not self.profile:
            self._use(profile)

    def _use(self, profile: Profile) -> None:
        for one in self.above:
            one._use(profile)
        self.profile = profile
        self.results.use(profile)
        self._hints = hints(profile, self.boundary)

    @property
    def changes(self) -> int:
        """The ledger's change number: while it is the same, so are the answers.

        Those of a snapshot are compared with it too, so it is not that of the snapshot's own log.
        """
        return self._ledger.changed.end

    def knows(self, shape: Shape) -> bool:
        """Whether answers about the shape are cached."""
        return shape in self.results

    def best(self, shape: Shape) -> Choice | None:
        """The best placement of the shape; None if it fits nowhere."""
        answers = self.results.refreshed(shape, goes_on=True)
        try:
            row = best_row(answers, self.tables.columns)
        except PluginFailed as failure:
            self.results.fail(shape, answers, failure)
            return None
        return None if row is None else self._cards_on(row, shape, answers)

    def best_among(self, shape: Shape, rows: IntArray) -> Choice | None:
        """The best placement of the shape on one of `rows`, (k,) int64; None if it fits none."""
        answers = self.results.refreshed(shape)
        try:
            row = best_row_among(answers, rows, self.tables.columns)
        except PluginFailed as failure:
            self.results.fail(shape, answers, failure)
            return None
        return None if row is None else self._cards_on(row, shape, answers)

    def totals(self, shape: Shape, rows: IntArray) -> IntArray:
        """The whole score of each of `rows`, (k,) int64, by which `best_among` chooses.

        Below 0 where the shape does not fit, and everywhere if a plugin fails.
        """
        answers = self.results.refreshed(shape)
        found: IntArray = np.minimum(answers.keys.take(rows), 0)
        fits = found >= 0
        if not fits.any():
            return found
        try:
            found[fits] = total_scores(answers, rows[fits], self.tables.columns)
        except PluginFailed as failure:
            self.results.fail(shape, answers, failure)
            return np.full_like(found, -1)
        return found

    def at(self, shape: Shape, row: int, gang_context: GangContext | None = None) -> Choice | None:
        """The shape's cards on this row; None if the shape does not fit there.

        With a context, cards near those that the pod's gang has there, or is to get.
        """
        answers = self.results.refreshed(shape)
        if answers.keys.item(row) < 0:
            return None
        return self._cards_on(row, shape, answers, gang_context)

    def _cards_on(
        self,
        row: int,
        shape: Shape,
        answers: CachedResults,
        gang_context: GangContext | None = None,
    ) -> Choice | None:
        """The choice; None if a plugin fails, and the shape then fits nowhere."""
        try:
            return cards_on(row, answers, self.tables.columns, gang_context)
        except PluginFailed as failure:
            self.results.fail(shape, answers, failure)
            return None

    def keys(self, shape: Shape) -> IntArray:
        """One number per row, (rows,) int64: 0 or more where the shape fits. Do not change it."""
        return self.results.refreshed(shape).keys

    def own_keys(self, shape: Shape) -> IntArray:
        """`keys` by each row alone: without filters that depend on the whole cluster."""
        return self.results.refreshed(shape).own_keys

    def keys_on(self, shape: Shape, rows: Rows) -> IntArray:
        """`keys` for other rows, (k,) int64, without scores.

        0 where the shape fits, below 0 elsewhere.

        Raises PluginFailed.
        """
        return self._seen_wide(shape, rows, self.own_keys_on(shape, rows))

    def own_keys_on(self, shape: Shape, rows: Rows) -> IntArray:
        """`keys_on` by each row alone. Raises PluginFailed."""
        prepared = self.results.prepared(shape)
        self.work.other += ASKING
        minus, _ = self.evaluation.negated_reasons(prepared, rows, prepared.static_reasons(rows))
        return minus

    def _seen_wide(self, shape: Shape, rows: Rows, keys: IntArray) -> IntArray:
        """These keys, (k,), with what depends on the whole cluster. Raises PluginFailed."""
        prepared = self.results.prepared(shape)
        wide = prepared.cluster_reasons(rows)
        if wide is None:
            return keys
        self.work.other += prepared.reasons.take_cost()
        self.work.rows += self.tables.columns.rows
        seen: IntArray = np.where(wide == 0, keys, -(np.maximum(-keys, 0) | wide))
        return seen

    def fits_anywhere(self, shape: Shape) -> bool:
        """Whether the shape fits any row, by answers that are cached."""
        return bool((self.results.refreshed(shape).keys >= 0).any())

    def is_unfinished(self, shape: Shape) -> bool:
        """Whether a filter has yet to look at some rows: `best` lets it go on."""
        return self.results.is_unfinished(shape)

    def fits_any(self, shape: Shape, rows: IntArray) -> bool:
        """Whether the shape fits one of `rows`, (k,) int64; nothing is cached.

        True if a plugin fails: the pod is then tried, and waits for that reason.
        """
        if shape in self.failed:
            return False
        try:
            return not self.keys_on(shape, SomeRows(self.tables.columns, rows)).all()
        except PluginFailed:
            return True

    def may_fit(self, shape: Shape, row: int) -> bool:
        """Whether no plugin's hint rules this row out; cheap."""
        try:
            asked = OneRow(self.tables.columns, row)
            return all(may_fit(shape, asked) for may_fit in self._hints)
        except PluginFailed:
            return True

    def retry(self, shape: Shape) -> None:
        """Drop the cached failure of a plugin for this shape, so that it is asked about anew."""
        if shape in self.failed:
            self.forget(shape)

    def forget(self, shape: Shape) -> None:
        """Drop all that is cached about a shape, because no pod with it waits any more."""
        self.forget_too(shape)
        for one in self.above:
            one.forget(shape)
        self.results.forget(shape)

    def fail(self, shape: Shape, failure: PluginFailed) -> None:
        """Record that a plugin failed: the shape fits nowhere until it is tried again."""
        self.results.fail(shape, self.results.refreshed(shape), failure)

    def masks(self, shape: Shape) -> IntArray:
        """The mask of reasons of every row, (rows,) int64: 0 where the shape fits.

        Rows without a node carry NO_NODE.
        """
        return masks(self.results.refreshed(shape), self.tables.columns)

    def diagnose(self, shape: Shape) -> Diagnosis:
        """The diagnosis of a shape that fits nowhere now: how many nodes give which reason."""
        answers = self.results.refreshed(shape)
        if answers.failure is None:
            self.work.other += DIAGNOSING + self.tables.columns.rows
        return diagnosis(shape, answers, self.tables.columns, self._ledger)

    def reasons_in(self, shape: Shape, mask: int) -> list[Reason]:
        """The reasons in a mask that `masks` returned for this shape."""
        reasons = self.results.refreshed(shape).questions.reasons
        found = reasons.of(mask)
        # Of several claims, one may lack what the other's cards do not decide.
        return found if shape.claim is None else reasons.decisive(found)

    def reason_set(self, shape: Shape) -> int:
        """The union of all rows' masks, with one bit for all reasons of cards.

        A cheap sign of change.
        """
        return reason_set(self.results.refreshed(shape))

    def within_reach(self, shape: Shape) -> IntArray:
        """The rows on which evictions could make room for the shape: their indices, (k,) int64.

        Raises PluginFailed.
        """
        answers = self.results.refreshed(shape)
        prepared, masks = answers.questions, np.maximum(-answers.keys, 0)
        hopeless = prepared.reasons.unresolvable
        near: IntArray = np.flatnonzero((masks & (hopeless | NO_NODE) == 0) & (masks > 0))
        if not prepared.asks_cards or answers.failure is not None:
            return near
        enough: IntArray = near[prepared.may_fit_later(SomeRows(self.tables.columns, near))]
        return enough

    def first_in_reach(self, shape: Shape) -> IntArray:
        """The rows whose first refusal evictions could lift: their indices, (k,) int64.

        kube-scheduler tries evictions on these. `within_reach` has fewer: other filters may refuse
        a row, too, whatever is evicted. For shapes that claim GPUs they are the same. Raises
        PluginFailed.
        """
        answers = self.results.refreshed(shape)
        if answers.questions.asks_cards or answers.failure is not None:
            return self.within_reach(shape)
        reasons = answers.questions.reasons
        found, at = np.unique(np.maximum(-answers.keys, 0), return_inverse=True)
        if reasons.first_of_pod(int(np.bitwise_or.reduce(found, initial=0))) is not None:
            return np.zeros(0, np.int64)
        near = [
            mask > 0 and not mask & NO_NODE and all(one.resolvable for one in reasons.first(mask))
            for mask in found.tolist()
        ]
        rows: IntArray = np.flatnonzero(np.array(near, np.bool_)[at])
        return rows

    def fits(self, shape: Shape, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows the shape fits, (k,) bool; the rows need not be those of the tables.

        Raises PluginFailed.
        """
        fitting: NDArray[np.bool_] = self.masks_on(shape, rows) == 0
        return fitting

    def masks_on(self, shape: Shape, rows: Rows) -> IntArray:
        """The mask of each of these rows, (k,) int64, with NO_CARD for all reasons of cards.

        Raises PluginFailed.
        """
        self.work.rows += len(rows.index)
        return -self.keys_on(shape, rows)

    def first_texts(self, shape: Shape, mask: int) -> tuple[str, ...]:
        """What kube-scheduler would say of a row with this mask of `masks_on`."""
        found = self.results.refreshed(shape).questions.reasons.first(mask & ~NO_CARD)
        return tuple(one.text for one in found) or (NO_USABLE_GPU,)

    def lack_only_cards(self, shape: Shape, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows fit in everything but their cards, (k,) bool.

        Raises PluginFailed.
        """
        prepared = self.results.prepared(shape)
        without = prepared.without_cards(rows, prepared.static_reasons(rows))
        only: NDArray[np.bool_] = self._seen_wide(shape, rows, without) == 0
        return only

    def rate(self, shape: Shape, rows: Rows) -> tuple[IntArray, IntArray | None]:
        """The key of each of these rows, (k,) int64, without normalised scores.

        With it each row's best card slot, (k,) int64, if the shape claims one card. Raises
        PluginFailed.
        """
        prepared = self.results.prepared(shape)
        keys, slots, _ = self.evaluation.evaluate(prepared, rows, prepared.static_reasons(rows))
        keys = self._seen_wide(shape, rows, keys)
        return keys, None if slots is None else slots.copy()

    def scores(self, shape: Shape, row: int) -> list[tuple[str, int, int]]:
        """The parts of the score of a row that the shape fits, by which `best` chooses.

        Plugin, weight, and points before the weight. Raises PluginFailed.
        """
        answers, columns = self.results.refreshed(shape), self.tables.columns
        prepared, one = answers.questions, SomeRows(columns, np.array([row]))
        _, cards = self.evaluation.negated_reasons(prepared, one, prepared.static_reasons(one))
        found = [
            (name, weight, int(score(one, cards)[0]))
            for name, (score, weight, _) in zip(prepared.scorers, prepared.absolute, strict=True)
        ]
        fitting = np.flatnonzero(answers.keys >= 0)
        at = int(np.searchsorted(fitting, row))
        found += [
            (asked.name, asked.weight, points.item(at))
            for asked, points in normalised_points(answers, fitting, columns)
        ]
        return found

    def headroom(self, shape: Shape, rows: Rows) -> IntArray:
        """An upper bound of how many pods of the shape each of these rows takes, (k,) int64.

        Raises PluginFailed.
        """
        room: IntArray = np.where(self.fits(shape, rows), MAX_PODS, 0)
        for bound in self.bounds(shape):
            room = np.minimum(room, bound(rows))
        return room

    def bounds(self, shape: Shape) -> list[RowHeadroom]:
        """The plugins' bounds of how many pods of the shape a row takes. Raises PluginFailed."""
        return bounds(self.profile, self.boundary, shape)

    def cards_of(self, shape: Shape, row: Rows) -> tuple[int, ...]:
        """The slots of the cards that the shape gets on this row, where it must fit, by claim.

        Raises PluginFailed.
        """
        prepared = self.results.prepared(shape)
        return prepared.best_slots(row)
