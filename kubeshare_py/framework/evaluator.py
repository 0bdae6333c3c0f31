"""Chooses places for shapes by one profile's plugins, and puts what-if questions to other rows.

Answers about the rows of the tables, which are the ledger's or an overlay's, are cached
(`result_cache`): asking again for a shape costs one
question for each row that changed since, and one argmax.
"""

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay, Tables
from kubeshare_py.cluster.rows import OneRow, Rows, SomeRows
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.mypyc_hints import mypyc_attr
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import Boundary, Hint, PluginFailed, bounds, hints
from kubeshare_py.framework.diagnosis import diagnosis, masks, reason_set
from kubeshare_py.framework.points import MAX_PODS, RowHeadroom
from kubeshare_py.framework.prepared_plugins import (
    ASKING,
    DIAGNOSING,
    EvaluationWork,
    RowEvaluation,
)
from kubeshare_py.framework.reasons import NO_CARD, NO_NODE, NO_USABLE_GPU, Reason
from kubeshare_py.framework.result_cache import (
    NO_FAILURES,
    CachedResults,
    Choice,
    OverlayResults,
    ResultCache,
    best_row,
    best_row_among,
    cards_on,
    normalised_points,
    total_scores,
    with_masks,
)
from kubeshare_py.framework.scheduler_profile import Profile, guarded
from kubeshare_py.topology.card_sets import GangContext


def _forget_nothing_else(shape: Shape) -> None:
    pass


