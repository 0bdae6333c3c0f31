"""The kinds that simulated controllers watch, with their paths."""

from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject


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
