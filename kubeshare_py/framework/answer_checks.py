"""The checks of plugins' answers, one for each extension point.

A check returns a sentence that says what is wrong with the answer, or None. Arrays of numbers may
have any signed integer type. Shapes are (k,) for k rows and (k, width) for the cards of k rows.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.printable import MAX_TEXT, on_one_line, value_text
from kubeshare_py.domain.storage import ObjectRef, ObjectWrite
from kubeshare_py.framework.points import (
    ByHeadroom,
    CardPredicate,
    CardPreselection,
    CardSetScore,
    Ready,
    Rejected,
    Wait,
)
from kubeshare_py.framework.scores import MAX_SCORE

#: Characters of a wrong answer that are shown.
_MAX_SHOWN = 60


def answered(answer: object, wanted: str) -> str:
    """The sentence about an answer that is not what the contract allows."""
    if isinstance(answer, np.ndarray):
        shown = f"an array of {answer.dtype} of shape {answer.shape}"
    else:
        shown = on_one_line(value_text(answer, MAX_TEXT))
        shown = shown if len(shown) <= _MAX_SHOWN else f"a {type(answer).__name__}"
    return f"answered {shown}, not {wanted}"


def function_or_none(answer: object) -> str | None:
    """Check the question of a filter, a score or a bound: a function, or None."""
    return None if answer is None or callable(answer) else answered(answer, "a function or None")


def function(answer: object) -> str | None:
    """Check a question that is required: a function."""
    return None if callable(answer) else answered(answer, "a function")


def card_predicate(answer: object) -> str | None:
    """Check the answer of `CardFilter.card_filter`: a CardPredicate, or None."""
    if answer is None:
        return None
    if not isinstance(answer, CardPredicate):
        return answered(answer, "a CardPredicate or None")
    least = answer.least_headroom
    if least is not None and not (_is_integer(least) and 0 <= least <= WHOLE_MILLI + 1):
        return answered(least, f"a least_headroom of 0 to {WHOLE_MILLI}")
    return None


def card_rank(answer: object) -> str | None:
    """Check the answer of `CardScore.card_score`.

    A CardRank, a ByHeadroom, a CardSetScore, a CardPreselection, or None.

    The ranks of a ByHeadroom are integers of 0 or more, shape (1001,).
    """
    if isinstance(answer, ByHeadroom):
        ranks = answer.ranks
        bad = _array(ranks, (WHOLE_MILLI + 1,)) is not None or ranks.min() < 0
        return answered(ranks, f"{WHOLE_MILLI + 1} ranks of 0 or more") if bad else None
    if isinstance(answer, CardSetScore | CardPreselection):
        return None
    return function_or_none(answer)


def row_masks(registered: Callable[[], int]) -> Callable[[object, Rows], str | None]:
    """Make the check of a filter's answer: a mask for each row, shape (k,), or None.

    `registered` returns the bits that the filter may set.
    """

    def check(answer: object, rows: Rows) -> str | None:
        if answer is None:
            return None
        return _array(answer, (len(rows.index),)) or _bits(answer, registered())

    return check


def card_masks(registered: Callable[[], int]) -> Callable[[object, Rows], str | None]:
    """Make the check of a card filter's reasons: a mask for each card, shape (k, width).

    `registered` returns the bits that the card filter may set.
    """

    def check(answer: object, rows: Rows) -> str | None:
        return _array(answer, _of_cards(rows)) or _bits(answer, registered())

    return check


def card_fits(answer: object, rows: Rows) -> str | None:
    """Check which cards fit, as a card filter answers it: bool, shape (k, width)."""
    shape = _of_cards(rows)
    if isinstance(answer, np.ndarray) and answer.dtype == np.bool_ and answer.shape == shape:
        return None
    return answered(answer, f"an array of bool of shape {shape}")


def row_numbers(answer: object, rows: Rows, *_: object) -> str | None:
    """Check a score or a bound: an integer for each row, shape (k,)."""
    return _array(answer, (len(rows.index),))


def card_numbers(answer: object, rows: Rows) -> str | None:
    """Check a card rank: an integer for each card, shape (k, width)."""
    return _array(answer, _of_cards(rows))


def normalised(answer: object, raw: IntArray) -> str | None:
    """Check a normaliser's answer: 0 to 100 for each row, with the shape (k,) of `raw`."""
    if not isinstance(answer, np.ndarray) or answer.dtype.kind != "i" or answer.shape != raw.shape:
        return _array(answer, raw.shape)
    return scores(answer, np.ones(answer.shape, np.bool_))


def scores(points: IntArray, counting: NDArray[np.bool_]) -> str | None:
    """Check that points are 0 to 100 where they count.

    `points` are integers and `counting` is bool, both of shape (k,).
    """
    return _within(points, counting, 0, MAX_SCORE)


def ranks(points: IntArray, counting: NDArray[np.bool_]) -> str | None:
    """Check that ranks are 0 or more where they count.

    `points` are integers and `counting` is bool, both of shape (k, width).
    """
    return _within(points, counting, 0, None)


def slots(answer: object, count: int, fits: NDArray[np.bool_]) -> str | None:
    """Check the cards that a CardSetScore chose: `count` different slots of cards that fit.

    `fits` has the shape (width,).
    """
    wanted = f"{count} different cards that fit"
    if not isinstance(answer, tuple) or not all(_is_integer(slot) for slot in answer):
        return answered(answer, wanted)
    known = [slot for slot in answer if 0 <= slot < len(fits) and fits[slot]]
    right = len(answer) == count == len({*known})
    return None if right else answered(answer, wanted)


