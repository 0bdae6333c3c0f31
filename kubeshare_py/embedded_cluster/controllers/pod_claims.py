"""The claims that pods bring with them: of ephemeral volumes, and of devices."""

from kubeshare_py.embedded_cluster.controllers.controller import (
    ControllerCache,
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    Creation,
    Deletion,
    MaybeObject,
    body_of,
    reference_to,
    without_finalizer,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLAIMS,
    PODS,
    Json,
    ObjectKind,
    UnstructuredObject,
    is_finished,
)

# The claims of generic ephemeral volumes: one `<pod>-<volume>` per volume, owned by the pod.
#
# https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes


_REFUSED = ControllerEvent("Warning", "FailedBinding", "ephemeral volume: {error}")


class EphemeralVolumeCache(ControllerCache):
    """Pods with such volumes, and claims."""

    role = ControllerRole(
        component="ephemeral_volume", owner=PODS, dependents=CLAIMS, watched=(PODS, CLAIMS)
    )

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The claims that a pod lacks.

        A claim of that name that is not the pod's stays, and the pod waits.
        """
        if is_finished(owner) or owner.metadata.deletionTimestamp is not None:
            return ControllerWork()
        present = self.dependents.names(owner.metadata.namespace)
        missing = (one for one in _claims(owner) if one["metadata"]["name"] not in present)
        return ControllerWork(
            create=tuple(Creation(body=body, refused=_REFUSED) for body in missing)
        )

    def concerns(self, kind: ObjectKind, found: UnstructuredObject) -> bool:
        """Claims, and pods with such volumes."""
        return kind != PODS or bool(_claims(found))


def _claims(pod: UnstructuredObject) -> list[Json]:
    metadata = pod.metadata
    found = []
    for volume in pod.spec.get("volumes") or []:
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is None:
            continue
        given = template.get("metadata") or {}
        own = {
            "name": f"{metadata.name}-{volume['name']}",
            "namespace": metadata.namespace,
            "ownerReferences": [reference_to(pod, PODS)],
        }
        found.append(body_of(CLAIMS, {**given, **own}, template["spec"]))
    return found


# The ResourceClaims of pods that name templates, and the reservations of claims.
#
# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/


#: On a claim: the entry of its pod's resourceClaims.
CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
#: Schedulers put it on a claim that they allocate.
PROTECTION = "resource.kubernetes.io/delete-protection"
_COMPONENT = "resource_claim"
_NO_TEMPLATE = ControllerEvent(
    "Warning",
    "FailedResourceClaimCreation",
    'PodResourceClaim {name}: resource claim template "{error}" not found',
)
#: A generated name has at most 63 characters, 5 of them random.
_LONGEST_PREFIX = 58


class PodClaimCache(ControllerCache):
    """Pods that name templates of claims, the claims made for them, and the templates."""

    role = ControllerRole(
        component=_COMPONENT,
        owner=PODS,
        dependents=DEVICE_CLAIMS,
        watched=(PODS, DEVICE_CLAIMS, CLAIM_TEMPLATES),
    )

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The claims that a pod lacks and their names in its status; their end with the pod."""
        claims = self.dependents.of(owner.uid)
        if is_finished(owner):
            going = (one for one in claims if one.metadata.deletionTimestamp is None)
            return ControllerWork(delete=tuple(Deletion(object=one) for one in going))
        if owner.metadata.deletionTimestamp is not None:
            return ControllerWork()
        made = {(one.metadata.annotations or {}).get(CLAIM_NAME): one for one in claims}
        create, events = [], []
        for entry in _templated(owner):
            if entry["name"] in made:
                continue
            template = self._template(owner, entry["resourceClaimTemplateName"])
            if template is not None:
                create.append(Creation(body=_claim(owner, entry["name"], template)))
            elif owner.uid not in self._told:
                self._told.add(owner.uid)
                missing = entry["resourceClaimTemplateName"]
                events.append(_NO_TEMPLATE.about(name=entry["name"], error=missing))
        return ControllerWork(
            create=tuple(create), status=_statuses(owner, made), events=tuple(events)
        )

    def concerns(self, kind: ObjectKind, found: UnstructuredObject) -> bool:
        """Claims, templates, and pods that name templates."""
        return kind != PODS or bool(_templated(found))

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Look at all pods when a template changes."""
        if kind == CLAIM_TEMPLATES:
            self.look_at_all()
        elif before is not None and after is None:
            self._told.discard(before.uid)

    def _template(self, pod: UnstructuredObject, name: str) -> UnstructuredObject | None:
        place = (pod.metadata.namespace, name)
        found = self.known[CLAIM_TEMPLATES].values()
        return next((o for o in found if (o.metadata.namespace, o.metadata.name) == place), None)


class ReservationCache(ControllerCache):
    """Claims and pods; a claim that its last pod leaves, or that is deleted, loses its devices.

    A claim that no pod has held yet keeps its finalizer and its devices: a scheduler writes the
    finalizer before the allocation, and others may allocate without a pod.
    """

    role = ControllerRole(
        component=_COMPONENT, owner=DEVICE_CLAIMS, dependents=PODS, watched=(DEVICE_CLAIMS, PODS)
    )

    def __init__(self) -> None:
        super().__init__()
        self._released: set[str] = set()

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The reservations without those of pods that are over, and then the release."""
        status = owner.status
        held = status.get("reservedFor") or []
        kept = [one for one in held if self._holds(one)]
        changed: Json = {}
        if kept != held:
            changed["reservedFor"] = kept or None
        was_left = kept != held or owner.metadata.deletionTimestamp is not None
        if not kept and was_left:
            self._released.add(owner.uid)
            if "allocation" in status:
                changed |= {"allocation": None, "devices": None}
        if changed:
            version = {"resourceVersion": owner.metadata.resourceVersion}
            return ControllerWork(status={"metadata": version, "status": changed})
        if kept or owner.uid not in self._released or "allocation" in status:
            return ControllerWork()
        if PROTECTION not in (owner.metadata.finalizers or []):
            self._released.discard(owner.uid)
        return without_finalizer(owner, PROTECTION, DEVICE_CLAIMS)

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Look at the claims of a pod that is over."""
        found = after or before
        assert found is not None
        if after is None:
            self._released.discard(found.uid)
        if kind == PODS and found.spec.get("resourceClaims") and (after is None or _is_over(after)):
            self._look_at_claims_of(found.uid)

    def _look_at_claims_of(self, pod_uid: str) -> None:
        for uid, claim in self.owners.items():
            if any(one.get("uid") == pod_uid for one in claim.status.get("reservedFor") or []):
                self.look_again(uid)

    def _holds(self, consumer: Json) -> bool:
        """Whether a reservation stays: it is no pod's, or its pod goes on."""
        if (consumer.get("apiGroup", ""), consumer.get("resource")) != ("", "pods"):
            return True
        pod = self.dependents.get(consumer.get("uid", ""))
        return pod is not None and not _is_over(pod)


