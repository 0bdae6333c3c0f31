"""The controllers that bind PersistentVolumeClaims to volumes, and give volumes back."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kubeshare_py.embedded_cluster.controllers.controller import (
    Change,
    ControllerCache,
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    MaybeObject,
    changed_annotations,
    own_change,
    status_patch,
    without_finalizer,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    Json,
    ObjectKind,
    UnstructuredObject,
    is_finished,
)
from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.selectors import selects
from kubeshare_py.embedded_cluster.protocol.times import timestamp

# Annotations of volumes and their claims, and what they say.
#
# https://kubernetes.io/docs/reference/labels-annotations-taints/


BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: The provisioner that a claim waits for: the present name, and the one before.
STORAGE_PROVISIONERS = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
#: A class with this provisioner has only volumes that people make.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
DELAYED = "WaitForFirstConsumer"


def annotation(found: UnstructuredObject, name: str) -> str:
    """The annotation's text; "" if there is none."""
    return (found.metadata.annotations or {}).get(name, "")


def class_of(found: UnstructuredObject) -> str:
    """The name of the StorageClass of a volume or a claim; "" for none."""
    return str(found.spec.get("storageClassName") or "")


def claim_reference(claim: UnstructuredObject) -> Json:
    """The claimRef of the volume that is a claim's."""
    metadata = claim.metadata
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": claim.uid,
        "resourceVersion": metadata.resourceVersion,
    }


def is_reserved_for(volume: UnstructuredObject, claim: UnstructuredObject) -> bool:
    """Whether a volume's claimRef names this claim, by its uid if it has one."""
    reference = volume.spec.get("claimRef") or {}
    place = (reference.get("namespace", ""), reference.get("name", ""))
    if place != (claim.metadata.namespace, claim.metadata.name):
        return False
    return bool(reference.get("uid", claim.uid) == claim.uid)


def claims_of_pod(pod: UnstructuredObject) -> list[str]:
    """The names of the PersistentVolumeClaims that a pod mounts, its own included."""
    names = []
    for volume in pod.spec.get("volumes") or []:
        if "persistentVolumeClaim" in volume:
            names.append(volume["persistentVolumeClaim"].get("claimName", ""))
        elif "ephemeral" in volume:
            names.append(f"{pod.metadata.name}-{volume['name']}")
    return names


# Which PersistentVolume a claim gets, as kube-controller-manager chooses it.
#
# https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding


def best_volume(
    claim: UnstructuredObject, volumes: Iterable[UnstructuredObject], *, delayed: bool
) -> UnstructuredObject | None:
    """The volume that is reserved for the claim, else the smallest available one that fits.

    A `delayed` claim gets no available one: the scheduler chooses it.
    """
    fitting = [volume for volume in volumes if _may_hold(volume, claim)]
    for volume in fitting:
        if volume.spec.get("claimRef"):
            return volume
    found = [] if delayed else [one for one in fitting if _is_offered(one, claim)]
    return min(
        found, key=lambda one: (_size(one.spec, "capacity"), one.metadata.name), default=None
    )


def _may_hold(volume: UnstructuredObject, claim: UnstructuredObject) -> bool:
    """Large enough, of the claim's mode, and not another claim's."""
    spec, wanted = volume.spec, claim.spec
    if spec.get("claimRef") and not is_reserved_for(volume, claim):
        return False
    asked = _size(wanted.get("resources") or {}, "requests")
    same_mode = spec.get("volumeMode") == wanted.get("volumeMode")
    is_there = volume.metadata.deletionTimestamp is None
    return is_there and same_mode and _size(spec, "capacity") >= asked


def _is_offered(volume: UnstructuredObject, claim: UnstructuredObject) -> bool:
    """Available, of the claim's class, with its labels and all its access modes."""
    selector = claim.spec.get("selector")
    modes = volume.spec.get("accessModes") or []
    return (
        volume.status.get("phase") == "Available"
        and class_of(volume) == class_of(claim)
        and (selector is None or selects(selector)(volume.metadata.labels))
        and all(mode in modes for mode in claim.spec.get("accessModes") or [])
    )


