"""Which rows satisfy the terms of a node affinity."""

from collections.abc import Sequence

import numpy as np

from kubeshare_plugins.kubernetes.label_judge import Flags, Integers, LabelJudge
from kubeshare_py.domain.pod import NodePreferences
from kubeshare_py.plugin import IntArray, NodeTerm, Requirement, Rows

#: The only field that the API allows.
NAME = "metadata.name"


class TermJudge:
    """Requirements that must all hold; a term without any matches no node."""

    __slots__ = ("_fields", "_labels")

    def __init__(self, term: NodeTerm, integers: Integers) -> None:
        self._labels = [LabelJudge(one, integers) for one in term.labels]
        self._fields = term.fields

    def holds(self, rows: Rows) -> Flags:
        """Which rows satisfy the term; shape (k,) bool."""
        held: Flags = np.full(len(rows.index), bool(self._labels or self._fields))
        for label in self._labels:
            held &= label.holds(rows)
        for requirement in self._fields:
            held &= _is_named(requirement, rows)
        return held


class AnyTerm:
    """Terms of which one must hold."""

    __slots__ = ("_terms",)

    def __init__(self, terms: Sequence[NodeTerm], integers: Integers) -> None:
        self._terms = [TermJudge(term, integers) for term in terms]

    def holds(self, rows: Rows) -> Flags:
        """Which rows satisfy one of them; shape (k,) bool."""
        held: Flags = np.zeros(len(rows.index), np.bool_)
        for term in self._terms:
            held |= term.holds(rows)
        return held


class WeighedTerms:
    """Terms that count, each with its weight."""

    __slots__ = ("_terms",)

    def __init__(self, preferences: Sequence[NodePreferences], integers: Integers) -> None:
        self._terms = [
            (weight, TermJudge(term, integers))
            for one in preferences
            for weight, term in zip(one.weights, one.terms, strict=True)
        ]

    def sums(self, rows: Rows) -> IntArray:
        """The weights of the terms that hold, summed; shape (k,) int64."""
        total: IntArray = np.zeros(len(rows.index), np.int64)
        for weight, term in self._terms:
            total += weight * term.holds(rows)
        return total


def named_nodes(terms: Sequence[NodeTerm]) -> frozenset[str] | None:
    """The nodes that the terms name, if each names some; None if other nodes may satisfy one."""
    found: set[str] = set()
    for term in terms:
        listed = [
            frozenset(one.values) for one in term.fields if (one.key, one.operator) == (NAME, "In")
        ]
        if not listed:
            return None
        found |= frozenset.intersection(*listed)
    return frozenset(found) if terms else None


def _is_named(requirement: Requirement, rows: Rows) -> Flags | bool:
    """Whether the rows' names satisfy it; In and NotIn are the only operators of fields."""
    if requirement.key != NAME or not requirement.values:
        return False
    if requirement.operator == "In":
        return rows.named(requirement.values)
    return ~rows.named(requirement.values) if requirement.operator == "NotIn" else False