def _is_over(pod: UnstructuredObject) -> bool:
    """Whether a pod has ended, or is being deleted and never had a node."""
    never_ran = pod.metadata.deletionTimestamp is not None and not pod.spec.get("nodeName")
    return is_finished(pod) or never_ran


def _templated(pod: UnstructuredObject) -> list[Json]:
    claims: list[Json] = pod.spec.get("resourceClaims") or []
    return [one for one in claims if one.get("resourceClaimTemplateName")]


def _claim(pod: UnstructuredObject, name: str, template: UnstructuredObject) -> Json:
    given = template.spec.get("metadata") or {}
    prefix = f"{pod.metadata.name}-{name}-"
    metadata = {
        "generateName": prefix[:_LONGEST_PREFIX],
        "namespace": pod.metadata.namespace,
        "labels": given.get("labels") or {},
        "annotations": {**(given.get("annotations") or {}), CLAIM_NAME: name},
        "ownerReferences": [reference_to(pod, PODS)],
    }
    return body_of(DEVICE_CLAIMS, metadata, template.spec.get("spec") or {})


def _statuses(pod: UnstructuredObject, made: dict[str | None, UnstructuredObject]) -> Json | None:
    """The names of the pod's claims, as a patch of its status; None if they are there."""
    wanted = [
        {"name": entry["name"], "resourceClaimName": made[entry["name"]].metadata.name}
        for entry in _templated(pod)
        if entry["name"] in made
    ]
    if not wanted or pod.status.get("resourceClaimStatuses") == wanted:
        return None
    return {"status": {"resourceClaimStatuses": wanted}}