def _size(part: Json, name: str) -> int:
    """Bytes of storage, rounded up."""
    amount = quantities.value((part.get(name) or {}).get("storage", "0"))
    return -(-amount.numerator // amount.denominator)


# What the controller of PersistentVolumeClaims changes: their volumes and phases.
#
# One step at a time: each write is seen by the watch, which leads to the next.


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
        return own_change(claim, {"metadata": {"annotations": missing}}, CLAIMS)
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
        return own_change(claim, body, CLAIMS)
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
        return own_change(claim, {"metadata": {"annotations": missing}}, CLAIMS)
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


# Claims, volumes, classes and pods as the controller that binds claims has seen them.


#: Keeps a claim that is being deleted until no pod on a node mounts it.
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"


class ClaimCache(ControllerCache):
    """Marks claims for work when they, their volumes, their class or their pods change."""

    role = ControllerRole(
        component="persistentvolume-controller",
        owner=CLAIMS,
        dependents=VOLUMES,
        watched=(CLAIMS, VOLUMES, STORAGE_CLASSES, PODS),
    )

    def __init__(self) -> None:
        super().__init__()
        #: Volumes given to a claim by a change that the watch has not shown: version and claim.
        self._given: dict[str, tuple[str, str]] = {}
        #: The last event of each claim: the same one is not repeated.
        self._told: dict[str, str] = {}

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The next step of a claim, or its release once nothing mounts it."""
        if owner.metadata.deletionTimestamp is not None:
            return self._release(owner)
        known = KnownStorage(
            volumes=self._by_name(VOLUMES),
            free=self._free(owner),
            classes=self._by_name(STORAGE_CLASSES),
        )
        work = binding_work(owner, known)
        for change in work.change:
            if change.object.uid in self.known[VOLUMES]:
                version = change.object.metadata.resourceVersion
                self._given[change.object.uid] = version, owner.uid
        return self._without_repetition(owner, work)

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Look at the claims that a volume, a class or a pod that is over concerns."""
        found = after or before
        assert found is not None
        if after is None:
            self._told.pop(found.uid, None)
            self._given.pop(found.uid, None)
        if kind == VOLUMES:
            self._look_at_claims_for(found)
        elif kind == STORAGE_CLASSES:
            self.look_at_all()
        elif kind == PODS:
            mounted = {*_mounted(before)} - {*_mounted(after)}
            for uid, claim in self.owners.items() if mounted else ():
                if (claim.metadata.namespace, claim.metadata.name) in mounted:
                    self.look_again(uid)

    def _by_name(self, kind: ObjectKind) -> dict[str, UnstructuredObject]:
        return {one.metadata.name: one for one in self.known[kind].values()}

    def _free(self, claim: UnstructuredObject) -> Iterator[UnstructuredObject]:
        """The volumes, without those that another claim is being given just now."""
        for uid, volume in self.known[VOLUMES].items():
            version, other = self._given.get(uid, ("", ""))
            if version != volume.metadata.resourceVersion or other == claim.uid:
                yield volume

    def _release(self, claim: UnstructuredObject) -> ControllerWork:
        place = (claim.metadata.namespace, claim.metadata.name)
        if any(place in _mounted(pod) for pod in self.known[PODS].values()):
            return ControllerWork()
        return without_finalizer(claim, CLAIM_PROTECTION, CLAIMS)

    def _without_repetition(
        self, claim: UnstructuredObject, work: ControllerWork
    ) -> ControllerWork:
        told = "".join(event.reason for event in work.events)
        if not told or self._told.get(claim.uid) == told:
            return replace(work, events=())
        self._told[claim.uid] = told
        return work

    def _look_at_claims_for(self, volume: UnstructuredObject) -> None:
        """The claims that a changed volume concerns: its own, and those that may get it."""
        reference = volume.spec.get("claimRef") or {}
        for uid, claim in self.owners.items():
            metadata = claim.metadata
            if claim.spec.get("volumeName"):
                concerned = claim.spec["volumeName"] == volume.metadata.name
            elif reference:
                place = (reference.get("namespace"), reference.get("name"))
                concerned = place == (metadata.namespace, metadata.name)
            else:
                concerned = class_of(claim) == class_of(volume)
            if concerned:
                self.look_again(uid)


def _mounted(pod: UnstructuredObject | None) -> list[tuple[str, str]]:
    """Namespaces and names of the claims that a pod on a node mounts."""
    if pod is None or not pod.spec.get("nodeName") or is_finished(pod):
        return []
    return [(pod.metadata.namespace, name) for name in claims_of_pod(pod)]


# PersistentVolumes and their claims as the controller of volumes' phases has seen them.


#: Keeps a volume that is being deleted while it is bound.
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
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

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The phase of a volume, its release from a claim, or its end."""
        if owner.metadata.deletionTimestamp is not None and not self._is_held(owner):
            return without_finalizer(owner, VOLUME_PROTECTION, VOLUMES)
        reference = owner.spec.get("claimRef") or {}
        uid = reference.get("uid")
        if not uid:
            return _phase(owner, AVAILABLE, now)
        claim = self.known[CLAIMS].get(uid)
        if claim is None:
            return _phase(owner, RELEASED, now)
        bound_to = claim.spec.get("volumeName")
        if not bound_to:
            return ControllerWork()
        if bound_to == owner.metadata.name:
            return _phase(owner, BOUND, now)
        return _given_back(owner)

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Look at the volumes of a claim."""
        found = after or before
        if kind == CLAIMS and found is not None:
            self._look_at_volumes_of(found.uid)

    def _look_at_volumes_of(self, claim_uid: str) -> None:
        for uid, volume in self.owners.items():
            if (volume.spec.get("claimRef") or {}).get("uid") == claim_uid:
                self.look_again(uid)

    def _is_held(self, volume: UnstructuredObject) -> bool:
        return (volume.spec.get("claimRef") or {}).get("uid") in self.known[CLAIMS]


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
    return own_change(volume, body, VOLUMES)
