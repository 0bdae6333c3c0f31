"""Puts a profile's questions to the cluster and caches the answers by shape.

For each of the last 256 shapes (fewer where shapes are large) one number per row is kept: the row's
score, 0 or more, where the shape fits, and minus its mask of reasons where it does not. Asking
again for a shape costs one question for each row that changed since, and one argmax.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, Rows, SomeRows
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.remembered import MOST_BYTES, weight_of
from kubeshare_py.framework import answer_checks
from kubeshare_py.framework.boundary import Boundary, PluginFailed
from kubeshare_py.framework.evaluation_cost import ASKING, DIAGNOSING, preparing
from kubeshare_py.framework.impossible import impossible
from kubeshare_py.framework.ledger_fit import guarded
from kubeshare_py.framework.points import (
    MOST_PODS,
    BestCards,
    CapacityBound,
    QueueingHint,
    RowHeadroom,
)
from kubeshare_py.framework.prepared_plugins import PreparedPlugins
from kubeshare_py.framework.reasons import NO_CARD, NO_NODE, Reason
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.topology.gang_context import GangContext

SHAPES_KEPT = 256
HINT, CAPACITY_BOUND = "QueueingHint", "CapacityBound"


@dataclass(slots=True)
class Choice:
    """The best row for a shape, and the slots of its cards there, best first."""

    row: int
    slots: tuple[int, ...]


@dataclass(slots=True)
class EvaluationWork:
    """How much was asked so far; it bounds the work of an iteration.

    `rows` counts rows that were asked about. `other` counts what does not depend on the number of
    rows, and what long affinities add. Both are in rows, which cost about 0.4 µs each.
    """

    rows: int = 0
    other: int = 0

    @property
    def cost(self) -> int:
        """The sum of both, in rows."""
        return self.rows + self.other


class CachedResults:
    """The cached answers about one shape.

    `keys` are the numbers of the module's docstring, `static` is minus the mask of STATIC filters,
    and `slots` is the best card slot of each row (one-card claims only): (rows,) int64 each. `raw`
    has a (rows,) int64 array for each normalised score.
    """

    __slots__ = (
        "closed_at",
        "failure",
        "keys",
        "layout",
        "questions",
        "raw",
        "seen",
        "seen_labels",
        "slots",
        "static",
    )

    def __init__(self, prepared: PreparedPlugins) -> None:
        self.questions = prepared
        #: The failure of a plugin: the shape fits nowhere until it is tried again.
        self.failure: PluginFailed | None = None
        self.layout = self.closed_at = -1
        self.seen = self.seen_labels = 0
        self.keys = self.slots = self.static = np.zeros(0, np.int64)
        self.raw: list[IntArray] = []


class Evaluator:
    """Asks one profile's plugins about one ledger.

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
    ) -> None:
        """`work` counts questions and `boundary` failures; several evaluators may share them."""
        self.boundary = boundary or Boundary()
        #: Shapes that fit nowhere because a plugin failed for them.
        self.failed: dict[Shape, PluginFailed] = {}
        self._bare = replace(profile, filters=(), card_filters=(), scores=(), card_scores=())
        self._ledger = ledger
        self._answers: OrderedDict[Shape, CachedResults] = OrderedDict()
        self._bytes = 0
        self._hints: list[Callable[[Shape, Ledger, int], bool]] = []
        #: Called with a shape when it is forgotten, so that other caches forget it too.
        self.forget_too: Callable[[Shape], None] = lambda shape: None
        self._lines = np.arange(0)
        self._most_lines = self._width = 0
        self.work = work or EvaluationWork()
        self._use(guarded(profile))

    def add_ledger_filter(self) -> None:
        """Add the ledger's rule to the filters, because it refused a placement."""
        profile = guarded(self.profile, anew=True)
        if profile is not self.profile:
            self._use(profile)

    def _use(self, profile: Profile) -> None:
        self.profile = profile
        self._answers.clear()
        self._bytes = 0
        self.failed.clear()
        self._hints = [
            self.boundary.guarded(
                plugin, HINT, None if profile.trusts(plugin) else _yes_or_no, plugin.queueing_hint
            )
            for plugin in (*profile.card_filters, *profile.filters)
            if isinstance(plugin, QueueingHint)
        ]

    @property
    def changes(self) -> int:
        """The ledger's change number: while it is the same, so are the answers."""
        return self._ledger.changed.end

    def knows(self, shape: Shape) -> bool:
        """Whether answers about the shape are cached."""
        return shape in self._answers

    def best(self, shape: Shape) -> Choice | None:
        """The best placement of the shape; None if it fits nowhere."""
        answers = self._refreshed(shape)
        keys = answers.keys
        if not len(keys):
            return None
        if answers.questions.normalised:
            return self._guarded(shape, answers, lambda: self._best_normalised(answers))
        row = int(keys.argmax())
        return self._choice(shape, answers, row) if keys.item(row) >= 0 else None

    def best_among(self, shape: Shape, rows: IntArray) -> Choice | None:
        """The best placement of the shape on one of `rows`, (k,) int64, without normalised scores.

        Or None.
        """
        answers = self._refreshed(shape)
        keys = answers.keys.take(rows)
        at = int(keys.argmax())
        return self._choice(shape, answers, rows.item(at)) if keys.item(at) >= 0 else None

    def at(self, shape: Shape, row: int, gang_context: GangContext | None = None) -> Choice | None:
        """The shape's cards on this row; None if the shape does not fit there.

        With `company`, cards near those that the pod's gang has there, or is to get.
        """
        answers = self._refreshed(shape)
        if answers.keys.item(row) < 0:
            return None
        count, columns = answers.questions.count, self._ledger.columns
        if gang_context is None or not count:
            return self._choice(shape, answers, row)
        if count == 1 and gang_context.taken & columns.position_bit.item(
            row, answers.slots.item(row)
        ):
            return self._choice(shape, answers, row)  # the gang has the best card already
        return self._guarded(shape, answers, lambda: self._cards(answers, row, gang_context))

    def _choice(self, shape: Shape, answers: CachedResults, row: int) -> Choice | None:
        count = answers.questions.count
        if count == 1:
            return Choice(row, (answers.slots.item(row),))
        if not count:
            return Choice(row, ())
        return self._guarded(shape, answers, lambda: self._cards(answers, row, None))

    def _cards(self, answers: CachedResults, row: int, gang_context: GangContext | None) -> Choice:
        asked = SomeRows(self._ledger.columns, np.array([row]))
        return Choice(row, answers.questions.best_slots(asked, gang_context))

    def _guarded(
        self, shape: Shape, answers: CachedResults, choose: Callable[[], Choice | None]
    ) -> Choice | None:
        """The choice; None if a plugin fails, and the shape then fits nowhere."""
        try:
            return choose()
        except PluginFailed as failure:
            self._fail(shape, answers, failure)
            return None

    def keys(self, shape: Shape) -> IntArray:
        """One number per row, (rows,) int64: 0 or more where the shape fits. Do not change it."""
        return self._refreshed(shape).keys

    def keys_on(self, shape: Shape, rows: Rows) -> IntArray:
        """`keys` for other rows, (k,) int64, without scores.

        0 where the shape fits, below 0 elsewhere.

        Raises PluginFailed.
        """
        prepared = self._questions(shape)
        self.work.other += ASKING
        minus, _ = self._negated_reasons(prepared, rows, prepared.static_reasons(rows))
        return minus

    def fits_any(self, shape: Shape, rows: IntArray) -> bool:
        """Whether the shape fits one of `rows`, (k,) int64; nothing is cached.

        True if a plugin fails: the pod is then tried, and waits for that reason.
        """
        if shape in self.failed:
            return False
        try:
            return not self.keys_on(shape, SomeRows(self._ledger.columns, rows)).all()
        except PluginFailed:
            return True

    def may_fit(self, shape: Shape, row: int) -> bool:
        """Whether no plugin's hint rules this row out; cheap."""
        try:
            return all(may_fit(shape, self._ledger, row) for may_fit in self._hints)
        except PluginFailed:
            return True

    def retry(self, shape: Shape) -> None:
        """Drop the cached failure of a plugin for this shape, so that it is asked about anew."""
        if shape in self.failed:
            self.forget(shape)

    def forget(self, shape: Shape) -> None:
        """Drop all that is cached about a shape, because no pod with it waits any more."""
        self.forget_too(shape)
        self.failed.pop(shape, None)
        if self._answers.pop(shape, None) is not None:
            self._bytes -= weight_of(shape)

    def fail(self, shape: Shape, failure: PluginFailed) -> None:
        """Record that a plugin failed: the shape fits nowhere until it is tried again."""
        self._fail(shape, self._refreshed(shape), failure)

    def masks(self, shape: Shape) -> IntArray:
        """The mask of reasons of every row, (rows,) int64: 0 where the shape fits.

        Rows without a node carry NO_NODE.
        """
        answers = self._refreshed(shape)
        masks: IntArray = np.maximum(-answers.keys, 0)
        if answers.questions.count:
            rows = np.flatnonzero(masks & NO_CARD)
            masks[rows] &= ~NO_CARD
            masks[rows] |= self._card_reasons(answers.questions, rows)
        return masks

    def _card_reasons(self, prepared: PreparedPlugins, rows: IntArray) -> IntArray | int:
        """The reasons of these rows' cards; that a plugin failed, if it cannot give them."""
        try:
            return prepared.card_reasons(SomeRows(self._ledger.columns, rows))
        except PluginFailed as failure:
            return prepared.reasons.register(failure.plugin, str(failure), resolvable=False)

    def diagnose(self, shape: Shape) -> Diagnosis:
        """The diagnosis of a shape that fits nowhere now: how many nodes give which reason."""
        failure = self._refreshed(shape).failure
        if failure is not None:
            return failed(failure)
        self.work.other += DIAGNOSING + self._ledger.columns.rows
        masks, counts = np.unique(self.masks(shape), return_counts=True)
        reasons = self._answers[shape].questions.reasons
        totals: dict[str, int] = {}
        plugins: set[str] = set()
        nodes = 0
        for mask, count in zip(masks.tolist(), counts.tolist(), strict=True):
            if mask & NO_NODE:
                continue
            nodes += count
            for reason in reasons.of(mask):
                totals[reason.text] = totals.get(reason.text, 0) + count
                plugins.add(reason.plugin)
        return Diagnosis(
            nodes=nodes,
            counts=tuple(sorted(totals.items())),
            plugins=tuple(sorted(plugins)),
            limit=impossible(shape, self._ledger),
        )

    def reasons_in(self, shape: Shape, mask: int) -> list[Reason]:
        """The reasons in a mask that `masks` returned for this shape."""
        return self._refreshed(shape).questions.reasons.of(mask)

    def reason_set(self, shape: Shape) -> int:
        """The union of all rows' masks, with one bit for all reasons of cards.

        A cheap sign of change.
        """
        answers = self._refreshed(shape)
        keys, failure = answers.keys, answers.failure
        if failure is not None:
            return -1 - crc32(str(failure).encode())
        return int(np.bitwise_or.reduce(np.maximum(-keys, 0))) & ~NO_NODE

    def within_reach(self, shape: Shape) -> IntArray:
        """The rows on which evictions could make room for the shape: their indices, (k,) int64.

        Raises PluginFailed.
        """
        answers = self._refreshed(shape)
        prepared, masks = answers.questions, np.maximum(-answers.keys, 0)
        hopeless = prepared.reasons.unresolvable
        near: IntArray = np.flatnonzero((masks & (hopeless | NO_NODE) == 0) & (masks > 0))
        if not prepared.count or answers.failure is not None:
            return near
        rows = SomeRows(self._ledger.columns, near)
        useful = prepared.combined_reasons(rows) & prepared.reasons.unresolvable == 0
        enough: IntArray = near[useful.sum(1) >= prepared.count]
        return enough

    def fits(self, shape: Shape, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows the shape fits, (k,) bool; the rows need not be those of the tables.

        Raises PluginFailed.
        """
        self.work.rows += len(rows.index)
        fitting: NDArray[np.bool_] = self.keys_on(shape, rows) == 0
        return fitting

    def lack_only_cards(self, shape: Shape, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows fit in everything but their cards, (k,) bool.

        Raises PluginFailed.
        """
        prepared = self._questions(shape)
        only: NDArray[np.bool_] = prepared.without_cards(rows, prepared.static_reasons(rows)) == 0
        return only

    def rate(self, shape: Shape, rows: Rows) -> tuple[IntArray, IntArray | None]:
        """The key of each of these rows, (k,) int64, without normalised scores.

        With it each row's best card slot, (k,) int64, if the shape claims one card. Raises
        PluginFailed.
        """
        prepared = self._questions(shape)
        keys, slots, _ = self._evaluate(prepared, rows, prepared.static_reasons(rows))
        return keys, slots

    def scores(self, shape: Shape, row: Rows) -> list[tuple[str, int, int]]:
        """The parts of this one row's score: plugin, weight, and points before the weight.

        Raises PluginFailed.
        """
        prepared = self._questions(shape)
        _, cards = self._negated_reasons(prepared, row, prepared.static_reasons(row))
        return [
            (name, weight, int(score(row, cards)[0]))
            for name, (score, weight, _) in zip(prepared.scorers, prepared.absolute, strict=True)
        ]

    def headroom(self, shape: Shape, rows: Rows) -> IntArray:
        """An upper bound of how many pods of the shape each of these rows takes, (k,) int64.

        Raises PluginFailed.
        """
        room: IntArray = np.where(self.fits(shape, rows), MOST_PODS, 0)
        for bound in self.bounds(shape):
            room = np.minimum(room, bound(rows))
        return room

    def bounds(self, shape: Shape) -> list[RowHeadroom]:
        """The plugins' bounds of how many pods of the shape a row takes. Raises PluginFailed."""
        boundary, found = self.boundary, []
        for plugin in (*self.profile.card_filters, *self.profile.filters):
            if isinstance(plugin, CapacityBound):
                bound = boundary.call(
                    plugin,
                    CAPACITY_BOUND,
                    answer_checks.function_or_none,
                    plugin.capacity_bound,
                    shape,
                )
                check = None if self.profile.trusts(plugin) else answer_checks.row_numbers
                if bound is not None:
                    found.append(boundary.guarded(plugin, CAPACITY_BOUND, check, bound))
        return found

    def cards_of(self, shape: Shape, row: Rows) -> tuple[int, ...]:
        """The slots of the cards that the shape gets on this one row, where it must fit.

        Raises PluginFailed.
        """
        prepared = self._questions(shape)
        return prepared.best_slots(row) if prepared.count else ()

    # --- inside --------------------------------------------------------------------------------

    def _best_normalised(self, answers: CachedResults) -> Choice | None:
        fitting = np.flatnonzero(answers.keys >= 0)
        if not len(fitting):
            return None
        total = answers.keys[fitting]
        for asked, raw in zip(answers.questions.normalised, answers.raw, strict=True):
            total = total + asked.weight * asked.normaliser(raw[fitting])
        row = int(fitting[total.argmax()])
        count = answers.questions.count
        if count == 1:
            return Choice(row, (answers.slots.item(row),))
        return self._cards(answers, row, None) if count else Choice(row, ())

    def _questions(self, shape: Shape) -> PreparedPlugins:
        known = self._answers.get(shape)
        if known is None:
            self.work.other += preparing(shape, self._ledger.columns.rows)
            return PreparedPlugins(self.profile, shape, self.boundary)
        if known.failure is not None:
            raise known.failure
        return known.questions

    def _refreshed(self, shape: Shape) -> CachedResults:
        answers = self._answers.get(shape)
        if answers is None:
            answers = self._answers[shape] = self._unasked(shape)
            self._bytes += weight_of(shape)
            while len(self._answers) > SHAPES_KEPT or (
                self._bytes > MOST_BYTES and len(self._answers) > 1
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
            self._refresh(answers)
        except PluginFailed as failure:
            self._fail(shape, answers, failure)
        return answers

    def _unasked(self, shape: Shape) -> CachedResults:
        self.work.other += preparing(shape, self._ledger.columns.rows)
        try:
            return CachedResults(PreparedPlugins(self.profile, shape, self.boundary))
        except PluginFailed as failure:
            answers = CachedResults(PreparedPlugins(self._bare, shape, self.boundary))
            self._answers[shape] = answers
            self._fail(shape, answers, failure)
            return answers

    def _refresh(self, answers: CachedResults) -> None:
        ledger = self._ledger
        seen, labels_seen = answers.seen, answers.seen_labels
        answers.seen, answers.seen_labels = ledger.changed.end, ledger.relabelled.end
        if answers.layout != ledger.columns.layout:
            self._evaluate_all(answers)
            return
        if labels_seen != ledger.relabelled.end:
            relabelled = ledger.relabelled.since(labels_seen, ledger.columns.rows)
            if relabelled is None:
                self._evaluate_all(answers)
                return
            rows = SomeRows(ledger.columns, relabelled)
            answers.static[relabelled] = answers.questions.static_reasons(rows)
        if seen != ledger.changed.end:
            changed = ledger.changed.since(seen, ledger.columns.rows)
            if changed is None:
                self._evaluate_all(answers)
            else:
                self._evaluate_some(answers, changed)

    def _fail(self, shape: Shape, answers: CachedResults, failure: PluginFailed) -> None:
        answers.failure = self.failed[shape] = failure
        self.work.rows += self._ledger.columns.rows
        self._close(answers)

    def _close(self, answers: CachedResults) -> None:
        """Let no row fit, because a plugin failed."""
        failure, ledger = answers.failure, self._ledger
        if failure is not None and answers.closed_at != ledger.changed.end:
            reasons = answers.questions.reasons
            mask = reasons.register(failure.plugin, str(failure), resolvable=False)
            answers.keys = -np.where(ledger.columns.present, mask, NO_NODE)
            answers.closed_at = ledger.changed.end

    def _evaluate_all(self, answers: CachedResults) -> None:
        columns = self._ledger.columns
        rows = AllRows(columns)
        answers.layout = columns.layout
        answers.static = answers.questions.static_reasons(rows)
        keys, slots, answers.raw = self._evaluate(answers.questions, rows, answers.static)
        answers.keys = keys
        if slots is not None:
            answers.slots = slots

    def _evaluate_some(self, answers: CachedResults, index: IntArray) -> None:
        rows = SomeRows(self._ledger.columns, index)
        static = answers.static.take(index)
        keys, slots, raw = self._evaluate(answers.questions, rows, static)
        answers.keys[index] = keys
        if slots is not None:
            answers.slots[index] = slots
        for remembered, fresh in zip(answers.raw, raw, strict=True):
            remembered[index] = fresh

    def _evaluate(
        self, prepared: PreparedPlugins, rows: Rows, static: IntArray
    ) -> tuple[IntArray, IntArray | None, list[IntArray]]:
        minus, cards = self._negated_reasons(prepared, rows, static)
        self.work.rows += len(minus)
        self.work.other += ASKING
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

    def _negated_reasons(
        self, prepared: PreparedPlugins, rows: Rows, static: IntArray
    ) -> tuple[IntArray, BestCards | None]:
        """Minus each row's mask, with all reasons of its cards as NO_CARD; and the best cards.

        Masks are combined with "or". Where every reason has its own bit, that is the same as
        subtracting them one after the other.
        """
        minus = prepared.without_cards(rows, static)
        if not prepared.count:
            return minus, None
        if prepared.by_room is not None:
            ranked = prepared.by_room.take(rows.column("headroom"))
            if prepared.keeps:
                # Only idle cards have a `break_order` above 0, and an idle card fits every claim
                # that by_room covers.
                ranked -= rows.column("break_order")
        else:
            fits = prepared.card_fits(rows)
            if prepared.count > 1:
                return minus - (fits.sum(1) < prepared.count), None
            ranked = np.where(fits, prepared.rank(rows, fits), -NO_CARD)
        slot = ranked.argmax(1)
        picked = slot + self._offsets(*ranked.shape)
        # The best rank is 0 or more, or -NO_CARD where no card fits.
        return minus + np.minimum(ranked.take(picked), 0), BestCards(slot, picked)

    def _offsets(self, rows: int, width: int) -> IntArray:
        """The flat index of each row's first card in a (rows, width) column."""
        if rows > self._most_lines or width != self._width:
            self._most_lines, self._width = max(rows, 1024), width
            self._lines = np.arange(self._most_lines) * width
        return self._lines[:rows]


def failed(failure: PluginFailed) -> Diagnosis:
    """The diagnosis of a pod that waits because a plugin failed."""
    return Diagnosis(sentence=str(failure), topic=failure.topic, plugins=(failure.plugin,))


def _yes_or_no(answer: object, shape: Shape, ledger: Ledger, row: int) -> str | None:
    return answer_checks.yes_or_no(answer)
