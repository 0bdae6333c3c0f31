"""The work for a PersistentVolumeClaim: its volume, and its phase.

One step at a time: each write is seen by the watch, which leads to the next.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.claims.storage_names import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DELAYED,
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE_PROVISIONERS,
    annotation,
    claim_reference,
    class_of,
    is_reserved_for,
)
from kubeshare_py.embedded_cluster.claims.volume_matching import best_volume
from kubeshare_py.embedded_cluster.controllers.controller_work import (
    Change,
    ControllerEvent,
    ControllerWork,
    changed_annotations,
    status_patch,
)
from kubeshare_py.embedded_cluster.controllers.object_kinds import CLAIMS
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject

YES = "yes"
_NO_CLASS = ControllerEvent(
    "Normal",
    "FailedBinding",
    "no persistent volumes available for this claim and no storage class is set",
)
_NO_SUCH_CLASS = ControllerEvent(
    "Warning", "ProvisioningFailed", 'storageclass.storage.k8s.io "{name}" not found'
)
_FIRST_CONSUMER = ControllerEvent(
    "Normal", DELAYED, "waiting for first consumer to be created before binding"
)
_EXTERNAL = ControllerEvent(
    "Normal",
    "ExternalProvisioning",
    "Waiting for a volume to be created either by the external provisioner '{name}' or manually "
    "by the system administrator. If volume creation is delayed, please verify that the "
    "provisioner is running and correctly registered.",
)
_LOST = ControllerEvent(
    "Warning",
    "ClaimLost",
    "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
)
_MISBOUND = ControllerEvent(
    "Warning",
    "ClaimMisbound",
    "Two claims are bound to the same volume, this one is bound incorrectly",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStorage:
    """Volumes by name, those that no other claim is getting, and StorageClasses by name."""

    volumes: Mapping[str, UnstructuredObject]
    free: Iterable[UnstructuredObject]
    classes: Mapping[str, UnstructuredObject]


def binding_work(claim: UnstructuredObject, known: KnownStorage) -> ControllerWork:
    """The next step of a claim's binding."""
    name = claim.spec.get("volumeName")
    if not name:
        return _search(claim, known)
    volume = known.volumes.get(name)
    if volume is None or not (
        volume.spec.get("claimRef") is None or is_reserved_for(volume, claim)
    ):
        return _without(claim, _LOST if volume is None else _MISBOUND)
    if step := _reservation(volume, claim, by_controller=volume.spec.get("claimRef") is None):
        return ControllerWork(change=(step,))
    wanted = {BIND_COMPLETED: YES}
    if missing := changed_annotations(claim, wanted):
        return _own(claim, {"metadata": {"annotations": missing}})
    status = {
        **claim.status,
        "phase": "Bound",
        "accessModes": volume.spec.get("accessModes") or [],
        "capacity": volume.spec.get("capacity") or {},
    }
    return ControllerWork(status=status_patch(claim, status))


def _search(claim: UnstructuredObject, known: KnownStorage) -> ControllerWork:
    """Find a volume for a claim that names none, or ask for one."""
    chosen = known.classes.get(class_of(claim))
    delayed = chosen is not None and chosen.volumeBindingMode == DELAYED
    volume = best_volume(claim, known.free, delayed=delayed)
    if volume is not None:
        if step := _reservation(volume, claim, by_controller=not volume.spec.get("claimRef")):
            return ControllerWork(change=(step,))
        marks = {BIND_COMPLETED: YES, BOUND_BY_CONTROLLER: YES}
        body = {"metadata": {"annotations": marks}, "spec": {"volumeName": volume.metadata.name}}
        return _own(claim, body)
    return _request(claim, chosen)


def _request(claim: UnstructuredObject, chosen: UnstructuredObject | None) -> ControllerWork:
    """Ask the provisioner of the claim's class for a volume, or say what the claim waits for."""
    if chosen is None:
        name = class_of(claim)
        return _pending(claim, _NO_SUCH_CLASS.about(name=name) if name else _NO_CLASS)
    if chosen.volumeBindingMode == DELAYED and not annotation(claim, SELECTED_NODE):
        return _pending(claim, _FIRST_CONSUMER)
    if chosen.provisioner == NO_PROVISIONER:
        return _pending(claim)
    wanted = dict.fromkeys(STORAGE_PROVISIONERS, chosen.provisioner)
    if missing := changed_annotations(claim, wanted):
        return _own(claim, {"metadata": {"annotations": missing}})
    return _pending(claim, _EXTERNAL.about(name=chosen.provisioner))


def _reservation(
    volume: UnstructuredObject, claim: UnstructuredObject, *, by_controller: bool
) -> Change | None:
    """The change that makes the volume this claim's; None if it is."""
    if (volume.spec.get("claimRef") or {}).get("uid") == claim.uid:
        return None
    body: Json = {"spec": {"claimRef": claim_reference(claim)}}
    if by_controller:
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: YES}}
    return Change(object=volume, body=body)


def _own(claim: UnstructuredObject, body: Json) -> ControllerWork:
    return ControllerWork(change=(Change(object=claim, body=body, kind=CLAIMS),))


def _without(claim: UnstructuredObject, event: ControllerEvent) -> ControllerWork:
    """A claim whose volume is not there, or another's: lost if it had it."""
    if not annotation(claim, BIND_COMPLETED):
        return _pending(claim)
    patch = status_patch(claim, {"phase": "Lost"})
    return ControllerWork(status=patch, events=(event,) if patch else ())


def _pending(claim: UnstructuredObject, event: ControllerEvent | None = None) -> ControllerWork:
    return ControllerWork(
        status=status_patch(claim, {**claim.status, "phase": "Pending"}),
        events=(event,) if event else (),
    )
