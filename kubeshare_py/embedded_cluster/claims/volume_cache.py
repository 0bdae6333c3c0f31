"""PersistentVolumes and their claims as the controller of volumes' phases has seen them."""

from collections.abc import Sequence

from kubeshare_py.embedded_cluster.claims.storage_names import BOUND_BY_CONTROLLER, annotation
from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import (
    Change,
    ControllerRole,
    ControllerWork,
)
from kubeshare_py.embedded_cluster.controllers.object_kinds import CLAIMS, VOLUMES, ObjectKind
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp

#: Keeps a volume that is being deleted while it is bound.
PROTECTION = "kubernetes.io/pv-protection"
AVAILABLE, BOUND, RELEASED = "Available", "Bound", "Released"


class VolumeCache(ControllerCache):
    """Marks a volume for work when it or the claim that it names changes.

    Left out: volumes that are recycled, and those that no provisioner made and that are to be
    deleted, which stay Released here.
    """

    role = ControllerRole(
        component="persistentvolume-controller",
        owner=VOLUMES,
        dependents=CLAIMS,
        watched=(VOLUMES, CLAIMS),
    )

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[str, UnstructuredObject] = {}

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The phase of a volume, its release from a claim, or its end."""
        if owner.metadata.deletionTimestamp is not None and not self._is_held(owner):
            return self._unprotected(owner)
        reference = owner.spec.get("claimRef") or {}
        uid = reference.get("uid")
        if not uid:
            return _phase(owner, AVAILABLE, now)
        claim = self._claims.get(uid)
        if claim is None:
            return _phase(owner, RELEASED, now)
        bound_to = claim.spec.get("volumeName")
        if not bound_to:
            return ControllerWork()
        if bound_to == owner.metadata.name:
            return _phase(owner, BOUND, now)
        return _given_back(owner)

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all volumes or all claims."""
        super().listed(kind, found, asked_at)
        if kind == CLAIMS:
            self._claims = {one.uid: one for one in found}
            for uid in self.owners:
                self.look_again(uid)

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in a volume or a claim as it is now."""
        super().seen(kind, found)
        if kind == CLAIMS:
            self._claims[found.uid] = found
            self._look_at_volumes_of(found.uid)

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that a volume or a claim was deleted."""
        super().gone(kind, uid)
        if kind == CLAIMS:
            self._claims.pop(uid, None)
            self._look_at_volumes_of(uid)

    def _look_at_volumes_of(self, claim_uid: str) -> None:
        for uid, volume in self.owners.items():
            if (volume.spec.get("claimRef") or {}).get("uid") == claim_uid:
                self.look_again(uid)

    def _is_held(self, volume: UnstructuredObject) -> bool:
        return (volume.spec.get("claimRef") or {}).get("uid") in self._claims

    def _unprotected(self, volume: UnstructuredObject) -> ControllerWork:
        held = volume.metadata.finalizers or []
        if PROTECTION not in held:
            return ControllerWork()
        body = {"metadata": {"finalizers": [one for one in held if one != PROTECTION]}}
        return ControllerWork(change=(Change(object=volume, body=body, kind=VOLUMES),))


def _phase(volume: UnstructuredObject, phase: str, now: float) -> ControllerWork:
    if volume.status.get("phase") == phase:
        return ControllerWork()
    metadata = {"resourceVersion": volume.metadata.resourceVersion}
    status = {"phase": phase, "lastPhaseTransitionTime": timestamp(now)}
    return ControllerWork(status={"metadata": metadata, "status": status})


def _given_back(volume: UnstructuredObject) -> ControllerWork:
    """The claim is bound to another volume: this one is free again, or waits for its claim."""
    by_controller = annotation(volume, BOUND_BY_CONTROLLER)
    reference = None if by_controller else {"uid": None, "resourceVersion": None}
    body: Json = {"spec": {"claimRef": reference}}
    if by_controller:
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: None}}
    return ControllerWork(change=(Change(object=volume, body=body, kind=VOLUMES),))