@mypyc_attr(native_class=False)  # weak references point to it
class Evaluator:
    """Asks one profile's plugins about the rows of some tables.

    Arrays of int64 or bool have the shape (rows,) with one entry for each row of the tables, or
    (k,) with one for each of the k rows of a `Rows` argument or an index of rows.

    A shape for which a plugin fails fits nowhere until `retry`, and questions about the rows of the
    tables answer so. Questions about other rows (`fits`, `lack_only_cards`, `score_rows`,
    `headroom`, `cards_of`, `negated_masks_on`) raise PluginFailed.
    """

    def __init__(
        self,
        profile: Profile,
        ledger: Ledger,
        work: EvaluationWork | None = None,
        boundary: Boundary | None = None,
        *,
        overlay: Overlay | None = None,
        below: "Evaluator | None" = None,
        known_failures: Mapping[Shape, PluginFailed] = NO_FAILURES,
    ) -> None:
        """`work` counts questions and `boundary` failures; several evaluators may share them.

        `overlay` are the tables, if the questions are not about the ledger's own; its answers begin
        as those of `below`, which is about the tables below it, and work and failures count for
        both.
        Plugins that failed for shapes with `known_failures` are not asked about these.
        """
        if below is not None:
            work, boundary = below.work, below.boundary
        self.boundary: Boundary = boundary or Boundary()
        self.work: EvaluationWork = work or EvaluationWork()
        self.overlay = overlay
        self.tables: Tables = overlay or ledger
        #: Evaluators of overlays above these tables.
        self.above: WeakSet[Evaluator] = WeakSet()
        self._ledger, self._below = ledger, below
        self.evaluation = RowEvaluation(self.work)
        if below is None or overlay is None:
            self.results = ResultCache(
                profile, self.tables, self.evaluation, self.work, self.boundary, known_failures
            )
        else:
            self.results = OverlayResults(profile, overlay, below.results)
            below.above.add(self)
        #: Shapes that fit nowhere because a plugin failed for them.
        self.failed = self.results.failed_below
        self._hints: list[Hint] = []
        #: Called with a shape when it is forgotten, so that other caches forget it too.
        self.forget_too: Callable[[Shape], None] = _forget_nothing_else
        self._use(guarded(profile))

    def add_ledger_filter(self) -> None:
        """Add the ledger's rule to the filters, because it refused a placement."""
        if self._below is not None:
            self._below.add_ledger_filter()
            return
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
        columns = self.tables.columns
        try:
            row = best_row(answers, columns)
            return None if row is None else cards_on(row, answers, columns)
        except PluginFailed as failure:
            self.results.fail(shape, answers, failure)
            return None

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
        found: IntArray = np.minimum(answers.row_scores.take(rows), 0)
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
        if answers.row_scores.item(row) < 0:
            return None
        return self._cards_on(row, shape, answers, gang_context)

    def at_each(
        self,
        shape: Shape,
        rows: Sequence[int],
        gang_context_on: Callable[[int], GangContext | None],
    ) -> list[Choice | None]:
        """`at` for many different rows, which are asked about at once."""
        answers = self.results.refreshed(shape)
        fits = (answers.row_scores.take(rows) >= 0).tolist()
        return [
            self._cards_on(row, shape, answers, gang_context_on(row))
            if fit and answers.failure is None
            else None
            for row, fit in zip(rows, fits, strict=True)
        ]

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

    def row_scores(self, shape: Shape) -> IntArray:
        """The score of every row, (rows,) int64, without normalised scores. Do not change it.

        0 or more where the shape fits, minus the row's mask of reasons elsewhere.
        """
        return self.results.refreshed(shape).row_scores

    def local_row_scores(self, shape: Shape) -> IntArray:
        """`row_scores` by each row alone, without filters that depend on the whole cluster."""
        return self.results.refreshed(shape).local_row_scores

    def negated_masks_on(self, shape: Shape, rows: Rows) -> IntArray:
        """Minus the mask of reasons of each of these rows, (k,) int64: 0 where the shape fits.

        The rows need not be those of the tables. Raises PluginFailed.
        """
        return self._with_cluster_reasons(shape, rows, self.local_negated_masks_on(shape, rows))

    def local_negated_masks_on(self, shape: Shape, rows: Rows) -> IntArray:
        """`negated_masks_on` by each row alone. Raises PluginFailed."""
        prepared = self.results.prepared(shape)
        self.work.other += ASKING
        minus, _ = self.evaluation.negated_reasons(prepared, rows, prepared.static_reasons(rows))
        return minus

    def _with_cluster_reasons(self, shape: Shape, rows: Rows, scores: IntArray) -> IntArray:
        """These row scores, (k,), with what depends on the whole cluster. Raises PluginFailed."""
        prepared = self.results.prepared(shape)
        wide = prepared.cluster_reasons(rows)
        if wide is None:
            return scores
        self.work.other += prepared.reasons.take_cost()
        self.work.rows += self.tables.columns.rows
        return with_masks(scores, wide)

    def fits_anywhere(self, shape: Shape) -> bool:
        """Whether the shape fits any row, by answers that are cached."""
        return bool((self.results.refreshed(shape).row_scores >= 0).any())

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
            return not self.negated_masks_on(shape, SomeRows(self.tables.columns, rows)).all()
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

    def start_anew(self) -> None:
        """Drop all that is cached."""
        self.results.clear()

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

    def evictable_rows(self, shape: Shape) -> IntArray:
        """The rows on which evictions could make room for the shape: their indices, (k,) int64.

        Raises PluginFailed.
        """
        answers = self.results.refreshed(shape)
        prepared, masks = answers.questions, np.maximum(-answers.row_scores, 0)
        hopeless = prepared.reasons.unresolvable
        # (rows,): refused rows with no reason that evictions cannot lift.
        near: IntArray = np.flatnonzero((masks & (hopeless | NO_NODE) == 0) & (masks > 0))
        if not prepared.asks_cards or answers.failure is not None:
            return near
        enough: IntArray = near[prepared.may_fit_later(SomeRows(self.tables.columns, near))]
        return enough

    def evictable_rows_by_first_refusal(self, shape: Shape) -> IntArray:
        """The rows whose first refusal evictions could lift: their indices, (k,) int64.

        kube-scheduler tries evictions on these. `evictable_rows` has fewer: other filters may
        refuse a row, too, whatever is evicted. For shapes that claim GPUs they are the same. Raises
        PluginFailed.
        """
        answers = self.results.refreshed(shape)
        if answers.questions.asks_cards or answers.failure is not None:
            return self.evictable_rows(shape)
        reasons = answers.questions.reasons
        # (different masks,), and of each row its mask among them, (rows,): there are few masks, and
        # what follows asks in Python about each.
        found, at = np.unique(np.maximum(-answers.row_scores, 0), return_inverse=True)
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
        return -self.negated_masks_on(shape, rows)

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
        only: NDArray[np.bool_] = self._with_cluster_reasons(shape, rows, without) == 0
        return only

    def score_rows(self, shape: Shape, rows: Rows) -> tuple[IntArray, IntArray | None]:
        """The row score of each of these rows, (k,) int64, without normalised scores.

        With it each row's best card slot, (k,) int64, if the shape claims one card. Raises
        PluginFailed.
        """
        prepared = self.results.prepared(shape)
        scores, slots, _ = self.evaluation.evaluate(prepared, rows, prepared.static_reasons(rows))
        scores = self._with_cluster_reasons(shape, rows, scores)
        return scores, None if slots is None else slots.copy()

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
        fitting = np.flatnonzero(answers.row_scores >= 0)
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
