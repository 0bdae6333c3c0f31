"""Which rows satisfy a requirement on a label; each distinct value is judged once."""

import re
from collections.abc import Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.plugin import Requirement, Rows

Flags = NDArray[np.bool_]

_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")
_INT64 = 1 << 63
_SETS = ("In", "NotIn")
_NUMBERS = ("Gt", "Lt")
_NOTHING: Mapping[str | None, int] = {}


def matches(requirement: Requirement, value: str | None) -> bool:
    """Whether a label with this value (None: not set) satisfies the requirement.

    An unknown operator is never satisfied.
    """
    judge = LabelJudge(requirement, Integers())
    return judge.verdict(value)


class Integers:
    """Label values as integers: each is parsed once for all requirements that compare it."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: dict[str, int | None] = {}

    def of(self, text: str) -> int | None:
        """A 64 bit integer as Go's ParseInt accepts it.

        Python's int accepts more, such as `1_000`.
        """
        if text not in self._read:
            number = int(text) if _INTEGER.fullmatch(text) else _INT64
            self._read[text] = number if -_INT64 <= number < _INT64 else None
        return self._read[text]


class LabelJudge:
    """One requirement of one question, and its verdict on each value of its label.

    Values of a label are numbered, and numbers are only added while its column is the same object.
    """

    __slots__ = ("_bound", "_integers", "_operator", "_values", "_verdicts", "_wanted", "key")

    def __init__(self, requirement: Requirement, integers: Integers) -> None:
        """`integers` may be shared by all requirements of one question."""
        self.key = requirement.key
        self._operator = requirement.operator
        self._integers = integers
        self._wanted = frozenset(requirement.values if self._operator in _SETS else ())
        self._bound: int | None = None
        # Gt and Lt compare with one integer (apimachinery labels.Requirement).
        if self._operator in _NUMBERS and len(requirement.values) == 1:
            self._bound = integers.of(requirement.values[0])
        self._values = _NOTHING
        self._verdicts: Flags = np.zeros(0, np.bool_)

    def holds(self, rows: Rows) -> Flags:
        """Which rows satisfy the requirement; shape (k,) bool."""
        numbers, values = rows.label_numbers(self.key)
        if values is not self._values:
            self._values, self._verdicts = values, np.zeros(0, np.bool_)
        known = len(self._verdicts)
        if known < len(values):
            self._verdicts = np.append(self._verdicts, self._judged(values, known))
        held: Flags = self._verdicts[numbers]
        return held

    def verdict(self, value: str | None) -> bool:
        """Whether a label with this value (None: not set) satisfies the requirement."""
        match self._operator:
            case "In":
                return value in self._wanted
            case "NotIn":
                # Without values it is malformed, and a malformed requirement must not open a node.
                return bool(self._wanted) and value not in self._wanted
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
            case _:
                return False

    def _compares(self, value: str) -> bool:
        if self._bound is None:
            return False
        number = self._integers.of(value)
        if number is None:
            return False
        return number > self._bound if self._operator == "Gt" else number < self._bound

    def _judged(self, values: Mapping[str | None, int], known: int) -> Flags:
        """Verdicts on the values from number `known` on."""
        wanted = self._wanted
        if known == 0 and wanted and len(wanted) < len(values):
            # Few values are wanted of many: only these are looked up.
            listed = np.zeros(len(values), np.bool_)
            listed[[values[value] for value in wanted if value in values]] = True
            return listed if self._operator == "In" else ~listed
        fresh = islice(values, known, None)
        return np.fromiter(map(self.verdict, fresh), np.bool_, len(values) - known)
