"""Objects besides pods and nodes that placement depends on, and which pods they keep together."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import cast

from kubeshare_py.devices.device_pools import DevicePools, DeviceTable
from kubeshare_py.domain.cluster_objects import (
    SPREAD_KINDS,
    Labels,
    ObjectKey,
    ObjectT,
    PodController,
    ReplicaSetObject,
    ReplicationControllerObject,
    Requirement,
    ServiceObject,
    StatefulSetObject,
    WatchedKind,
)
from kubeshare_py.domain.device import ResourceClaim, ResourceSlice
from kubeshare_py.domain.events import AnyObject
from kubeshare_py.domain.pod import PodSelector
from kubeshare_py.domain.storage import PersistentVolume, PersistentVolumeClaim

# Objects besides pods and nodes that placement depends on, kind by kind.


def with_version_of(item: AnyObject, other: AnyObject) -> AnyObject:
    """An object with the version of another view of it.

    Updates of what placement does not depend on, such as an annotation, change only the version.
    """
    match item, other:
        case PersistentVolumeClaim(), PersistentVolumeClaim(version=version):
            return replace(item, version=version)
        case PersistentVolume(), PersistentVolume(version=version):
            return replace(item, version=version)
        case ResourceClaim(), ResourceClaim(resource_version=version):
            return replace(item, resource_version=version)
        case _:
            return item


class ClusterObjects:
    """The objects as they were seen last. Only the machine changes them."""

    def __init__(self) -> None:
        self._of: dict[WatchedKind, dict[ObjectKey, AnyObject]] = {kind: {} for kind in WatchedKind}
        #: Kinds that were listed, and why there may be no objects of them: "" if all is well.
        self._problems: dict[WatchedKind, str] = {}
        self._versions: Counter[WatchedKind] = Counter()
        #: Grows with every change.
        self.changes = 0
        #: The devices of all slices, and which of them claims hold.
        self.device_pools = DevicePools()
        self.device_table = DeviceTable()
        #: Claims that came, went or changed; `cluster/placed_pods` empties it.
        self.claims_changed: dict[ObjectKey, None] = {}

    # --- reading -------------------------------------------------------------------------------

    def of(self, kind: type[ObjectT]) -> Mapping[ObjectKey, ObjectT]:
        """All objects of a class, in a view that follows changes."""
        return cast(Mapping[ObjectKey, ObjectT], MappingProxyType(self._of[kind.kind]))

    def version(self, kind: WatchedKind) -> int:
        """A number that grows with every change of this kind."""
        return self._versions[kind]

    def is_listed(self, kind: WatchedKind) -> bool:
        """Whether the objects of this kind are known."""
        return self._problems.get(kind) == ""

    def problem(self, kind: WatchedKind) -> str:
        """Why the objects of this kind are not known, as words that follow the kind's name."""
        return self._problems.get(kind, "are not read yet")

    def listed(self) -> Iterable[tuple[WatchedKind, tuple[AnyObject, ...], str]]:
        """The kinds that were listed, with their objects and problems."""
        for kind, problem in self._problems.items():
            yield kind, tuple(self._of[kind].values()), problem

    # --- changing ------------------------------------------------------------------------------

    def put(self, item: AnyObject) -> bool:
        """Add or change an object; whether that changes more than its version."""
        known = self._of[item.kind]
        before = known.get(item.key)
        if before == item:
            return False
        self._follow_devices(before, item)
        known[item.key] = item
        self._changed(item.kind)
        return before is None or with_version_of(item, before) != before

    def drop(self, kind: WatchedKind, key: ObjectKey) -> bool:
        """Remove an object; whether it was there."""
        gone = self._of[kind].pop(key, None)
        if gone is None:
            return False
        self._follow_devices(gone, None)
        self._changed(kind)
        return True

    def put_all(
        self,
        kind: WatchedKind,
        items: Iterable[AnyObject] | None,
        problem: str,
        unreadable: Collection[ObjectKey],
    ) -> bool:
        """Take a complete list, None if there is none now; whether that changes anything.

        `unreadable` are there too, as they were read last.
        """
        changes = self._problems.get(kind) != problem
        self._problems[kind] = problem
        if items is not None:
            known, found = self._of[kind], {one.key: one for one in items}
            for key in [key for key in known if key not in found and key not in unreadable]:
                changes |= self.drop(kind, key)
            for item in found.values():
                changes |= self.put(item)
        if changes:
            self._changed(kind)
        return changes

    def _follow_devices(self, before: AnyObject | None, after: AnyObject | None) -> None:
        """Keep devices as their slices and claims are."""
        table, pools = self.device_table, self.device_pools
        for one in (before, after):
            if isinstance(one, ResourceClaim):
                self.claims_changed[one.key] = None
        if isinstance(before, ResourceSlice):
            pools.drop(before)
            table.drop(before)
        elif isinstance(before, ResourceClaim):
            table.hold(before.held_devices(), -1)
        if isinstance(after, ResourceSlice):
            pools.put(after)
            table.put(after)
        elif isinstance(after, ResourceClaim):
            table.hold(after.held_devices(), 1)

    def _changed(self, kind: WatchedKind) -> None:
        self._versions[kind] += 1
        self.changes += 1


# Which pods belong together with a pod: by the Services that select it, and by its controller.
#
# kube-scheduler's rules: helper.DefaultSelector, pkg/scheduler/framework/plugins/helper/spread.go
# (v1.36). Labels of Services are merged, and those of a ReplicationController take precedence; the
# lines of a ReplicaSet or StatefulSet must hold besides them.


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
