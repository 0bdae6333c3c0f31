"""Caches the answers of one profile's plugins by shape and row, and chooses rows from them."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.overlay import Overlay, Tables
from kubeshare_py.cluster.rows import AllRows, SomeRows
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import MAX_BYTES, weight_of
from kubeshare_py.framework.boundary import Boundary, PluginFailed
from kubeshare_py.framework.prepared_plugins import (
    ASKING,
    EvaluationWork,
    PreparedPlugins,
    RowEvaluation,
    preparing,
)
from kubeshare_py.framework.reasons import NO_NODE
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.scores import Normalised
from kubeshare_py.topology.card_sets import GangContext

# Caches the answers of one profile's plugins about the rows of some tables, by shape.
#
# For each of the last 256 shapes (fewer where shapes are large) one number per row is kept: the
# row's score, 0 or more, where the shape fits, and minus its mask of reasons where it does not.
# Asking again for a shape costs one question for each row that changed since.


SHAPES_KEPT = 256
NO_FAILURES: Mapping[Shape, PluginFailed] = MappingProxyType({})


class CachedResults:
    """The cached answers about one shape.

    `row_scores` are the numbers described above, and `local_row_scores` those without filters that
    depend on the whole cluster, the same array if there are none. `cluster` is the mask of these
    filters as of `cluster_at`; `is_unfinished` if they have yet to look at some rows. `static` is
    minus the mask of STATIC filters, and `slots` is the best card slot of each row (one-card claims
    only): (rows,) int64 each. `raw` has a (rows,) int64 array for each normalised score, and
    `static_raw` for each that depends on the node object alone. `normal` are the normalised scores
    that decisions have to heed.
    """

    __slots__ = (
        "closed_at",
        "cluster",
        "cluster_at",
        "failure",
        "is_unfinished",
        "layout",
        "local_row_scores",
        "normal",
        "questions",
        "raw",
        "row_scores",
        "seen",
        "seen_labels",
        "slots",
        "static",
        "static_raw",
    )

    def __init__(self, prepared: PreparedPlugins) -> None:
        self.questions = prepared
        #: The failure of a plugin: the shape fits nowhere until it is tried again.
        self.failure: PluginFailed | None = None
        self.layout = self.closed_at = -1
        self.seen = self.seen_labels = 0
        self.row_scores = self.local_row_scores = self.slots = self.static = np.zeros(0, np.int64)
        self.cluster: IntArray = self.row_scores
        self.cluster_at: tuple[int, ...] = ()
        self.is_unfinished = False
        self.raw: list[IntArray] = []
        self.static_raw: list[IntArray] = []
        self.normal: list[tuple[Normalised, IntArray]] = []

    def put_raw(self, raw: list[IntArray], static_raw: list[IntArray]) -> None:
        """Set the raw scores of all rows, (rows,) int64 each.

        A static score that is the same everywhere changes no order, and is left out of `normal`.
        """
        asked = self.questions
        self.raw, self.static_raw = raw, static_raw
        self.normal = [*zip(asked.normalised, raw, strict=True)]
        for score, points in zip(asked.static_scores, static_raw, strict=True):
            if len(points) and points.min() != points.max():
                self.normal.append((score, points))

    def copy(self) -> "CachedResults":
        """The same answers, to be changed apart from these; `static` stays common."""
        twin = CachedResults(self.questions)
        twin.failure, twin.layout = self.failure, self.layout
        twin.seen, twin.seen_labels, twin.static = self.seen, self.seen_labels, self.static
        twin.row_scores, twin.slots = self.local_row_scores.copy(), self.slots.copy()
        twin.local_row_scores = twin.row_scores
        if self.failure is None:  # a plugin may have failed before there were scores
            twin.put_raw([points.copy() for points in self.raw], self.static_raw)
        return twin


def with_masks(scores: IntArray, masks: IntArray) -> IntArray:
    """These row scores, (k,) int64, where further masks of reasons, (k,) int64, count too."""
    # (k,): a score of 0 or more has no reasons yet, and one below 0 is minus those that it has.
    found: IntArray = np.where(masks == 0, scores, -(np.maximum(-scores, 0) | masks))
    return found


class ResultCache:
    """The cached results, refreshed when they are asked for.

    A shape for which a plugin fails fits nowhere until it is forgotten.
    """

    def __init__(
        self,
        profile: Profile,
        tables: Tables,
        evaluation: RowEvaluation,
        work: EvaluationWork,
        boundary: Boundary,
        known_failures: Mapping[Shape, PluginFailed] = NO_FAILURES,
    ) -> None:
        """Plugins that failed for shapes with `known_failures` are not asked about these."""
        #: Shapes that fit nowhere because a plugin failed for them.
        self.failed: dict[Shape, PluginFailed] = {}
        #: The failures about the ledger's own tables, of which no results above have others.
        self.failed_below = self.failed
        self._known_failures = known_failures
        self._profile = profile
        self._bare = replace(profile, filters=(), card_filters=(), scores=(), card_scores=())
        self._tables = tables
        self._evaluation = evaluation
        self._work = work
        self._boundary = boundary
        self._answers: OrderedDict[Shape, CachedResults] = OrderedDict()
        self._bytes = 0

    def __contains__(self, shape: Shape) -> bool:
        return shape in self._answers

    def use(self, profile: Profile) -> None:
        """Ask this profile's plugins from now on; all that is cached is dropped."""
        self._profile = profile
        self.clear()

    def clear(self) -> None:
        """Drop all that is cached."""
        self._answers.clear()
        self._bytes = 0
        self.failed.clear()

    def prepared(self, shape: Shape) -> PreparedPlugins:
        """The questions about a shape; if it is not cached, they are made and not cached.

        Raises PluginFailed.
        """
        if shape in self._known_failures:
            raise self._known_failures[shape]
        known = self._answers.get(shape)
        if known is None:
            self._work.other += preparing(shape, self._tables.columns.rows)
            return PreparedPlugins(self._profile, shape, self._boundary)
        if known.failure is not None:
            raise known.failure
        return known.questions

    def is_unfinished(self, shape: Shape) -> bool:
        """Whether a filter had yet to look at some rows when it was asked last."""
        answers = self._answers.get(shape)
        return answers is not None and answers.is_unfinished

    def refreshed(self, shape: Shape, *, goes_on: bool = False) -> CachedResults:
        """The results for a shape as of now; if a plugin fails, no row fits.

        `goes_on`: filters that have yet to look at some rows are asked again without any change.
        """
        answers = self._answers.get(shape)
        if answers is None:
            answers = self._answers[shape] = self._unasked(shape)
            self._bytes += weight_of(shape)
            while len(self._answers) > SHAPES_KEPT or (
                self._bytes > MAX_BYTES and len(self._answers) > 1
            ):
                forgotten, _ = self._answers.popitem(last=False)
                self._bytes -= weight_of(forgotten)
                self.failed.pop(forgotten, None)
        else:
            self._answers.move_to_end(shape)
        if answers.failure is not None:
            self._close(answers)
            return answers
        try:
            if answers.questions.cluster_filters:
                answers.row_scores = answers.local_row_scores
                self._refresh(answers)
                self._see_cluster(answers, goes_on=goes_on)
            else:
                self._refresh(answers)
                answers.local_row_scores = answers.row_scores
        except PluginFailed as failure:
            self.fail(shape, answers, failure)
        return answers

    def forget(self, shape: Shape) -> None:
        """Drop all that is cached about a shape."""
        self.failed.pop(shape, None)
        if self._answers.pop(shape, None) is not None:
            self._bytes -= weight_of(shape)

    def fail(self, shape: Shape, answers: CachedResults, failure: PluginFailed) -> None:
        """Record that a plugin failed: the shape fits nowhere until it is forgotten."""
        answers.failure = self.failed[shape] = failure
        self._work.rows += self._tables.columns.rows
        self._close(answers)

    def _unasked(self, shape: Shape) -> CachedResults:
        if shape in self._known_failures:
            return self._failed(shape, self._known_failures[shape])
        self._work.other += preparing(shape, self._tables.columns.rows)
        try:
            return CachedResults(PreparedPlugins(self._profile, shape, self._boundary))
        except PluginFailed as failure:
            return self._failed(shape, failure)

    def _failed(self, shape: Shape, failure: PluginFailed) -> CachedResults:
        """The results for a shape about which no question can be made."""
        answers = CachedResults(PreparedPlugins(self._bare, shape, self._boundary))
        self._answers[shape] = answers
        self.fail(shape, answers, failure)
        return answers

    def _refresh(self, answers: CachedResults) -> None:
        tables = self._tables
        seen, labels_seen = answers.seen, answers.seen_labels
        answers.seen, answers.seen_labels = tables.changed.end, tables.relabelled.end
        if answers.layout != tables.columns.layout:
            self._evaluate_all(answers)
            return
        if labels_seen != tables.relabelled.end:
            relabelled = tables.relabelled.since(labels_seen, tables.columns.rows)
            if relabelled is None:
                self._evaluate_all(answers)
                return
            rows = SomeRows(tables.columns, relabelled)
            answers.static[relabelled] = answers.questions.static_reasons(rows)
            self._score_some(answers, rows)
        if seen != tables.changed.end:
            changed = tables.changed.since(seen, answers.row_scores.size)
            if changed is None:
                self._evaluate_all(answers)
            else:
                self._evaluate_some(answers, changed)

    def _see_cluster(self, answers: CachedResults, *, goes_on: bool) -> None:
        """Combine the scores with what depends on the whole cluster, asked anew if that changed."""
        answers.local_row_scores, columns = answers.row_scores, self._tables.columns
        now = (
            columns.layout,
            self._tables.relabelled.end,
            columns.objects.changes,
            columns.pods.changes,
            self._tables.changed.end if answers.questions.names_card else 0,
        )
        if answers.cluster_at != now or (goes_on and answers.is_unfinished):
            questions = answers.questions
            self._work.rows += columns.rows
            self._work.other += ASKING
            found = questions.cluster_reasons(AllRows(columns))
            self._work.other += questions.reasons.take_cost()
            answers.cluster = np.zeros(columns.rows, np.int64) if found is None else found
            answers.cluster_at = now
            answers.is_unfinished = bool((answers.cluster & questions.reasons.not_yet).any())
        answers.row_scores = with_masks(answers.local_row_scores, answers.cluster)

    def _close(self, answers: CachedResults) -> None:
        """Let no row fit, because a plugin failed."""
        failure, tables = answers.failure, self._tables
        if failure is not None and answers.closed_at != tables.changed.end:
            reasons = answers.questions.reasons
            mask = reasons.register(failure.plugin, str(failure), resolvable=False)
            answers.row_scores = -np.where(tables.columns.present, mask, NO_NODE)
            answers.local_row_scores = answers.row_scores
            answers.closed_at = tables.changed.end

    def _evaluate_all(self, answers: CachedResults) -> None:
        columns = self._tables.columns
        rows = AllRows(columns)
        answers.layout = columns.layout
        answers.static = answers.questions.static_reasons(rows)
        scores, slots, raw = self._evaluation.evaluate(answers.questions, rows, answers.static)
        answers.row_scores = scores
        if slots is not None:
            answers.slots = slots.copy()
        # Answers may be columns, or arrays that the plugin keeps; these here are written later.
        asked = answers.questions.static_scores
        static_raw = [one.score(rows, None) for one in asked]
        answers.put_raw(*([each.astype(np.int64) for each in found] for found in (raw, static_raw)))

    def _score_some(self, answers: CachedResults, rows: SomeRows) -> None:
        """Ask static scores again about rows whose node object changed."""
        if answers.static_raw:
            index = rows.index
            for one, points in zip(
                answers.questions.static_scores, answers.static_raw, strict=True
            ):
                points[index] = one.score(rows, None)
            answers.put_raw(answers.raw, answers.static_raw)

    def _evaluate_some(self, answers: CachedResults, index: IntArray) -> None:
        rows = SomeRows(self._tables.columns, index)
        static = answers.static.take(index)
        scores, slots, raw = self._evaluation.evaluate(answers.questions, rows, static)
        answers.row_scores[index] = scores
        if slots is not None:
            answers.slots[index] = slots
        for remembered, fresh in zip(answers.raw, raw, strict=True):
            remembered[index] = fresh


