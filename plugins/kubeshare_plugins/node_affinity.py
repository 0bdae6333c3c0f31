"""Filter: nodeSelector and required node affinity, all operators of the API."""

import numpy as np

from kubeshare_plugins.label_judge import Flags, Integers, LabelJudge
from kubeshare_py.plugin import (
    Depends,
    IntArray,
    NodeTerm,
    ReasonTable,
    Requirement,
    RowFilter,
    Rows,
    Shape,
)

#: The only field that the API allows here.
_NAME = "metadata.name"


class NodeAffinity:
    """The node selector and at least one of the affinity terms must hold."""

    name = "NodeAffinity"
    depends = Depends.STATIC

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without either."""
        if not shape.node_selector and shape.terms is None:
            return None
        mask = reasons.register(
            self.name, "node(s) didn't match Pod's node affinity/selector", resolvable=False
        )
        integers = Integers()
        selector = [
            LabelJudge(Requirement(key, "In", (value,)), integers)
            for key, value in shape.node_selector
        ]
        terms = None if shape.terms is None else [_Term(term, integers) for term in shape.terms]

        def ask(rows: Rows) -> IntArray:
            fits = np.ones(len(rows.index), np.bool_)
            for label in selector:
                fits &= label.holds(rows)
            if terms is not None:
                any_term = np.zeros(len(fits), np.bool_)
                for term in terms:
                    any_term |= term.holds(rows)
                fits &= any_term
            return np.where(fits, 0, mask)

        return ask


class _Term:
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


def _is_named(requirement: Requirement, rows: Rows) -> Flags | bool:
    """Whether the rows' names satisfy it; In and NotIn are the only operators of fields."""
    if requirement.key != _NAME or not requirement.values:
        return False
    if requirement.operator == "In":
        return rows.named(requirement.values)
    return ~rows.named(requirement.values) if requirement.operator == "NotIn" else False
