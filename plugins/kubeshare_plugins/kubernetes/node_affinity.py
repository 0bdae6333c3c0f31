"""Filter and score: nodeSelector and node affinity, all operators of the API."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kubeshare_plugins.kubernetes.added_affinity import added_affinity
from kubeshare_plugins.kubernetes.label_judge import Flags, Integers, LabelJudge
from kubeshare_plugins.kubernetes.node_terms import AnyTerm, WeighedTerms, named_nodes
from kubeshare_py.framework.scores import maximum
from kubeshare_py.plugin import (
    BestCards,
    Depends,
    IntArray,
    ReasonTable,
    Requirement,
    RowFilter,
    Rows,
    RowScore,
    Shape,
)

_UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
_CONFLICT = "pod affinity terms conflict"


class NodeAffinity:
    """The node selector and at least one of the required terms must hold.

    The weights of the preferred terms that hold are summed; the node with the highest sum gets 100
    points, the others in proportion. The argument `addedAffinity` is node affinity of all pods of
    the profile, required terms and preferred ones.
    """

    name = "NodeAffinity"
    depends = score_depends = Depends.STATIC
    normaliser = staticmethod(maximum)

    def __init__(self, addedAffinity: Any = None) -> None:
        """Raises ArgumentError for a bad entry."""
        self._required, self._preferred = added_affinity(addedAffinity)

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without either, unless the profile adds terms."""
        own, added = required_affinity(shape), self._required
        if own is None and added is None:
            return None
        enforced = None if added is None else AnyTerm(added, Integers())
        unmatched = reasons.register(self.name, _UNMATCHED, resolvable=False)
        unenforced = reasons.register(self.name, _ENFORCED, resolvable=False)
        named = named_nodes(shape.terms or ())
        unnamed = 0
        if named is not None:
            # Other nodes than the pod names, as a DaemonSet's pods do, are left out at once.
            unnamed = reasons.narrow(self.name) if named else reasons.refuse(self.name, _CONFLICT)

        def ask(rows: Rows) -> IntArray:
            masks: IntArray = np.zeros(len(rows.index), np.int64)
            if own is not None:
                masks = np.where(own(rows), masks, unmatched)
            if enforced is not None:
                masks = np.where(enforced.holds(rows), masks, unenforced)
            return masks if named is None else np.where(rows.named(named), masks, unnamed)

        return ask

    def score(self, shape: Shape) -> RowScore | None:
        """The sum of the weights of what holds; no question for pods without preferences."""
        preferences = [one for one in (self._preferred, shape.preferences) if one is not None]
        if not preferences:
            return None
        terms = WeighedTerms(preferences, Integers())

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return terms.sums(rows)

        return ask


def required_affinity(shape: Shape) -> Callable[[Rows], Flags] | None:
    """Which rows have what the pod's node selector and required affinity ask for, (k,) bool.

    None if the pod has neither.
    """
    if not shape.node_selector and shape.terms is None:
        return None
    integers = Integers()
    selector = [
        LabelJudge(Requirement(key, "In", (value,)), integers) for key, value in shape.node_selector
    ]
    required = None if shape.terms is None else AnyTerm(shape.terms, integers)

    def ask(rows: Rows) -> Flags:
        fits: Flags = np.ones(len(rows.index), np.bool_)
        for label in selector:
            fits &= label.holds(rows)
        return fits if required is None else fits & required.holds(rows)

    return ask