# Answers about an overlay: those about the tables below, and new ones where rows differ.
#
# What is asked about an overlay is not kept for the tables below. A plugin's failure counts for
# both.


class OverlayResults(ResultCache):
    """Cached results that begin as those about the tables below."""

    def __init__(self, profile: Profile, overlay: Overlay, below: ResultCache) -> None:
        super().__init__(profile, overlay, below._evaluation, below._work, below._boundary)
        self._overlay, self._below = overlay, below
        self.failed_below = below.failed_below

    def refreshed(self, shape: Shape, *, goes_on: bool = False) -> CachedResults:
        """See ResultCache; a failure counts from when it does below until it no longer does."""
        known = self._answers.get(shape)
        if known is not None and known.failure is not self.failed_below.get(shape):
            self.forget(shape)
        return super().refreshed(shape, goes_on=goes_on)

    def prepared(self, shape: Shape) -> PreparedPlugins:
        """See below."""
        return self._below.prepared(shape)

    def fail(self, shape: Shape, answers: CachedResults, failure: PluginFailed) -> None:
        """Record that a plugin failed, below too."""
        super().fail(shape, answers, failure)
        self._below.fail(shape, self._below.refreshed(shape), failure)

    def _unasked(self, shape: Shape) -> CachedResults:
        answers = self._below.refreshed(shape).copy()
        answers.seen = self._overlay.changed.end
        rows = self._overlay.differing()
        if answers.failure is None and len(rows):
            try:
                self._evaluate_some(answers, rows)
            except PluginFailed as failure:
                self.fail(shape, answers, failure)
        return answers


