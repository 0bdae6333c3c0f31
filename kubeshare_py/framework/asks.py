"""Puts a profile's questions to the cluster and remembers the answers by shape.

For each of the last 256 shapes one number per row is kept: the row's score (0 or more) where the
shape fits, minus its mask of reasons where it does not. Asking for a shape again costs the rows that
changed since, and one argmax.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, Rows, SomeRows
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import CardMask, CardRank, Cards, Depends, RowFilter, RowScore
from kubeshare_py.framework.profile import Profile
from kubeshare_py.framework.reasons import NO_NODE, ReasonTable
from kubeshare_py.framework.scores import Normalised

SHAPES_KEPT = 256


@dataclass(frozen=True, slots=True)
class Choice:
    """The best row for a shape, and which card slots of it, best first."""

    row: int
    slots: tuple[int, ...]


class Questions:
    """What a profile asks about one shape: its plugins, prepared."""

    __slots__ = ("absolute", "card_masks", "count", "normalised", "ranks", "row_filters", "static")

    def __init__(self, profile: Profile, shape: Shape, reasons: ReasonTable) -> None:
        self.static: list[RowFilter] = []
        self.row_filters: list[RowFilter] = []
        for plugin in profile.filters:
            question = plugin.filter(shape, reasons)
            if question is not None:
                static = plugin.depends is Depends.STATIC
                (self.static if static else self.row_filters).append(question)
        self.card_masks: list[CardMask] = []
        self.ranks: list[tuple[CardRank, int]] = []
        self.absolute: list[tuple[RowScore, int]] = []
        self.normalised: list[Normalised] = []
        self.count = shape.claim.count if shape.claim else 0
        if self.count:
            masks = (plugin.card_filter(shape, reasons) for plugin in profile.card_filters)
            self.card_masks = [mask for mask in masks if mask is not None]
            ranks = ((plugin.card_score(shape), weight) for plugin, weight in profile.card_scores)
            self.ranks = [(rank, weight) for rank, weight in ranks if rank is not None]
        for scorer, weight in profile.scores:
            score = scorer.score(shape)
            if score is not None and scorer.normaliser is None:
                self.absolute.append((score, weight))
            elif score is not None and scorer.normaliser is not None:
                self.normalised.append(Normalised(score, scorer.normaliser, weight))


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

    def __init__(self, profile: Profile, ledger: Ledger, reasons: ReasonTable) -> None:
        self._profile = profile
        self._ledger = ledger
        self._reasons = reasons
        self._answers: OrderedDict[Shape, Answers] = OrderedDict()
        self._lines = np.arange(0)

    def best(self, shape: Shape) -> Choice | None:
        """Where the shape goes; None when it fits nowhere."""
        answers = self._refreshed(shape)
        keys = answers.keys
        if not len(keys):
            return None
        if answers.questions.normalised:
            row = _best_normalised(answers)
        else:
            row = int(keys.argmax())
        if keys[row] < 0:
            return None
        count = answers.questions.count
        if count == 1:
            return Choice(row, (answers.slots[row].item(),))
        return Choice(row, self._best_slots(answers.questions, row) if count else ())

    def fits_any(self, shape: Shape, rows: IntArray) -> bool:
        """Whether the shape fits one of these rows, without touching what is remembered."""
        known = self._answers.get(shape)
        questions = known.questions if known else Questions(self._profile, shape, self._reasons)
        asked = SomeRows(self._ledger.columns, rows)
        mask, _ = self._masks(questions, asked, self._static_masks(questions, asked))
        return not mask.all()

    def masks(self, shape: Shape) -> IntArray:
        """The mask of reasons of every row; rows without a node carry NO_NODE."""
        return np.maximum(-self._refreshed(shape).keys, 0)

    def diagnose(self, shape: Shape) -> Diagnosis:
        """Why the shape fits nowhere now: how many nodes give which reason."""
        masks, counts = np.unique(self.masks(shape), return_counts=True)
        totals: dict[str, int] = {}
        nodes = 0
        for mask, count in zip(masks.tolist(), counts.tolist(), strict=True):
            if mask & NO_NODE:
                continue
            nodes += count
            for reason in self._reasons.of(mask):
                totals[reason.text] = totals.get(reason.text, 0) + count
        return Diagnosis(nodes=nodes, counts=tuple(sorted(totals.items())))

    def reason_set(self, shape: Shape) -> int:
        """All bits that some row gives as a reason; cheap."""
        masks = self.masks(shape)
        return int(np.bitwise_or.reduce(masks)) & ~NO_NODE

    # --- inside --------------------------------------------------------------------------------

    def _refreshed(self, shape: Shape) -> Answers:
        answers = self._answers.get(shape)
        if answers is None:
            answers = Answers(Questions(self._profile, shape, self._reasons))
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
            answers.static[relabelled] = self._static_masks(answers.questions, rows)
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
        answers.static = self._static_masks(answers.questions, rows)
        answers.keys, answers.slots, answers.raw = self._ask(
            answers.questions, rows, answers.static
        )

    def _ask_some(self, answers: Answers, index: IntArray) -> None:
        rows = SomeRows(self._ledger.columns, index)
        static = answers.static.take(index)
        keys, slots, raw = self._ask(answers.questions, rows, static)
        answers.keys[index] = keys
        if answers.questions.count == 1:
            answers.slots[index] = slots
        for remembered, fresh in zip(answers.raw, raw, strict=True):
            remembered[index] = fresh

    def _static_masks(self, questions: Questions, rows: Rows) -> IntArray:
        masks: IntArray = np.where(rows.column("present"), 0, NO_NODE)
        for question in questions.static:
            masks |= question(rows)
        return masks

    def _ask(
        self, questions: Questions, rows: Rows, static: IntArray
    ) -> tuple[IntArray, IntArray, list[IntArray]]:
        mask, cards = self._masks(questions, rows, static)
        total: IntArray | int = 0
        for score, weight in questions.absolute:
            points = score(rows, cards)
            total = total + (points if weight == 1 else points * weight)
        keys: IntArray = np.where(mask == 0, total, -mask)
        raw = [asked.score(rows, cards) for asked in questions.normalised]
        return keys, cards.slot if cards else mask, raw

    def _masks(
        self, questions: Questions, rows: Rows, static: IntArray
    ) -> tuple[IntArray, Cards | None]:
        mask = static
        for question in questions.row_filters:
            mask = mask | question(rows)
        if not questions.count:
            return mask, None
        card_masks = self._card_masks(questions, rows)
        if questions.count > 1:
            return mask | self._nth_nearest(card_masks, questions.count), None
        ranked = np.where(card_masks == 0, self._rank(questions, rows), -card_masks)
        slot = ranked.argmax(1)
        picked = slot + self._offsets(*ranked.shape)
        best = ranked.ravel().take(picked)
        fits = best >= 0
        return mask | np.where(fits, 0, -best), Cards(slot, picked, fits)

    def _card_masks(self, questions: Questions, rows: Rows) -> IntArray:
        masks = [question(rows) for question in questions.card_masks]
        if not masks:
            return np.zeros_like(rows.column("flags"))
        combined = masks[0]
        for mask in masks[1:]:
            combined = combined | mask
        return combined

    def _rank(self, questions: Questions, rows: Rows) -> IntArray | int:
        total: IntArray | int = 0
        for rank, weight in questions.ranks:
            points = rank(rows)
            total = total + (points if weight == 1 else points * weight)
        return total

    def _nth_nearest(self, card_masks: IntArray, count: int) -> IntArray:
        """What the count-th nearest card of each row lacks: 0 exactly if `count` cards fit."""
        width = card_masks.shape[1]
        if count > width:
            few = self._reasons.register("framework", TOO_FEW_GPUS)
            return np.full(len(card_masks), few, np.int64)
        nth: IntArray = np.partition(card_masks, count - 1, axis=1)[:, count - 1]
        return nth

    def _best_slots(self, questions: Questions, row: int) -> tuple[int, ...]:
        rows = SomeRows(self._ledger.columns, np.array([row]))
        masks = self._card_masks(questions, rows)
        ranked = np.where(masks == 0, self._rank(questions, rows), -1)[0]
        return tuple(np.argsort(-ranked, kind="stable")[: questions.count].tolist())

    def _offsets(self, rows: int, width: int) -> IntArray:
        """Flat index of each row's first card."""
        if len(self._lines) < rows or (len(self._lines) > 1 and self._lines[1] != width):
            self._lines = np.arange(max(rows, 1024)) * width
        return self._lines[:rows]


TOO_FEW_GPUS = "too few GPUs"


def _best_normalised(answers: Answers) -> int:
    fitting = np.flatnonzero(answers.keys >= 0)
    if not len(fitting):
        return 0
    total = answers.keys[fitting]
    for asked, raw in zip(answers.questions.normalised, answers.raw, strict=True):
        total = total + asked.weight * asked.normaliser(raw[fitting])
    return int(fitting[total.argmax()])
