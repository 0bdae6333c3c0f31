"""Filter and PreBind: nodes where a pod's claims have their volumes or can get them; getting them.

kube-scheduler's VolumeBinding:
https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from kubeshare_py.domain.cluster_objects import ObjectT
from kubeshare_py.domain.storage import PersistentVolume, PersistentVolumeClaim
from kubeshare_py.plugin import (
    READY,
    ArgumentError,
    ClaimVolume,
    Depends,
    IntArray,
    ObjectKey,
    ObjectRef,
    PendingPlacement,
    Pod,
    PreBindAnswer,
    ReasonTable,
    Rejected,
    RowFilter,
    Rows,
    SelectNode,
    Shape,
    VolumeChoice,
    Wait,
)

# PreBind of VolumeBinding: what is left to do until a pod's claims have their volumes.
#
# As kube-scheduler's: it writes the chosen volumes and the selected node, and waits until the
# control plane and provisioners have done their part. A provisioner that fails removes the node
# from the claim: https://kubernetes.io/docs/reference/labels-annotations-taints/


W = TypeVar("W", ClaimVolume, SelectNode)
#: kube-scheduler's words when time is over.
LATE = "binding volumes: context deadline exceeded"


class _PreBindFailed(Exception):
    """The placement must end; the text says why."""


class _ClaimStep(NamedTuple):
    """One claim: what is to be written first, and the objects that are waited for otherwise."""

    write: ClaimVolume | SelectNode | None
    on: tuple[ObjectRef, ...]


def volumes_ready(row: Rows, placement: PendingPlacement, for_s: float) -> PreBindAnswer:
    """What is left to do for the volumes of a placement on the only node of `row`.

    `for_s` is the longest time (s) to wait.
    """
    choice = placement.choice
    if choice is None:
        return READY
    looking = _ClaimLook(row, placement, choice)
    try:
        steps = [*looking.steps()]
    except _PreBindFailed as failed:
        return Rejected(f"binding volumes: {failed}")
    if not steps:
        return READY
    names = [one.claim for one in choice.bindings] + [*choice.provisions]
    return Wait(
        sentence=f"volumes of {'claim' if len(names) == 1 else 'claims'} {', '.join(names)}",
        writes=tuple(step.write for step in steps if step.write is not None),
        on=tuple(dict.fromkeys(ref for step in steps for ref in step.on)),
        for_s=for_s,
        late=LATE,
    )


class _ClaimLook:
    """The objects of one placement, as they are now."""

    def __init__(self, row: Rows, placement: PendingPlacement, choice: VolumeChoice) -> None:
        (name,) = row.names
        self._row, self._node = row, name or ""
        self._written = placement.written
        self._choice = choice

    def steps(self) -> Iterator[_ClaimStep]:
        """What is left, claim by claim. Raises _PreBindFailed."""
        for one in self._choice.bindings:
            yield from self._bind(one.claim, one.volume)
        for name in self._choice.provisions:
            yield from self._provision(name)

    def _bind(self, name: str, volume_name: str) -> Iterator[_ClaimStep]:
        """Give an existing volume to a claim."""
        claim, volume = self._claim(name, "binding"), self._volume(volume_name)
        if volume is None:
            raise _PreBindFailed(
                f'failed to check binding: persistentvolumes "{volume_name}" not found'
            )
        if volume.claim is not None and not volume.claim.names(claim):
            raise _PreBindFailed(f'pv "{volume.name}" is bound to another claim')
        on = (_ref(claim), _ref(volume))
        if volume.claim is None or not volume.claim.uid:
            write = self._last(ClaimVolume, volume=volume.name)
            if write is None:
                yield _ClaimStep(_claiming(volume, claim), on)
                return
            if write.version != volume.version:
                raise _PreBindFailed(f'ClaimRef got reset for pv "{volume.name}"')
            yield _ClaimStep(None, on)  # the watch has not shown it yet
            return
        self._check_node(volume)
        if not claim.is_bound:
            yield _ClaimStep(None, on)

    def _provision(self, name: str) -> Iterator[_ClaimStep]:
        """Have a volume made for a claim."""
        claim = self._claim(name, "provisioning pvc")
        on: tuple[ObjectRef, ...] = (_ref(claim),)
        if claim.selected_node != self._node:
            write = self._last(SelectNode, claim=name)
            if write is None and claim.selected_node is None and not claim.volume:
                yield _ClaimStep(_selecting(claim, self._node), on)
                return
            if write is None or write.version != claim.version:
                raise _PreBindFailed(f'provisioning failed for PVC "{name}"')
            yield _ClaimStep(None, on)
            return
        if claim.volume:
            on = (*on, ObjectRef(PersistentVolume.kind, ObjectKey("", claim.volume)))
            volume = self._volume(claim.volume)
            if volume is None:
                yield _ClaimStep(None, on)  # the watch of volumes may be behind that of claims
                return
            self._check_node(volume)
        if not claim.is_bound:
            yield _ClaimStep(None, on)

    def _claim(self, name: str, checked: str) -> PersistentVolumeClaim:
        key = ObjectKey(self._choice.namespace, name)
        claim = self._row.objects(PersistentVolumeClaim).get(key)
        if claim is None:
            raise _PreBindFailed(
                f'failed to check {checked}: persistentvolumeclaims "{key}" not found'
            )
        return claim

    def _volume(self, name: str) -> PersistentVolume | None:
        return self._row.objects(PersistentVolume).get(ObjectKey("", name))

    def _check_node(self, volume: PersistentVolume) -> None:
        if not self._row.volumes.allowed(volume).all():
            about = f'pv "{volume.name}" node affinity doesn\'t match node "{self._node}"'
            raise _PreBindFailed(f"{about}: no matching NodeSelectorTerms")

    def _last(self, kind: type[W], **fields: str) -> W | None:
        """The last write of this kind that was performed for an object."""
        found: W | None = None
        for write in self._written:
            if isinstance(write, kind) and all(
                getattr(write, name) == value for name, value in fields.items()
            ):
                found = write
        return found


def _ref(item: ObjectT) -> ObjectRef:
    return ObjectRef(item.kind, item.key)


def _claiming(volume: PersistentVolume, claim: PersistentVolumeClaim) -> ClaimVolume:
    return ClaimVolume(
        volume=volume.name,
        version=volume.version,
        namespace=claim.namespace,
        claim=claim.name,
        claim_uid=claim.uid,
        claim_version=claim.version,
        is_kept=volume.claim is not None and volume.claim.names(claim),
    )


def _selecting(claim: PersistentVolumeClaim, node: str) -> SelectNode:
    return SelectNode(namespace=claim.namespace, claim=claim.name, version=claim.version, node=node)


ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NONE_FOUND = "node(s) didn't find available persistent volumes to bind"
TOO_LITTLE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
#: kube-scheduler's default.
BIND_TIMEOUT_S = 600


class VolumeBinding:
    """Each claim's volume must allow the node, or there must be one for the claim there.

    A pod is bound once its claims have their volumes. The placement ends if that takes longer than
    the argument `bindTimeoutSeconds`.
    """

    name = "VolumeBinding"
    only_for = ("volumes",)
    depends = Depends.CLUSTER

    def __init__(self, bindTimeoutSeconds: int = BIND_TIMEOUT_S) -> None:
        """Raises ArgumentError for a bad number of seconds."""
        is_number = isinstance(bindTimeoutSeconds, int) and not isinstance(bindTimeoutSeconds, bool)
        if not is_number or bindTimeoutSeconds < 1:
            raise ArgumentError("bindTimeoutSeconds: must be a whole number from 1")
        self._for_s = float(bindTimeoutSeconds)

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without claims."""
        volumes = shape.volumes
        if volumes is None or not volumes.claims:
            return None
        elsewhere, none_found, too_little, missing = (
            reasons.register(self.name, text, resolvable=False)
            for text in (ELSEWHERE, NONE_FOUND, TOO_LITTLE, MISSING)
        )

        def ask(rows: Rows) -> IntArray:
            found = rows.volumes.places(volumes)
            if isinstance(found, str):
                return np.full(len(rows.index), reasons.refuse(self.name, found))
            masks: IntArray = np.zeros(len(rows.index), np.int64)
            masks[found.elsewhere] |= elsewhere
            masks[found.none_found] |= none_found
            masks[found.too_little] |= too_little
            masks[found.missing] |= missing
            return masks

        return ask

    def pre_bind(self, pod: Pod, row: Rows, placement: PendingPlacement) -> PreBindAnswer:
        """Have volumes bound and made for the pod's claims."""
        return volumes_ready(row, placement, self._for_s)


