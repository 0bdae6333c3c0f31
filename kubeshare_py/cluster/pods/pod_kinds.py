"""The kinds of placed pods, in columns by the label keys that selectors name.

Pods of one namespace with the same labels are of one kind. Numbers of kinds are never reused.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.label_selector import Labels, Requirement, all_hold, holds
from kubeshare_py.domain.needs.cluster_objects import NamespaceObject, ObjectKey, WatchedKind
from kubeshare_py.domain.needs.inter_pod import PodSelector
from kubeshare_py.domain.needs.placed_pod import PlacedPod

KindFlags = NDArray[np.bool_]
#: The most label keys with a column; the one that was named longest ago is dropped first.
KEYS_KEPT = 256
_PodKind = tuple[str, Labels, bool]


class _KindColumn:
    """The value of one key of each kind, as numbers; `values` has the number of each value."""

    __slots__ = ("codes", "values")

    def __init__(self) -> None:
        self.codes = np.zeros(64, np.int64)
        self.values: dict[str | None, int] = {}

    def put(self, kind: int, value: str | None) -> None:
        if kind >= len(self.codes):
            self.codes = np.resize(self.codes, 2 * kind)
        self.codes[kind] = self.values.setdefault(value, len(self.values))


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
        self._kinds: list[_PodKind] = []
        self._namespaces = _KindColumn()
        self._columns: OrderedDict[str, _KindColumn] = OrderedDict()
        self._terminating = np.zeros(64, np.bool_)

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def namespaces_version(self) -> int:
        """While it is the same, namespaces have the same labels."""
        return self._objects.version(WatchedKind.NAMESPACE)

    def number(self, pod: PlacedPod) -> int:
        """The number of the pod's kind."""
        kind = (pod.namespace, pod.labels, pod.terminating)
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
            self._namespaces.put(number, pod.namespace)
            if number >= len(self._terminating):
                self._terminating = np.resize(self._terminating, 2 * number)
            self._terminating[number] = pod.terminating
            if self._columns:
                labels = dict(pod.labels)
                for key, column in self._columns.items():
                    column.put(number, labels.get(key))
        return number

    def matching(self, selector: PodSelector, first: int = 0) -> KindFlags:
        """Which kinds from number `first` on the selector selects, (kinds - first,) bool."""
        count = len(self._kinds)
        if selector.labels is None:
            return np.zeros(count - first, np.bool_)
        found = self._in_namespaces(selector, first)
        for requirement in selector.labels:
            column = self._column(requirement.key)
            found &= _verdicts(requirement, column.values)[column.codes[first:count]]
        return found

    def terminating(self, first: int = 0) -> KindFlags:
        """Which kinds from `first` on are of pods that are being deleted, (kinds - first,) bool."""
        return self._terminating[first : len(self._kinds)]

    def _in_namespaces(self, selector: PodSelector, first: int) -> KindFlags:
        column, wanted = self._namespaces, selector.namespace_selector
        listed: Collection[str] = selector.namespaces
        if wanted is not None and not wanted:
            return np.ones(len(self._kinds) - first, np.bool_)
        if wanted is not None:
            objects = self._objects.of(NamespaceObject).values()
            chosen = {one.name for one in objects if all_hold(wanted, dict(one.labels))}
            listed = chosen.union(listed)
        verdicts = np.fromiter((one in listed for one in column.values), np.bool_)
        return verdicts[column.codes[first : len(self._kinds)]]

    def _column(self, key: str) -> _KindColumn:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _KindColumn()
            for number, (_, labels, _) in enumerate(self._kinds):
                column.put(number, dict(labels).get(key))
            if len(self._columns) > KEYS_KEPT:
                self._columns.popitem(last=False)
        else:
            self._columns.move_to_end(key)
        return column


def _verdicts(requirement: Requirement, values: Mapping[str | None, int]) -> KindFlags:
    """Whether each value of the requirement's key satisfies it, (values,) bool."""
    key = requirement.key
    if requirement.operator == "In" and len(requirement.values) < len(values):
        found = np.zeros(len(values), np.bool_)
        found[[values[one] for one in requirement.values if one in values]] = True
        return found
    labels = ({} if value is None else {key: value} for value in values)
    return np.fromiter((holds(requirement, one) for one in labels), np.bool_, len(values))
