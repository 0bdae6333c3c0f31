"""A simulated CSI provisioner: volumes for claims of its classes, and their end.

It works on any API server. A StorageClass whose provisioner has another name is never answered.
https://kubernetes-csi.github.io/docs/external-provisioner.html
"""

import math
from dataclasses import replace

from kubeshare_py.embedded_cluster.controllers.controller import (
    ControllerCache,
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    Creation,
    Deletion,
    MaybeObject,
    body_of,
    own_change,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    STORAGE_CLASSES,
    VOLUMES,
    Json,
    ObjectKind,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.controllers.volume_binding import (
    DELAYED,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONERS,
    annotation,
    claim_reference,
    class_of,
)

#: The provisioner of the StorageClasses that are answered.
PROVISIONER = "disks.kubeshare.sim"
#: Parameters of a class: how long (s) a volume takes, and nodes (a,b) that get none.
DELAY, REFUSED = "delaySeconds", "refusedNodes"
_HOSTNAME = "kubernetes.io/hostname"
_MADE = ControllerEvent("Normal", "ProvisioningSucceeded", "Successfully provisioned volume {name}")
_REFUSED = ControllerEvent(
    "Warning",
    "ProvisioningFailed",
    'failed to provision volume with StorageClass "{name}": {error}',
)
_NO_ROOM = "the node has no room for it"
_NO_DELAY = "parameter delaySeconds is no number of seconds: {!r}"


class ProvisionerCache(ControllerCache):
    """Claims that wait for this provisioner, and the volumes that it made."""

    role = ControllerRole(
        component=PROVISIONER,
        owner=CLAIMS,
        dependents=VOLUMES,
        watched=(CLAIMS, VOLUMES, STORAGE_CLASSES),
    )

    def __init__(self) -> None:
        super().__init__()
        self._due_at: dict[str, float] = {}

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The volume of a claim once it is due, or the news that its node gets none."""
        chosen = self._class(owner)
        made = self.dependents.names("")
        if chosen is None or not _waits(owner, chosen) or _volume_name(owner) in made:
            self._due_at.pop(owner.uid, None)
            return ControllerWork()
        given = chosen.parameters or {}
        delay_s = _delay_s(given)
        if delay_s is None:
            error = _NO_DELAY.format(given[DELAY])
            return ControllerWork(events=(_REFUSED.about(name=chosen.metadata.name, error=error),))
        due_at = self._due_at.setdefault(owner.uid, now + delay_s)
        if now < due_at:
            return ControllerWork(look_at=due_at)
        node = annotation(owner, SELECTED_NODE)
        if node and node in given.get(REFUSED, "").split(","):
            del self._due_at[owner.uid]
            body = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            event = _REFUSED.about(name=chosen.metadata.name, error=_NO_ROOM)
            return replace(own_change(owner, body, CLAIMS), events=(event,))
        body = _volume(owner, chosen, node)
        return ControllerWork(create=(Creation(body=body, made=_MADE),))

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Look at all claims when a class changes."""
        if kind == STORAGE_CLASSES:
            self.look_at_all()

    def _class(self, claim: UnstructuredObject) -> UnstructuredObject | None:
        name, classes = class_of(claim), self.known[STORAGE_CLASSES].values()
        return next((one for one in classes if one.metadata.name == name), None)


class ReclaimCache(ControllerCache):
    """The volumes that this provisioner made; those that were released are deleted."""

    role = ControllerRole(
        component=PROVISIONER, owner=VOLUMES, dependents=VOLUMES, watched=(VOLUMES,)
    )

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The end of a released volume whose class reclaims by deletion."""
        is_ours = annotation(owner, PROVISIONED_BY) == PROVISIONER
        is_free = owner.status.get("phase") == "Released"
        doomed = owner.spec.get("persistentVolumeReclaimPolicy") == "Delete"
        if is_ours and is_free and doomed and owner.metadata.deletionTimestamp is None:
            return ControllerWork(delete=(Deletion(object=owner),))
        return ControllerWork()


def _waits(claim: UnstructuredObject, chosen: UnstructuredObject) -> bool:
    """Whether a claim waits for a volume of ours, and it is known where."""
    if claim.metadata.deletionTimestamp is not None or claim.spec.get("volumeName"):
        return False
    asked = any(annotation(claim, name) == PROVISIONER for name in STORAGE_PROVISIONERS)
    placed = chosen.volumeBindingMode != DELAYED or bool(annotation(claim, SELECTED_NODE))
    return asked and placed


def _delay_s(parameters: Json) -> float | None:
    """How long a volume takes; None if the parameter cannot be read."""
    try:
        delay_s = float(parameters.get(DELAY, "0"))
    except ValueError:
        return None
    return delay_s if math.isfinite(delay_s) and delay_s >= 0 else None


def _volume_name(claim: UnstructuredObject) -> str:
    return f"pvc-{claim.uid}"


def _volume(claim: UnstructuredObject, chosen: UnstructuredObject, node: str) -> Json:
    """A volume of the size that the claim asks for, on its node if one was selected."""
    name, spec = _volume_name(claim), claim.spec
    body: Json = {
        "accessModes": spec.get("accessModes") or [],
        "capacity": {"storage": spec["resources"]["requests"]["storage"]},
        "claimRef": claim_reference(claim),
        "csi": {"driver": PROVISIONER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": chosen.reclaimPolicy or "Delete",
        "storageClassName": chosen.metadata.name,
        "volumeMode": spec.get("volumeMode", "Filesystem"),
    }
    if node:
        here = {"key": _HOSTNAME, "operator": "In", "values": [node]}
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return body_of(VOLUMES, {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}, body)
