"""Which rows satisfy what storage objects require of nodes' labels."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.domain.label_selector import Requirement, holds
from kubeshare_py.domain.pod import NodeTerm

RowFlags = NDArray[np.bool_]

_INT64 = 1 << 63
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")


class LabelledRows(Protocol):
    """The part of `Rows` that is asked here."""

    @property
    def index(self) -> NDArray[np.int64]:
        """The numbers of the rows in the tables, (k,)."""

    def label_numbers(self, key: str) -> tuple[NDArray[np.int64], Mapping[str | None, int]]:
        """A label: the number of each row's value, (k,), and the number of each value."""

    def named(self, names: Collection[str]) -> RowFlags:
        """Which of the asked rows are nodes of these names; (k,) bool."""


class NodeLabels:
    """Judges the rows of one question; each requirement and each list of terms once.

    Answers must not be changed: they are (k,) bool for the k rows, or the positions of rows among
    them, (n,) int64. Objects that name one node each, as those of local storage do, cost little.
    """

    __slots__ = ("_by_value", "_judged", "_rows", "_terms", "count")

    def __init__(self, rows: LabelledRows) -> None:
        self._rows = rows
        self.count = len(rows.index)
        self._judged: dict[Requirement, RowFlags] = {}
        self._terms: dict[Sequence[NodeTerm], RowFlags] = {}
        self._by_value: dict[str, _RowsByValue] = {}

    def where_all_hold(self, requirements: Sequence[Requirement]) -> NDArray[np.int64]:
        """The positions of rows whose labels satisfy every requirement."""
        if len(requirements) == 1 and _is_one_value(requirements[0]):
            return self._with_value(requirements[0])
        return np.flatnonzero(self.all_hold(requirements))

    def where_any_of(self, terms: Sequence[NodeTerm] | None) -> NDArray[np.int64]:
        """The positions of rows that a volume's node affinity allows; see `any_of`."""
        if terms is not None and len(terms) == 1 and not terms[0].fields and terms[0].labels:
            return self.where_all_hold(terms[0].labels)
        return np.flatnonzero(self.any_of(terms))

    def all_hold(self, requirements: Sequence[Requirement]) -> RowFlags:
        """Rows whose labels satisfy every requirement."""
        if len(requirements) == 1:
            return self._holds(requirements[0])
        found: RowFlags = np.ones(self.count, np.bool_)
        for one in requirements:
            found &= self._holds(one)
        return found

    def any_of(self, terms: Sequence[NodeTerm] | None) -> RowFlags:
        """Rows that a volume's node affinity allows: one of the terms, or None, is satisfied."""
        if terms is None:
            return np.ones(self.count, np.bool_)
        found = self._terms.get(terms)
        if found is None:
            found = np.zeros(self.count, np.bool_)
            for term in terms:
                if _may_hold(term):
                    found |= self.all_hold(term.labels)
            self._terms[terms] = found
        return found

    def _with_value(self, requirement: Requirement) -> NDArray[np.int64]:
        found = self._by_value.get(requirement.key)
        if found is None:
            found = self._by_value[requirement.key] = _RowsByValue(self._rows, requirement.key)
        return found.of(requirement.values[0])

    def _holds(self, requirement: Requirement) -> RowFlags:
        known = self._judged.get(requirement)
        if known is None:
            numbers, values = self._rows.label_numbers(requirement.key)
            known = self._judged[requirement] = _verdicts(requirement, values)[numbers]
        return known


class _RowsByValue:
    """The positions of rows by their value of one label."""

    __slots__ = ("_numbers", "_order", "_starts")

    def __init__(self, rows: LabelledRows, key: str) -> None:
        codes, self._numbers = rows.label_numbers(key)
        self._order: NDArray[np.int64] = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[self._order], np.arange(len(self._numbers) + 1))
        self._starts: list[int] = bounds.tolist()

    def of(self, value: str) -> NDArray[np.int64]:
        """The positions of rows with this value, (n,)."""
        number = self._numbers.get(value)
        if number is None:
            return self._order[:0]
        return self._order[self._starts[number] : self._starts[number + 1]]


def node_label_holds(requirement: Requirement, value: str | None) -> bool:
    """Whether a node's label of this value, None without it, satisfies the requirement."""
    key, operator = requirement.key, requirement.operator
    if operator not in ("Gt", "Lt"):
        return holds(requirement, {} if value is None else {key: value})
    bounds = [_integer(one) for one in requirement.values]
    number = None if value is None else _integer(value)
    if len(bounds) != 1 or bounds[0] is None or number is None:
        return False
    return number > bounds[0] if operator == "Gt" else number < bounds[0]


def _may_hold(term: NodeTerm) -> bool:
    """Whether a term is not empty, and its fields hold for a node without a name.

    kube-scheduler shows a volume's node affinity only the node's labels.
    """
    if not all(node_label_holds(one, "") for one in term.fields):
        return False
    return bool(term.labels or term.fields)


def _is_one_value(requirement: Requirement) -> bool:
    return requirement.operator == "In" and len(requirement.values) == 1


def _verdicts(requirement: Requirement, values: Mapping[str | None, int]) -> RowFlags:
    """The verdict on each value of a label, by its number."""
    if requirement.operator == "In" and len(requirement.values) < len(values):
        found: RowFlags = np.zeros(len(values), np.bool_)
        found[[values[one] for one in requirement.values if one in values]] = True
        return found
    return np.fromiter(
        (node_label_holds(requirement, value) for value in values), np.bool_, len(values)
    )


def _integer(text: str) -> int | None:
    """A 64 bit integer in decimal, as Go reads it: with a sign, without spaces and underscores."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None
