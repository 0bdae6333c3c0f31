"""The kinds of placed pods, by namespace and labels, and the affinity terms that they hold."""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.cluster_objects import (
    Labels,
    NamespaceObject,
    ObjectKey,
    Requirement,
    WatchedKind,
    all_hold,
)
from kubeshare_py.domain.mypyc_hints import mypyc_attr
from kubeshare_py.domain.pod import AffinityTerm, InterPodTerms, PlacedPod, PodSelector

# The kinds of placed pods, in columns by the keys of their labels.
#
# Pods of one namespace with the same labels are of one kind. Numbers of kinds are never reused.


KindFlags = NDArray[np.bool_]
_PodKind = tuple[str, Labels, bool]


class _SparseColumn:
    """The holders of a label of one key, in ascending order, and the number of its value.

    A key that most do not have takes no place for them.
    """

    __slots__ = ("codes", "holders", "values")

    def __init__(self) -> None:
        self.holders = array("q")
        self.codes = array("q")
        self.values: dict[str, int] = {}

    def put(self, holder: int, value: str) -> None:
        self.holders.append(holder)
        self.codes.append(self.values.setdefault(value, len(self.values)))

    def satisfying(self, requirement: Requirement) -> KindFlags:
        """Whether each value satisfies the requirement, (values,) bool."""
        operator = requirement.operator
        if operator in _OF_PRESENCE:
            return np.full(len(self.values), operator == "Exists")
        named = [self.values[one] for one in requirement.values if one in self.values]
        found = np.full(len(self.values), operator == "NotIn")
        found[named] = operator == "In"
        return found


class _LabelColumns:
    """Labels of things with numbers that grow: which of them satisfy a selector.

    What an answer costs depends on how many there are and on the selector's length, but not on
    their product: selectors, and how many keys and values there are, are for tenants to choose.
    """

    def __init__(self) -> None:
        self._columns: dict[str, _SparseColumn] = {}

    def add(self, number: int, labels: Labels) -> None:
        """Take in the next one."""
        for key, value in labels:
            column = self._columns.get(key)
            if column is None:
                column = self._columns[key] = _SparseColumn()
            column.put(number, value)

    def matching(self, lines: Iterable[Requirement], first: int, end: int) -> KindFlags:
        """Which of the numbers from `first` to before `end` satisfy all lines, (end - first,)."""
        found = np.ones(end - first, np.bool_)
        for line in lines:
            column = self._columns.get(line.key)
            without = line.operator in _WITHOUT
            if column is None:
                found &= without
                continue
            start = bisect_left(column.holders, first)
            satisfied = np.full(end - first, without)
            # Copies: an array that numpy looks into cannot grow.
            codes = np.array(column.codes[start:], np.int64)
            holders = np.array(column.holders[start:], np.int64)
            satisfied[holders - first] = column.satisfying(line)[codes]
            found &= satisfied
        return found


#: Operators that ask for no value, and those that hold without the label.
_OF_PRESENCE = frozenset({"Exists", "DoesNotExist"})
_WITHOUT = frozenset({"NotIn", "DoesNotExist"})


def selects(
    selector: PodSelector, namespace: str, labels: Mapping[str, str], objects: ClusterObjects
) -> bool:
    """Whether a selector selects a pod of this namespace with these labels."""
    if selector.labels is None or not all_hold(selector.labels, labels):
        return False
    if namespace in selector.namespaces:
        return True
    wanted = selector.namespace_selector
    if wanted is None:
        return False
    if not wanted:
        return True
    found = objects.of(NamespaceObject).get(ObjectKey("", namespace))
    return found is not None and all_hold(wanted, dict(found.labels))


class PodKinds:
    """Numbers kinds, and says which of them a selector selects."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._numbers: dict[_PodKind, int] = {}
        self._labels = _LabelColumns()
        #: Namespaces by number; of each kind the number of its namespace.
        self._namespaces: dict[str, int] = {}
        self._namespace_of = np.zeros(64, np.int64)
        self._namespace_labels = _NamespaceLabels(objects)
        self._terminating = np.zeros(64, np.bool_)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def namespaces_version(self) -> int:
        """While it is the same, namespaces have the same labels."""
        return self._objects.version(WatchedKind.NAMESPACE)

    def number(self, pod: PlacedPod) -> int:
        """The number of the pod's kind."""
        kind = (pod.namespace, pod.labels, pod.terminating)
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._numbers)
            if number >= len(self._terminating):
                self._terminating = np.resize(self._terminating, 2 * number)
                self._namespace_of = np.resize(self._namespace_of, 2 * number)
            self._terminating[number] = pod.terminating
            known = self._namespaces
            self._namespace_of[number] = known.setdefault(pod.namespace, len(known))
            self._labels.add(number, pod.labels)
        return number

    def matching(self, selector: PodSelector, first: int = 0) -> KindFlags:
        """Which kinds from number `first` on the selector selects, (kinds - first,) bool."""
        if selector.labels is None:
            return np.zeros(len(self) - first, np.bool_)
        found = self._labels.matching(selector.labels, first, len(self))
        wanted = selector.namespace_selector
        if wanted is not None and not wanted:
            return found
        chosen = np.zeros(len(self._namespaces), np.bool_)
        if wanted is not None:
            chosen = self._namespace_labels.matching(wanted, self._namespaces)
        known = self._namespaces
        chosen[[known[one] for one in selector.namespaces if one in known]] = True
        return found & chosen[self._namespace_of[first : len(self)]]

    def terminating(self, first: int = 0) -> KindFlags:
        """Which kinds from `first` on are of pods that are being deleted, (kinds - first,) bool."""
        return self._terminating[first : len(self)]


class _NamespaceLabels:
    """The labels of the namespaces in which pods are, read again when a namespace changes."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._version = -1
        self._columns = _LabelColumns()
        self._is_there = np.zeros(0, np.bool_)

    def matching(self, lines: Iterable[Requirement], numbers: Mapping[str, int]) -> KindFlags:
        """Which of these namespaces there are and satisfy all lines, (namespaces,) bool."""
        version = self._objects.version(WatchedKind.NAMESPACE)
        if (version, len(numbers)) != (self._version, len(self._is_there)):
            self._version = version
            self._columns = _LabelColumns()
            known = self._objects.of(NamespaceObject)
            found = [known.get(ObjectKey("", name)) for name in numbers]
            self._is_there = np.array([one is not None for one in found], np.bool_)
            for number, one in enumerate(found):
                if one is not None:
                    self._columns.add(number, one.labels)
        return self._is_there & self._columns.matching(lines, 0, len(numbers))


# Affinity terms of placed pods, which ask something of the pods that come later.


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


@mypyc_attr(native_class=False)  # it is copied
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