# Chooses a row for a shape, and its cards there, from cached results.


@dataclass(slots=True)
class Choice:
    """The best row for a shape, and the slots of its cards there, claim by claim."""

    row: int
    slots: tuple[int, ...]


def best_row(answers: CachedResults, columns: Columns) -> int | None:
    """The row with the highest score; None if the shape fits nowhere.

    Raises PluginFailed if a normaliser fails.
    """
    scores = answers.row_scores
    if not scores.size:
        return None
    if answers.normal or answers.questions.cluster_scores:
        return _best_normalised(answers, (scores >= 0).nonzero()[0], columns)
    row = int(scores.argmax())
    return row if scores.item(row) >= 0 else None


def best_row_among(answers: CachedResults, rows: IntArray, columns: Columns) -> int | None:
    """The best of these rows, (k,) int64; None if the shape fits none of them.

    Normalised scores are relative to those that fit. Raises PluginFailed if a normaliser fails.
    """
    scores = answers.row_scores.take(rows)
    if answers.normal or answers.questions.cluster_scores:
        return _best_normalised(answers, rows[scores >= 0], columns)
    at = int(scores.argmax())
    return rows.item(at) if scores.item(at) >= 0 else None


def cards_on(
    row: int, answers: CachedResults, columns: Columns, gang_context: GangContext | None = None
) -> Choice:
    """The shape's best cards on a row where it fits.

    With a context, cards near those that the pod's gang has there, or is to get. Raises
    PluginFailed.
    """
    asked = answers.questions.claim
    if asked is None and answers.questions.claims is None:
        return Choice(row, ())
    if asked is not None and asked.count == 1:
        slot = answers.slots.item(row)
        # In a gang, the best card is known only if the gang has it already.
        if gang_context is None or gang_context.taken & columns.position_bit.item(row, slot):
            return Choice(row, (slot,))
    rows = SomeRows(columns, np.array([row]))
    return Choice(row, answers.questions.best_slots(rows, gang_context))


def total_scores(answers: CachedResults, fitting: IntArray, columns: Columns) -> IntArray:
    """The whole score of each of these rows, (k,) int64; the shape fits them all.

    Normalised scores are relative to these rows. Raises PluginFailed if a normaliser fails.
    """
    total: IntArray = answers.row_scores[fitting]
    for asked, points in normalised_points(answers, fitting, columns):
        total = total + asked.weight * points
    return total


def normalised_points(
    answers: CachedResults, fitting: IntArray, columns: Columns
) -> Iterator[tuple[Normalised, IntArray]]:
    """Each score that is relative to these rows, (k,), and its points there, (k,) int64.

    A static score that is the same everywhere is left out: it decides nothing. Raises PluginFailed.
    """
    for asked, raw in answers.normal:
        yield asked, asked.normaliser(raw[fitting])
    for asked in answers.questions.cluster_scores:
        yield asked, asked.normaliser(asked.score(SomeRows(columns, fitting), None))


def _best_normalised(answers: CachedResults, fitting: IntArray, columns: Columns) -> int | None:
    if not len(fitting):
        return None
    return int(fitting[total_scores(answers, fitting, columns).argmax()])