def left(answer: object, count: int, fits: NDArray[np.bool_]) -> str | None:
    """Check the cards that a CardPreselection leaves: `count` or more of the cards that fit.

    The answer and `fits` are bool, shape (width,).
    """
    wrong = answered(answer, f"at least {count} of the cards that fit")
    if not isinstance(answer, np.ndarray) or answer.dtype != np.bool_ or answer.shape != fits.shape:
        return wrong
    # (width,): no card that does not fit, and enough of those that do.
    return wrong if (answer & ~fits).any() or answer.sum() < count else None


def yes_or_no(answer: object) -> str | None:
    """Check that the answer is True or False."""
    return None if isinstance(answer, bool | np.bool_) else answered(answer, "True or False")


def sentence_or_none(answer: object) -> str | None:
    """Check the answer of a PreEnqueue or Permit plugin: a sentence, or None."""
    return None if answer is None or isinstance(answer, str) else answered(answer, "str or None")


def pre_bind_answer(answer: object) -> str | None:
    """Check the answer of a PreBind plugin: Ready, Wait or Rejected, with values of their types."""
    if isinstance(answer, Wait):
        return _wait(answer)
    is_text = isinstance(answer, Rejected) and isinstance(answer.sentence, str)
    if isinstance(answer, Ready) or is_text:
        return None
    return answered(answer, "Ready, Wait or Rejected with a sentence")


def _wait(answer: Wait) -> str | None:
    wanted = None
    if not isinstance(answer.sentence, str) or not isinstance(answer.late, str):
        wanted = "a Wait with two sentences"
    elif not all(isinstance(one, ObjectWrite) for one in _listed(answer.writes)):
        wanted = "a Wait with a tuple of writes"
    elif not all(isinstance(one, ObjectRef) for one in _listed(answer.on)):
        wanted = "a Wait on a tuple of ObjectRefs"
    elif not isinstance(answer.for_s, int | float) or not answer.for_s > 0:
        wanted = "a Wait for more than 0 s"
    return None if wanted is None else answered(answer, wanted)


def _listed(values: object) -> tuple[object, ...]:
    """The values of a tuple; None, which no check accepts, for anything else."""
    return values if isinstance(values, tuple) else (None,)


def names(answer: object) -> str | None:
    """Check the answer of a Locality plugin: names of labels."""
    if isinstance(answer, tuple | list) and all(isinstance(name, str) for name in answer):
        return None
    return answered(answer, "names of labels")


def whole_number(answer: object) -> str | None:
    """Check that the answer is an integer."""
    return None if _is_integer(answer) else answered(answer, "an integer")


class SortKeys:
    """The check of one queue's sort keys.

    The first key sets how many parts all keys have and of which types they are: keys of other types
    could not be compared with those in the queue.
    """

    def __init__(self) -> None:
        self._types: tuple[type, ...] | None = None

    def for_question(self) -> "SortKeys":
        """Keys that compare with these, and set nothing here."""
        keys = SortKeys()
        keys._types = self._types
        return keys

    def check(self, answer: object) -> str | None:
        """Check the answer of a QueueSort plugin.

        A tuple of int and str, typed as the first one was.
        """
        if not isinstance(answer, tuple) or not answer:
            return answered(answer, "a tuple of int and str")
        types = tuple(int if _is_integer(part) else type(part) for part in answer)
        if not {*types} <= {int, str}:
            return answered(answer, "a tuple of int and str")
        if self._types is None:
            self._types = types
        if types != self._types:
            wanted = ", ".join(kind.__name__ for kind in self._types)
            return answered(answer, f"({wanted}) as before")
        return None

    def last(self, unique: str) -> tuple[int | str, ...]:
        """A key behind all others, for a pod whose QueueSort plugin failed."""
        types = self._types or (int, str)
        first = [1 << 62 if kind is int else "\U0010ffff" for kind in types[:-1]]
        return (*first, unique if types[-1] is str else 1 << 62)


def each(found: Iterable[Any], kind: type) -> list[Any]:
    """The answers as a list; raises TypeError if one of them is not of this type."""
    listed = list(found)
    for one in listed:
        if not isinstance(one, kind):
            raise TypeError(answered(one, f"a {kind.__name__}"))
    return listed


def _is_integer(answer: object) -> bool:
    return isinstance(answer, int | np.integer) and not isinstance(answer, bool)


def _of_cards(rows: Rows) -> tuple[int, ...]:
    return rows.flags.shape


def _array(answer: object, shape: tuple[int, ...]) -> str | None:
    if isinstance(answer, np.ndarray) and answer.dtype.kind == "i" and answer.shape == shape:
        return None
    return answered(answer, f"an array of integers of shape {shape}")


def _bits(answer: Any, registered: int) -> str | None:
    strange = answer & ~registered
    if not strange.any():
        return None
    # (k,) or (k, width): the mask of the first entry with a strange bit, for the text.
    return answered(answer.ravel()[strange.ravel().argmax()].item(), "bits that it registered")


def _within(
    points: IntArray, counting: NDArray[np.bool_], least: int, most: int | None
) -> str | None:
    bad = counting & (points < least)
    if most is not None:
        bad |= counting & (points > most)
    if not bad.any():
        return None
    # (k,) or (k, width): argmax of bool is the first that is True.
    first = points.ravel()[int(bad.ravel().argmax())].item()
    return f"answered {first}, not {least} to {most}" if most else f"answered {first}, below 0"
