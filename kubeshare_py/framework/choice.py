"""Chooses a row for a shape, and its cards there, from cached results."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.framework.result_cache import CachedResults
from kubeshare_py.framework.scores import Normalised
from kubeshare_py.topology.gang_context import GangContext


@dataclass(slots=True)
class Choice:
    """The best row for a shape, and the slots of its cards there, claim by claim."""

    row: int
    slots: tuple[int, ...]


def best_row(answers: CachedResults, columns: Columns) -> int | None:
    """The row with the highest score; None if the shape fits nowhere.

    Raises PluginFailed if a normaliser fails.
    """
    keys = answers.keys
    if not len(keys):
        return None
    if answers.normal or answers.questions.cluster_scores:
        return _best_normalised(answers, np.flatnonzero(keys >= 0), columns)
    row = int(keys.argmax())
    return row if keys.item(row) >= 0 else None


def best_row_among(answers: CachedResults, rows: IntArray, columns: Columns) -> int | None:
    """The best of these rows, (k,) int64; None if the shape fits none of them.

    Normalised scores are relative to those that fit. Raises PluginFailed if a normaliser fails.
    """
    keys = answers.keys.take(rows)
    if answers.normal or answers.questions.cluster_scores:
        return _best_normalised(answers, rows[keys >= 0], columns)
    at = int(keys.argmax())
    return rows.item(at) if keys.item(at) >= 0 else None


def cards_on(
    row: int, answers: CachedResults, columns: Columns, gang_context: GangContext | None = None
) -> Choice:
    """The shape's best cards on a row where it fits.

    With a context, cards near those that the pod's gang has there, or is to get. Raises
    PluginFailed.
    """
    asked = answers.questions.claim
    if not answers.questions.asks_cards:
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
    total: IntArray = answers.keys[fitting]
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
