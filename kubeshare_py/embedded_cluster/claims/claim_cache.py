"""Claims, volumes, classes and pods as the controller that binds claims has seen them."""

from collections.abc import Iterator, Sequence

from kubeshare_py.embedded_cluster.claims.claim_binding import KnownStorage, binding_work
from kubeshare_py.embedded_cluster.claims.storage_names import claims_of_pod, class_of
from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import (
    Change,
    ControllerRole,
    ControllerWork,
)
from kubeshare_py.embedded_cluster.controllers.object_kinds import (
    CLAIMS,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    ObjectKind,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject, is_finished

#: Keeps a claim that is being deleted until no pod on a node mounts it.
PROTECTION = "kubernetes.io/pvc-protection"


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
        self._volumes: dict[str, UnstructuredObject] = {}
        self._classes: dict[str, UnstructuredObject] = {}
        #: Pods on nodes that mount a claim, by uid: their namespace and the claims' names.
        self._mounts: dict[str, tuple[str, list[str]]] = {}
        #: Volumes given to a claim by a change that the watch has not shown: version and claim.
        self._given: dict[str, tuple[str, str]] = {}
        #: The last event of each claim: the same one is not repeated.
        self._told: dict[str, str] = {}

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The next step of a claim, or its release once nothing mounts it."""
        if owner.metadata.deletionTimestamp is not None:
            return self._release(owner)
        volumes = {one.metadata.name: one for one in self._volumes.values()}
        known = KnownStorage(volumes=volumes, free=self._free(owner), classes=self._by_name())
        work = binding_work(owner, known)
        for change in work.change:
            if change.object.uid in self._volumes:
                version = change.object.metadata.resourceVersion
                self._given[change.object.uid] = version, owner.uid
        return self._without_repetition(owner, work)

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all objects of a kind."""
        super().listed(kind, found, asked_at)
        if kind == VOLUMES:
            self._volumes = {one.uid: one for one in found}
        elif kind == STORAGE_CLASSES:
            self._classes = {one.uid: one for one in found}
        elif kind == PODS:
            self._mounts.clear()
            for pod in found:
                self._mount(pod)
        self._look_at_all()

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        super().seen(kind, found)
        if kind == VOLUMES:
            self._volumes[found.uid] = found
            self._look_at_claims_for(found)
        elif kind == STORAGE_CLASSES:
            self._classes[found.uid] = found
            self._look_at_all()
        elif kind == PODS:
            self._mount(found)

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that an object was deleted."""
        super().gone(kind, uid)
        if kind == CLAIMS:
            self._told.pop(uid, None)
        elif kind == VOLUMES and (volume := self._volumes.pop(uid, None)) is not None:
            self._given.pop(uid, None)
            self._look_at_claims_for(volume)
        elif kind == STORAGE_CLASSES:
            self._classes.pop(uid, None)
        elif kind == PODS and (held := self._mounts.pop(uid, None)) is not None:
            self._look_at_namespace_of(held)

    def _by_name(self) -> dict[str, UnstructuredObject]:
        return {one.metadata.name: one for one in self._classes.values()}

    def _free(self, claim: UnstructuredObject) -> Iterator[UnstructuredObject]:
        """The volumes, without those that another claim is being given just now."""
        for uid, volume in self._volumes.items():
            version, other = self._given.get(uid, ("", ""))
            if version != volume.metadata.resourceVersion or other == claim.uid:
                yield volume

    def _release(self, claim: UnstructuredObject) -> ControllerWork:
        held = claim.metadata.finalizers or []
        place = (claim.metadata.namespace, claim.metadata.name)
        mounted = any(
            place == (namespace, name)
            for namespace, names in self._mounts.values()
            for name in names
        )
        if PROTECTION not in held or mounted:
            return ControllerWork()
        body = {"metadata": {"finalizers": [one for one in held if one != PROTECTION]}}
        return ControllerWork(change=(Change(object=claim, body=body, kind=CLAIMS),))

    def _without_repetition(
        self, claim: UnstructuredObject, work: ControllerWork
    ) -> ControllerWork:
        told = "".join(event.reason for event in work.events)
        if not told or self._told.get(claim.uid) == told:
            return ControllerWork(
                create=work.create, change=work.change, status=work.status, look_at=work.look_at
            )
        self._told[claim.uid] = told
        return work

    def _mount(self, pod: UnstructuredObject) -> None:
        before = self._mounts.pop(pod.uid, None)
        names = claims_of_pod(pod)
        if names and pod.spec.get("nodeName") and not is_finished(pod):
            self._mounts[pod.uid] = pod.metadata.namespace, names
        elif before is not None:
            self._look_at_namespace_of(before)

    def _look_at_namespace_of(self, mount: tuple[str, list[str]]) -> None:
        namespace, names = mount
        for uid, claim in self.owners.items():
            if claim.metadata.namespace == namespace and claim.metadata.name in names:
                self.look_again(uid)

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

    def _look_at_all(self) -> None:
        for uid in self.owners:
            self.look_again(uid)
