"""Objects that say which pods belong together, for constraints of spread that pods get by default.

Of each only its selector is kept. kube-scheduler's rules for them: pkg/scheduler/framework/plugins/
helper/spread.go (v1.36).
"""

from dataclasses import dataclass
from typing import ClassVar

from kubeshare_py.domain.label_selector import Labels, Requirement
from kubeshare_py.domain.needs.cluster_objects import ClusterObject, WatchedKind

#: The kinds of this module. They are followed only for profiles that spread pods by default.
SPREAD_KINDS = (
    WatchedKind.SERVICE,
    WatchedKind.REPLICATION_CONTROLLER,
    WatchedKind.REPLICA_SET,
    WatchedKind.STATEFUL_SET,
)


@dataclass(frozen=True, slots=True)
class PodController:
    """The controller of a pod: one of the last three kinds, of the pod's namespace."""

    kind: WatchedKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceObject(ClusterObject):
    """A Service. `endpoint_labels` are those of its pods, sorted; without any it adds nothing."""

    kind: ClassVar[WatchedKind] = WatchedKind.SERVICE
    endpoint_labels: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationControllerObject(ClusterObject):
    """A ReplicationController. `replica_labels` are those of its pods, sorted."""

    kind: ClassVar[WatchedKind] = WatchedKind.REPLICATION_CONTROLLER
    replica_labels: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetObject(ClusterObject):
    """A ReplicaSet. `replica_selector` selects its pods."""

    kind: ClassVar[WatchedKind] = WatchedKind.REPLICA_SET
    replica_selector: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetObject(ClusterObject):
    """A StatefulSet. `ordinal_selector` selects its pods."""

    kind: ClassVar[WatchedKind] = WatchedKind.STATEFUL_SET
    ordinal_selector: tuple[Requirement, ...] = ()
