"""Affinity terms of placed pods, which ask something of the pods that come later."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.cluster.pods.pod_kinds import selects
from kubeshare_py.domain.label_selector import Labels
from kubeshare_py.domain.needs.cluster_objects import WatchedKind
from kubeshare_py.domain.needs.inter_pod import AffinityTerm, InterPodTerms, PodSelector

#: The most answers that are kept.
ANSWERS_KEPT = 1024
#: A term that names more namespaces is found as if it named all.
MAX_NAMESPACES = 16
#: A label that every pod has that a term selects; of any value if that is None.
_Label = tuple[str, str | None]
#: A namespace, None for all, and a label, None if there is none that every such pod has.
_TermKey = tuple[str | None, _Label | None]


class TermKind(Enum):
    """What a placed pod wants with a term: required affinity or anti-affinity, or a preference."""

    AFFINITY = auto()
    ANTI_AFFINITY = auto()
    PREFERRED = auto()


@dataclass(frozen=True, slots=True)
class HeldTerm:
    """A term as placed pods hold it; `weight` is 0 unless it is a preference."""

    kind: TermKind
    term: AffinityTerm
    weight: int = 0


@dataclass(frozen=True, slots=True)
class SelectingTerm:
    """A term that selects a pod, and how many pods on each row hold it, (rows,) int64."""

    held: HeldTerm
    counts: NDArray[np.int64]


def held_by(terms: InterPodTerms) -> Iterator[HeldTerm]:
    """The terms that a placed pod holds; constraints of spread ask nothing of others."""
    for term in terms.affinity:
        yield HeldTerm(TermKind.AFFINITY, term)
    for term in terms.anti_affinity:
        yield HeldTerm(TermKind.ANTI_AFFINITY, term)
    for one in terms.preferred:
        yield HeldTerm(TermKind.PREFERRED, one.term, one.weight)


class HeldTerms:
    """The terms by row. `version` grows when a term appears, or the last pod that holds it goes."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._rows: dict[HeldTerm, Counter[int]] = {}
        self._index: dict[_TermKey, dict[HeldTerm, None]] = {}
        self._keys: Counter[str] = Counter()
        self._answers: dict[tuple[str, Labels], tuple[HeldTerm, ...]] = {}
        self._answered = (0, 0)
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self._rows)

    def names(self, key: str) -> bool:
        """Whether a term names this label key."""
        return key in self._keys

    def rows_of(self, held: HeldTerm) -> Mapping[int, int]:
        """How many pods hold the term, by row."""
        return self._rows.get(held, Counter())

    def for_reading(self) -> "HeldTerms":
        """The same terms until the next change; answers that are asked of it are kept apart."""
        same = copy(self)
        same._answers = {}
        return same

    def add(self, row: int, terms: InterPodTerms, sign: int) -> None:
        """A pod with these terms is placed on a row (sign 1), or leaves it (-1)."""
        for held in held_by(terms):
            rows = self._rows.get(held)
            if rows is None:
                rows = self._rows[held] = Counter()
                self._take_in(held, 1)
            rows[row] += sign
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self._rows[held]
                    self._take_in(held, -1)

    def selecting(self, namespace: str, labels: Labels) -> tuple[HeldTerm, ...]:
        """The terms that select a pod of this namespace with these labels."""
        if not self._rows:
            return ()
        versions = (self.version, self._objects.version(WatchedKind.NAMESPACE))
        if versions != self._answered or len(self._answers) > ANSWERS_KEPT:
            self._answers.clear()
            self._answered = versions
        found = self._answers.get((namespace, labels))
        if found is None:
            named = dict(labels)
            found = self._answers[namespace, labels] = tuple(
                held
                for space in (None, namespace)
                for label in (None, *labels, *((key, None) for key in named))
                for held in self._index.get((space, label), ())
                if selects(held.term.selector, namespace, named, self._objects)
            )
        return found

    def _take_in(self, held: HeldTerm, sign: int) -> None:
        self.version += 1
        requirements = held.term.selector.labels or ()
        self._keys.update({one.key: sign * 1 for one in requirements})
        for key in [one.key for one in requirements if self._keys[one.key] <= 0]:
            del self._keys[key]
        for place in _places(held.term.selector):
            held_there = self._index.setdefault(place, {})
            if sign > 0:
                held_there[held] = None
            else:
                held_there.pop(held, None)
                if not held_there:
                    del self._index[place]


def _places(selector: PodSelector) -> list[_TermKey]:
    """Where the index has a selector: all pods that it selects are in one of these places."""
    spaces: Sequence[str | None] = selector.namespaces
    if selector.namespace_selector is not None or len(spaces) > MAX_NAMESPACES:
        spaces = [None]
    labels: list[_Label | None] = [None]
    for one in selector.labels or ():
        if one.operator == "In":
            labels = [(one.key, value) for value in {*one.values}]
            break
        if one.operator == "Exists":
            labels = [(one.key, None)]
    return [(space, label) for space in spaces for label in labels]
