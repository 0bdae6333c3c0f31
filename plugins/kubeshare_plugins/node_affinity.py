"""Filter: nodeSelector and required node affinity, all operators of the API."""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.pod import NodeTerm, Requirement, Shape
from kubeshare_py.framework.points import Depends, RowFilter
from kubeshare_py.framework.reasons import ReasonTable

_Flags = NDArray[np.bool_]

_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")
_INT64 = 1 << 63

_OPERATORS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, wanted: value is not None and value in wanted,
    # Without values it is malformed, and what is malformed must not open a node.
    "NotIn": lambda value, wanted: bool(wanted) and (value is None or value not in wanted),
    "Exists": lambda value, wanted: value is not None,
    "DoesNotExist": lambda value, wanted: value is None,
    "Gt": lambda value, wanted: _compare(value, wanted, 1),
    "Lt": lambda value, wanted: _compare(value, wanted, -1),
}


def matches(requirement: Requirement, value: str | None) -> bool:
    """Whether a label with this value (None: not set) satisfies the requirement.

    An operator that is not known is satisfied by nothing.
    """
    operator = _OPERATORS.get(requirement.operator)
    return operator is not None and operator(value, requirement.values)


def _compare(value: str | None, wanted: tuple[str, ...], sign: int) -> bool:
    """Gt and Lt compare with one integer, and only integers (apimachinery labels.Requirement)."""
    if value is None or len(wanted) != 1:
        return False
    label, bound = _integer(value), _integer(wanted[0])
    return label is not None and bound is not None and sign * (label - bound) > 0


def _integer(text: str) -> int | None:
    """A 64 bit integer as Go's ParseInt reads it; Python's int takes more, `1_000` for example."""
    number = int(text) if _INTEGER.fullmatch(text) else _INT64
    return number if -_INT64 <= number < _INT64 else None


class NodeAffinity:
    """The node selector and at least one of the affinity terms must hold."""

    name = "NodeAffinity"
    depends = Depends.STATIC

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """Nothing to ask of pods that do not mind."""
        if not shape.node_selector and shape.terms is None:
            return None
        mask = reasons.register(
            self.name, "node(s) didn't match Pod's node affinity/selector", resolvable=False
        )
        selector = NodeTerm(
            labels=tuple(Requirement(key, "In", (value,)) for key, value in shape.node_selector)
        )
        terms = shape.terms

        def ask(rows: Rows) -> IntArray:
            fits = np.ones(len(rows.index), np.bool_)
            if selector.labels:
                fits &= _holds(selector, rows)
            if terms is not None:
                any_term = np.zeros(len(fits), np.bool_)
                for term in terms:
                    any_term |= _holds(term, rows)
                fits &= any_term
            return np.where(fits, 0, mask)

        return ask


def _holds(term: NodeTerm, rows: Rows) -> _Flags:
    """Whether every requirement of a term holds; an empty term matches no node."""
    if not term.labels and not term.fields:
        return np.zeros(len(rows.index), np.bool_)
    held = np.ones(len(rows.index), np.bool_)
    for requirement in term.labels:
        numbers, values = rows.labels(requirement.key)
        held &= np.array([matches(requirement, value) for value in values]).take(numbers)
    for requirement in term.fields:
        # metadata.name is the only field that the API knows here.
        known = requirement.key == "metadata.name"
        named = [known and matches(requirement, name) for name in rows.names]
        held &= np.array(named, np.bool_)
    return held
