"""The ResourceClaims of pods that name templates, and the reservations of claims.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from collections.abc import Sequence

from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import (
    Change,
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    Creation,
    Deletion,
)
from kubeshare_py.embedded_cluster.controllers.object_kinds import (
    CLAIM_TEMPLATES,
    DEVICE_CLAIMS,
    PODS,
    ObjectKind,
)
from kubeshare_py.embedded_cluster.controllers.ownership import reference_to
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    Json,
    UnstructuredObject,
    is_finished,
)

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
        self._templates: dict[str, UnstructuredObject] = {}
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

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all objects of a kind."""
        kept = [one for one in found if kind != PODS or _templated(one)]
        super().listed(kind, kept, asked_at)
        if kind == CLAIM_TEMPLATES:
            self._templates = {one.uid: one for one in found}
            self._look_at_all()

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        if kind != PODS or _templated(found):
            super().seen(kind, found)
        if kind == CLAIM_TEMPLATES:
            self._templates[found.uid] = found
            self._look_at_all()

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that an object was deleted."""
        super().gone(kind, uid)
        self._templates.pop(uid, None)
        self._told.discard(uid)

    def _template(self, pod: UnstructuredObject, name: str) -> UnstructuredObject | None:
        place = (pod.metadata.namespace, name)
        return next(
            (
                one
                for one in self._templates.values()
                if (one.metadata.namespace, one.metadata.name) == place
            ),
            None,
        )

    def _look_at_all(self) -> None:
        for uid in self.owners:
            self.look_again(uid)


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
        finalizers = owner.metadata.finalizers or []
        if PROTECTION not in finalizers:
            self._released.discard(owner.uid)
            return ControllerWork()
        left = [one for one in finalizers if one != PROTECTION]
        body: Json = {"metadata": {"finalizers": left}}
        return ControllerWork(change=(Change(object=owner, body=body, kind=DEVICE_CLAIMS),))

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in a claim or a pod as it is now."""
        super().seen(kind, found)
        if kind == PODS and found.spec.get("resourceClaims") and _is_over(found):
            self._look_at_claims_of(found.uid)

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that a claim or a pod was deleted."""
        super().gone(kind, uid)
        self._released.discard(uid)
        if kind == PODS:
            self._look_at_claims_of(uid)

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
    return {
        "apiVersion": DEVICE_CLAIMS.api_version,
        "kind": DEVICE_CLAIMS.kind,
        "metadata": metadata,
        "spec": template.spec.get("spec") or {},
    }


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
