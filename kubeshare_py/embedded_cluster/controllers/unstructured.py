"""Kubernetes objects as simulated kubelets and controllers read them: untyped except metadata.

The simulation needs only a few fields and must pass the others on unchanged, so `spec` and `status`
stay plain JSON.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

Json = dict[str, Any]


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of metadata.ownerReferences."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


class UnstructuredMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of metadata that identify an object, and those that decide how it ends."""

    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[Owner] | None = None


class UnstructuredObject(msgspec.Struct, frozen=True, kw_only=True):
    """Any object. A StorageClass has its fields beside `spec` and `status`."""

    metadata: UnstructuredMetadata
    spec: Json = {}
    status: Json = {}
    provisioner: str = ""
    volumeBindingMode: str = ""
    reclaimPolicy: str = ""
    parameters: dict[str, str] | None = None

    @property
    def uid(self) -> str:
        """The object's uid; names are used again."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, as in messages."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


def phase(pod: UnstructuredObject) -> str:
    """A pod's phase; Pending if it has none."""
    return str(pod.status.get("phase") or "Pending")


def is_finished(pod: UnstructuredObject) -> bool:
    """Whether a pod's phase is terminal."""
    return phase(pod) in ("Succeeded", "Failed")


def is_ready(pod: UnstructuredObject) -> bool:
    """Whether a pod's Ready condition is True."""
    return condition_of(pod, "Ready").get("status") == "True"


def ready_since(pod: UnstructuredObject) -> float:
    """When the Ready condition last changed, as Unix time (s); 0 if unknown."""
    text = condition_of(pod, "Ready").get("lastTransitionTime")
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def condition_of(found: UnstructuredObject, kind: str) -> Json:
    """A condition in an object's status; {} if there is none."""
    conditions: list[Json] = found.status.get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind), {})


# The kinds that simulated controllers watch, with their paths.


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind in one group version, which is `api_version`."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def path(self) -> str:
        """The path of the list of all of them."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        return f"{prefix}/{self.api_version}/{self.plural}"

    def collection(self, namespace: str) -> str:
        """The path at which those of a namespace are listed and created."""
        if not self.namespaced:
            return self.path
        return f"{self.path.removesuffix(self.plural)}namespaces/{namespace}/{self.plural}"

    def object_path(self, namespace: str, name: str) -> str:
        """The path of one of them."""
        return f"{self.collection(namespace)}/{name}"


PODS = ObjectKind("v1", "Pod", "pods")
JOBS = ObjectKind("batch/v1", "Job", "jobs")
REPLICA_SETS = ObjectKind("apps/v1", "ReplicaSet", "replicasets")
DEPLOYMENTS = ObjectKind("apps/v1", "Deployment", "deployments")
DEFINITIONS = ObjectKind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
STATEFUL_SETS = ObjectKind("apps/v1", "StatefulSet", "statefulsets")
CLAIMS = ObjectKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = ObjectKind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = ObjectKind(
    "storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False
)
DEVICE_CLAIMS = ObjectKind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
CLAIM_TEMPLATES = ObjectKind(
    "resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
BUDGETS = ObjectKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")


def defined_by(definition: UnstructuredObject) -> list[ObjectKind]:
    """The kind of a CustomResourceDefinition, once a version is served; [] before that."""
    conditions = definition.status.get("conditions") or []
    if not any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
        return []
    spec = definition.spec
    return [
        ObjectKind(
            f"{spec['group']}/{version['name']}",
            spec["names"]["kind"],
            spec["names"]["plural"],
            namespaced=spec["scope"] == "Namespaced",
        )
        for version in spec["versions"]
        if version["served"]
    ]
