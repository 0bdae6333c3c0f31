"""Objects besides pods and nodes that placement depends on, as they are followed: kind by kind."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeVar


class WatchedKind(StrEnum):
    """Kinds of such objects, by the names of their resources."""

    NAMESPACE = "namespaces"
    CLAIM = "persistentvolumeclaims"
    VOLUME = "persistentvolumes"
    STORAGE_CLASS = "storageclasses"
    CSI_NODE = "csinodes"
    CSI_DRIVER = "csidrivers"
    CSI_CAPACITY = "csistoragecapacities"
    ATTACHMENT = "volumeattachments"
    DEVICE_CLASS = "deviceclasses"
    RESOURCE_SLICE = "resourceslices"
    RESOURCE_CLAIM = "resourceclaims"
    SERVICE = "services"
    REPLICATION_CONTROLLER = "replicationcontrollers"
    REPLICA_SET = "replicasets"
    STATEFUL_SET = "statefulsets"
    RESOURCE_QUOTA = "resourcequotas"


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """An object's namespace, "" for objects of the cluster, and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObject:
    """What placement depends on of one object. Each kind has a class with fields of its own.

    The classes differ in the names of their fields, because event logs tell them apart by these.
    """

    kind: ClassVar[WatchedKind]
    name: str
    namespace: str = ""

    @property
    def key(self) -> ObjectKey:
        """Its namespace and name."""
        return ObjectKey(self.namespace, self.name)


#: Objects of one class.
ObjectT = TypeVar("ObjectT", bound=ClusterObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceObject(ClusterObject):
    """A namespace. `labels` are sorted pairs."""

    kind: ClassVar[WatchedKind] = WatchedKind.NAMESPACE
    labels: tuple[tuple[str, str], ...] = ()
