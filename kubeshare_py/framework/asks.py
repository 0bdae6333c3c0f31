"""Puts a profile's questions to the cluster and remembers the answers by shape.

For each of the last 256 shapes one number per row is kept: the row's score (0 or more) where the
shape fits, minus its mask of reasons where it does not. Asking for a shape again costs the rows
that changed since, and one argmax.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, Rows, SomeRows
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import MOST_PODS, AtMost, Cards, Hint
from kubeshare_py.framework.questions import Questions
from kubeshare_py.framework.reasons import NO_CARD, NO_NODE, Reason
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.topology.company import Company

SHAPES_KEPT = 256


@dataclass(slots=True)
class Choice:
    """The best row for a shape, and which card slots of it, best first."""

    row: int
    slots: tuple[int, ...]


@dataclass(slots=True)
class Work:
    """How many rows were asked about so far: what the work of a turn is bounded by."""

    rows: int = 0


class Answers:
    """The answers about one shape, row by row."""

    __slots__ = ("keys", "layout", "questions", "raw", "seen", "seen_labels", "slots", "static")

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        self.layout = -1
        self.seen = self.seen_labels = 0
        self.keys = self.slots = self.static = np.zeros(0, np.int64)
        self.raw: list[IntArray] = []


class Asker:
    """Asks one profile's plugins about one ledger."""

    def __init__(self, profile: Profile, ledger: Ledger, work: Work | None = None) -> None:
        """`work` counts what was asked; several askers may share one."""
        self._profile = profile
        self._ledger = ledger
        self._answers: OrderedDict[Shape, Answers] = OrderedDict()
        self._lines = np.arange(0)
        self._most_lines = self._width = 0
        self._hints = [
            plugin
            for plugin in (*profile.card_filters, *profile.filters)
            if isinstance(plugin, Hint)
        ]
        self.work = work or Work()

    @property
    def changes(self) -> int:
        """Grows with every change of the ledger: the same number, the same answers."""
        return self._ledger.changed.end

    def best(self, shape: Shape) -> Choice | None:
        """Where the shape goes; None when it fits nowhere."""
        answers = self._refreshed(shape)
        keys = answers.keys
        if not len(keys):
            return None
        normalised = answers.questions.normalised
        row = _best_normalised(answers) if normalised else int(keys.argmax())
        if keys.item(row) < 0:
            return None
        return self._choice(answers, row)

    def best_among(self, shape: Shape, rows: IntArray) -> Choice | None:
        """Where the shape goes if it must be one of these rows; no score is normalised."""
        answers = self._refreshed(shape)
        keys = answers.keys.take(rows)
        at = int(keys.argmax())
        return self._choice(answers, rows.item(at)) if keys.item(at) >= 0 else None

    def at(self, shape: Shape, row: int, company: Company | None = None) -> Choice | None:
        """The cards of this row for the shape; None if it does not fit there.

        For a member of a gang near those that the others have, or will have.
        """
        answers = self._refreshed(shape)
        if answers.keys.item(row) < 0:
            return None
        count, columns = answers.questions.count, self._ledger.columns
        if company is None or not count:
            return self._choice(answers, row)
        if count == 1 and company.taken & columns.bit.item(row, answers.slots.item(row)):
            return self._choice(answers, row)  # the gang has the best card already
        asked = SomeRows(columns, np.array([row]))
        return Choice(row, answers.questions.best_slots(asked, company))

    def _choice(self, answers: Answers, row: int) -> Choice:
        count = answers.questions.count
        if count == 1:
            return Choice(row, (answers.slots.item(row),))
        asked = SomeRows(self._ledger.columns, np.array([row]))
        return Choice(row, answers.questions.best_slots(asked) if count else ())

    def keys(self, shape: Shape) -> IntArray:
        """One number per row, 0 or more where the shape fits; not to be changed."""
        return self._refreshed(shape).keys

    def keys_on(self, shape: Shape, rows: Rows) -> IntArray:
        """What `keys` would be if the rows were these, but for scores: 0 where the shape fits."""
        questions = self._questions(shape)
        minus, _ = self._minus(questions, rows, questions.static_reasons(rows))
        return minus

    def fits_any(self, shape: Shape, rows: IntArray) -> bool:
        """Whether the shape fits one of these rows, without touching what is remembered."""
        return not self.keys_on(shape, SomeRows(self._ledger.columns, rows)).all()

    def may_fit(self, shape: Shape, row: int) -> bool:
        """Whether no plugin says that this row certainly does not fit; cheap."""
        return all(plugin.may_fit(shape, self._ledger, row) for plugin in self._hints)

    def masks(self, shape: Shape) -> IntArray:
        """The mask of reasons of every row, 0 where it fits; rows without a node carry NO_NODE."""
        answers = self._refreshed(shape)
        masks: IntArray = np.maximum(-answers.keys, 0)
        if answers.questions.count:
            rows = np.flatnonzero(masks & NO_CARD)
            masks[rows] &= ~NO_CARD
            masks[rows] |= answers.questions.card_reasons(SomeRows(self._ledger.columns, rows))
        return masks

    def diagnose(self, shape: Shape) -> Diagnosis:
        """Why the shape fits nowhere now: how many nodes give which reason."""
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
            nodes=nodes, counts=tuple(sorted(totals.items())), plugins=tuple(sorted(plugins))
        )

    def reasons_in(self, shape: Shape, mask: int) -> list[Reason]:
        """The reasons in a mask that `masks` gave for this shape."""
        return self._refreshed(shape).questions.reasons.of(mask)

    def reason_set(self, shape: Shape) -> int:
        """All reasons of rows as bits, those of cards as one: cheap, to see changes."""
        keys = self._refreshed(shape).keys
        return int(np.bitwise_or.reduce(np.maximum(-keys, 0))) & ~NO_NODE

    def within_reach(self, shape: Shape) -> IntArray:
        """The rows that lack only what evicting pods could give."""
        answers = self._refreshed(shape)
        questions, masks = answers.questions, np.maximum(-answers.keys, 0)
        hopeless = questions.reasons.unresolvable
        near: IntArray = np.flatnonzero((masks & (hopeless | NO_NODE) == 0) & (masks > 0))
        if not questions.count:
            return near
        rows = SomeRows(self._ledger.columns, near)
        useful = questions.combined_reasons(rows) & questions.reasons.unresolvable == 0
        enough: IntArray = near[useful.sum(1) >= questions.count]
        return enough

    def fits(self, shape: Shape, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows the shape fits; they need not be those of the tables."""
        self.work.rows += len(rows.index)
        fitting: NDArray[np.bool_] = self.keys_on(shape, rows) == 0
        return fitting

    def lack_only_cards(self, shape: Shape, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows fit but for their cards."""
        questions = self._questions(shape)
        only: NDArray[np.bool_] = questions.without_cards(rows, questions.static_reasons(rows)) == 0
        return only

    def rate(self, shape: Shape, rows: Rows) -> tuple[IntArray, IntArray | None]:
        """How good each of these rows is for the shape, as `keys`, not normalised.

        Also each row's best card slot, if the shape claims one card.
        """
        questions = self._questions(shape)
        keys, slots, _ = self._ask(questions, rows, questions.static_reasons(rows))
        return keys, slots

    def room(self, shape: Shape, rows: Rows) -> IntArray:
        """No more pods of the shape than so many fit on each of these rows."""
        plugins = (*self._profile.card_filters, *self._profile.filters)
        bounds = [plugin.at_most(shape) for plugin in plugins if isinstance(plugin, AtMost)]
        room: IntArray = np.where(self.fits(shape, rows), MOST_PODS, 0)
        for bound in bounds:
            if bound is not None:
                room = np.minimum(room, bound(rows))
        return room

    def cards_of(self, shape: Shape, row: Rows) -> tuple[int, ...]:
        """Which card slots of this one row the shape gets; it must fit there."""
        questions = self._questions(shape)
        return questions.best_slots(row) if questions.count else ()

    # --- inside --------------------------------------------------------------------------------

    def _questions(self, shape: Shape) -> Questions:
        known = self._answers.get(shape)
        return known.questions if known else Questions(self._profile, shape)

    def _refreshed(self, shape: Shape) -> Answers:
        answers = self._answers.get(shape)
        if answers is None:
            answers = Answers(Questions(self._profile, shape))
            self._answers[shape] = answers
            if len(self._answers) > SHAPES_KEPT:
                self._answers.popitem(last=False)
        else:
            self._answers.move_to_end(shape)
        ledger = self._ledger
        seen, labels_seen = answers.seen, answers.seen_labels
        answers.seen, answers.seen_labels = ledger.changed.end, ledger.relabelled.end
        if answers.layout != ledger.columns.layout:
            self._ask_all(answers)
            return answers
        if labels_seen != ledger.relabelled.end:
            relabelled = ledger.relabelled.since(labels_seen, ledger.columns.rows)
            if relabelled is None:
                self._ask_all(answers)
                return answers
            rows = SomeRows(ledger.columns, relabelled)
            answers.static[relabelled] = answers.questions.static_reasons(rows)
        if seen != ledger.changed.end:
            changed = ledger.changed.since(seen, ledger.columns.rows)
            if changed is None:
                self._ask_all(answers)
            else:
                self._ask_some(answers, changed)
        return answers

    def _ask_all(self, answers: Answers) -> None:
        columns = self._ledger.columns
        rows = AllRows(columns)
        answers.layout = columns.layout
        answers.static = answers.questions.static_reasons(rows)
        keys, slots, answers.raw = self._ask(answers.questions, rows, answers.static)
        answers.keys = keys
        if slots is not None:
            answers.slots = slots

    def _ask_some(self, answers: Answers, index: IntArray) -> None:
        rows = SomeRows(self._ledger.columns, index)
        static = answers.static.take(index)
        keys, slots, raw = self._ask(answers.questions, rows, static)
        answers.keys[index] = keys
        if slots is not None:
            answers.slots[index] = slots
        for remembered, fresh in zip(answers.raw, raw, strict=True):
            remembered[index] = fresh

    def _ask(
        self, questions: Questions, rows: Rows, static: IntArray
    ) -> tuple[IntArray, IntArray | None, list[IntArray]]:
        minus, cards = self._minus(questions, rows, static)
        self.work.rows += len(minus)
        total: IntArray | int = 0
        for score, weight in questions.absolute:
            points = score(rows, cards)
            if weight != 1:
                points = points * weight
            total = points if isinstance(total, int) else total + points
        keys: IntArray = np.where(minus, minus, total)
        raw = [asked.score(rows, cards) for asked in questions.normalised]
        return keys, cards.slot if cards else None, raw

    def _minus(
        self, questions: Questions, rows: Rows, static: IntArray
    ) -> tuple[IntArray, Cards | None]:
        """Minus each row's reasons, those of its cards only as NO_CARD; and the best card.

        While every plugin has bits of its own, taking away is what setting bits would be.
        """
        minus = questions.without_cards(rows, static)
        if not questions.count:
            return minus, None
        if questions.by_room is not None:
            ranked = questions.by_room.take(rows.column("room"))
            if questions.keeps:
                # Only idle cards are kept, and an idle card fits whatever may be asked by room.
                ranked -= rows.column("keep")
        else:
            fits = questions.card_fits(rows)
            if questions.count > 1:
                return minus - (fits.sum(1) < questions.count), None
            ranked = np.where(fits, questions.rank(rows), -NO_CARD)
        slot = ranked.argmax(1)
        picked = slot + self._offsets(*ranked.shape)
        # The best rank is 0 or more, or -NO_CARD where no card fits.
        return minus + np.minimum(ranked.take(picked), 0), Cards(slot, picked)

    def _offsets(self, rows: int, width: int) -> IntArray:
        """Flat index of each row's first card."""
        if rows > self._most_lines or width != self._width:
            self._most_lines, self._width = max(rows, 1024), width
            self._lines = np.arange(self._most_lines) * width
        return self._lines[:rows]


def _best_normalised(answers: Answers) -> int:
    fitting = np.flatnonzero(answers.keys >= 0)
    if not len(fitting):
        return 0
    total = answers.keys[fitting]
    for asked, raw in zip(answers.questions.normalised, answers.raw, strict=True):
        total = total + asked.weight * asked.normaliser(raw[fitting])
    return int(fitting[total.argmax()])
