"""Which pods belong together with a pod: by the Services that select it, and by its controller.

kube-scheduler's rules: helper.DefaultSelector, pkg/scheduler/framework/plugins/helper/spread.go
(v1.36). Labels of Services are merged, and those of a ReplicationController take precedence; the
lines of a ReplicaSet or StatefulSet must hold besides them.
"""

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.label_selector import Labels, Requirement
from kubeshare_py.domain.needs.cluster_objects import ObjectKey, WatchedKind
from kubeshare_py.domain.needs.default_spread import (
    SPREAD_KINDS,
    PodController,
    ReplicaSetObject,
    ReplicationControllerObject,
    ServiceObject,
    StatefulSetObject,
)
from kubeshare_py.domain.needs.inter_pod import PodSelector

_SelectorLines = tuple[Requirement, ...]


class DefaultSelectors:
    """Selectors by what the objects are now; Services are indexed anew after they change."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._services: dict[tuple[str, tuple[str, str]], list[Labels]] = {}
        self._indexed = 0

    @property
    def version(self) -> int:
        """A number that grows when an answer may have become another."""
        return sum(map(self._objects.version, SPREAD_KINDS))

    def of(
        self, namespace: str, labels: Labels, controller: PodController | None
    ) -> PodSelector | None:
        """The selector for a pod of this namespace with these labels; None if it has none."""
        equal: dict[str, str] = {}
        for selected in self._selecting(namespace, labels):
            equal.update(selected)
        lines: _SelectorLines = ()
        if controller is not None:
            replicas, lines = self._controlled(ObjectKey(namespace, controller.name), controller)
            equal.update(replicas)
        if not equal and not lines:
            return None
        lines += tuple(Requirement(key, "In", (value,)) for key, value in equal.items())
        unique = {(one.key, one.operator, tuple(sorted({*one.values}))) for one in lines}
        return PodSelector((namespace,), tuple(Requirement(*one) for one in sorted(unique)))

    def _selecting(self, namespace: str, labels: Labels) -> list[Labels]:
        """The labels of the Services that select a pod."""
        version = self._objects.version(WatchedKind.SERVICE)
        if version != self._indexed:
            self._indexed = version
            self._index()
        if not self._services:
            return []
        own = set(labels)
        return [
            selected
            for pair in labels
            for selected in self._services.get((namespace, pair), ())
            if own.issuperset(selected)
        ]

    def _index(self) -> None:
        """Services by namespace and the first of their labels."""
        self._services.clear()
        for one in self._objects.of(ServiceObject).values():
            if one.endpoint_labels:
                key = one.namespace, one.endpoint_labels[0]
                self._services.setdefault(key, []).append(one.endpoint_labels)

    def _controlled(
        self, key: ObjectKey, controller: PodController
    ) -> tuple[Labels, _SelectorLines]:
        """What the controller's pods have in common: labels, and lines of a selector."""
        match controller.kind:
            case WatchedKind.REPLICATION_CONTROLLER:
                by_labels = self._objects.of(ReplicationControllerObject).get(key)
                return ((), ()) if by_labels is None else (by_labels.replica_labels, ())
            case WatchedKind.REPLICA_SET:
                replicas = self._objects.of(ReplicaSetObject).get(key)
                return (), () if replicas is None else replicas.replica_selector
            case _:
                ordinals = self._objects.of(StatefulSetObject).get(key)
                return (), () if ordinals is None else ordinals.ordinal_selector
