"""Storage objects, found by what questions about volumes know of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.needs.cluster_objects import ObjectKey, ObjectT
from kubeshare_py.domain.needs.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

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
