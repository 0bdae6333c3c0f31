"""Storage objects, found by what questions about volumes know of them, and rows they allow."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.cluster_objects import ObjectKey, ObjectT, Requirement, holds
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

# Storage objects, found by what questions about volumes know of them.


K = TypeVar("K")


class _Groups(Generic[K, ObjectT]):
    """The objects of one kind by a key of their contents, and brought up to date when asked."""

    __slots__ = ("_groups", "_key_of", "_kind", "_known", "_objects", "_version")

    def __init__(
        self, objects: ClusterObjects, kind: type[ObjectT], key_of: Callable[[ObjectT], K | None]
    ) -> None:
        """`key_of` is None for an object that is in no group."""
        self._objects, self._kind, self._key_of = objects, kind, key_of
        self._known: dict[ObjectKey, ObjectT] = {}
        self._groups: dict[K, dict[ObjectKey, ObjectT]] = {}
        self._version = -1

    def of(self, key: K) -> Iterable[ObjectT]:
        """The objects of a group, in any order."""
        self._follow()
        return self._groups.get(key, {}).values()

    def _follow(self) -> None:
        version = self._objects.version(self._kind.kind)
        if version == self._version:
            return
        self._version, known = version, self._known
        found = self._objects.of(self._kind)
        for key in [key for key in known if key not in found]:
            self._take(known.pop(key))
        for key, item in found.items():
            old = known.get(key)
            if old is not item:
                if old is not None:
                    self._take(old)
                known[key] = item
                group = self._key_of(item)
                if group is not None:
                    self._groups.setdefault(group, {})[key] = item

    def _take(self, item: ObjectT) -> None:
        group = self._key_of(item)
        if group is not None:
            members = self._groups[group]
            del members[item.key]
            if not members:
                del self._groups[group]


class StorageIndex:
    """Reads storage objects; what it finds is as new as they are."""

    def __init__(self, objects: ClusterObjects) -> None:
        self.objects = objects
        self._free = _Groups(objects, PersistentVolume, _class_if_free)
        self._kept = _Groups(objects, PersistentVolume, _kept_for)
        self._capacities = _Groups(objects, CsiStorageCapacity, lambda one: one.storage_class)
        self._attachments = _Groups(objects, VolumeAttachment, lambda one: one.node or None)
        #: By driver, as of a version of the CSINodes.
        self._limits: dict[str, dict[str, int]] = {}
        self._limits_at = -1

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim."""
        return self._of(PersistentVolumeClaim).get(ObjectKey(namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        """A PersistentVolume."""
        return self._of(PersistentVolume).get(ObjectKey("", name))

    def storage_class(self, name: str) -> StorageClass | None:
        """A StorageClass."""
        return self._of(StorageClass).get(ObjectKey("", name))

    def csi_node(self, name: str) -> CsiNode | None:
        """The CSINode of a node."""
        return self._of(CsiNode).get(ObjectKey("", name))

    def csi_driver(self, name: str) -> CsiDriver | None:
        """A CSIDriver."""
        return self._of(CsiDriver).get(ObjectKey("", name))

    def free_volumes(self, class_name: str) -> Sequence[PersistentVolume]:
        """Available volumes of a class ("": of none), the smallest first, then by name."""
        return sorted(self._free.of(class_name), key=lambda one: (one.capacity, one.name))

    def kept_volumes(self, claim: ObjectKey) -> Sequence[PersistentVolume]:
        """Volumes that name this claim, by name."""
        return sorted(self._kept.of(claim), key=lambda one: one.name)

    def capacities(self, class_name: str) -> Iterable[CsiStorageCapacity]:
        """What can still be provisioned of a class."""
        return self._capacities.of(class_name)

    def attachments(self, node: str) -> Iterable[VolumeAttachment]:
        """The volumes that a node attaches."""
        return self._attachments.of(node)

    def has_attachments(self) -> bool:
        """Whether any node attaches a volume."""
        return bool(self._of(VolumeAttachment))

    def limits(self, driver: str) -> Mapping[str, int]:
        """How many volumes a driver attaches at most, by the names of nodes with a limit of it."""
        version = self.objects.version(CsiNode.kind)
        if version != self._limits_at:
            self._limits.clear()
            self._limits_at = version
        found = self._limits.get(driver)
        if found is None:
            found = self._limits[driver] = {
                node.name: limit
                for node in self._of(CsiNode).values()
                for name, limit in node.drivers
                if name == driver and limit is not None
            }
        return found

    def migrated_nodes(self, plugin: str) -> list[str]:
        """The nodes where a CSI driver replaced an in-tree plugin."""
        return [node.name for node in self._of(CsiNode).values() if plugin in node.migrated]

    def _of(self, kind: type[ObjectT]) -> Mapping[ObjectKey, ObjectT]:
        return self.objects.of(kind)


def _class_if_free(volume: PersistentVolume) -> str | None:
    is_free = volume.claim is None and volume.phase == "Available" and not volume.deleting
    return volume.class_name if is_free else None


def _kept_for(volume: PersistentVolume) -> ObjectKey | None:
    claim = volume.claim
    return None if claim is None else ObjectKey(claim.namespace, claim.name)


# Which rows satisfy what storage objects require of nodes' labels.


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
        # (values + 1,): rows are sorted by value once, so that those of a value are one slice.
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