# Filter: volumes that only one pod may have, and disks that pods of one node cannot share.
#
# kube-scheduler's VolumeRestrictions:
# https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes


IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
DISK_CONFLICT = "node(s) had no available disk"


class VolumeRestrictions:
    """A claim of ReadWriteOncePod goes to one pod, and an inline disk to one pod of a node.

    Evicting the pod that has it helps, on the node of that pod.
    """

    name = "VolumeRestrictions"
    only_for = ("volumes",)
    depends = Depends.CLUSTER

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without claims of their own and without such disks."""
        volumes = shape.volumes
        if volumes is None:
            return None
        claims = any(claim.owner is None for claim in volumes.claims)
        if not claims and not any(disk.is_exclusive for disk in volumes.disks):
            return None
        conflict = reasons.register(self.name, DISK_CONFLICT)
        in_use = reasons.register(self.name, IN_USE)

        def ask(rows: Rows) -> IntArray:
            found = rows.volumes.in_use(volumes)
            if isinstance(found, str):
                return np.full(len(rows.index), reasons.refuse(self.name, found))
            masks: IntArray = np.full(len(rows.index), in_use if found else 0, np.int64)
            disks = rows.volumes.with_conflict(volumes)
            if disks is not None:
                masks[disks] = conflict
            return masks

        return ask


# Filter: nodes whose CSI drivers can attach a pod's volumes besides those that are there.
#
# kube-scheduler's NodeVolumeLimits: https://kubernetes.io/docs/concepts/storage/storage-limits/


TOO_MANY = "node(s) exceed max volume count"


class NodeVolumeLimits:
    """No driver attaches more volumes to a node than its CSINode says."""

    name = "NodeVolumeLimits"
    only_for = ("volumes",)
    depends = Depends.CLUSTER

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without claims and disks."""
        volumes = shape.volumes
        if volumes is None:
            return None
        too_many = reasons.register(self.name, TOO_MANY)

        def ask(rows: Rows) -> IntArray | None:
            found = rows.volumes.over_limit(volumes)
            if found is None:
                return None
            if isinstance(found, str):
                return np.full(
                    len(rows.index), reasons.register(self.name, found, resolvable=False)
                )
            return np.where(found, too_many, 0)

        return ask


# Filter: nodes in the zones and regions that labels of a pod's volumes name.
#
# kube-scheduler's VolumeZone. Volumes of today say so by their node affinity (VolumeBinding); the
# labels are those of older ones.


CONFLICT = "node(s) had no available volume zone"


class VolumeZone:
    """A node with a zone or region must have those of every volume."""

    name = "VolumeZone"
    only_for = ("volumes",)
    depends = Depends.CLUSTER

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """No question for pods without claims of their own."""
        volumes = shape.volumes
        if volumes is None or all(claim.owner is not None for claim in volumes.claims):
            return None
        conflict = reasons.register(self.name, CONFLICT, resolvable=False)

        def ask(rows: Rows) -> IntArray:
            found = rows.volumes.in_zone(volumes)
            if isinstance(found, str):
                return np.full(len(rows.index), reasons.refuse(self.name, found))
            return np.where(found, 0, conflict)

        return ask
