"""The kinds that simulated controllers watch, and where their objects are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind in one group version, which is `api_version`."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def path(self) -> str:
        """Where all of them are listed."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        return f"{prefix}/{self.api_version}/{self.plural}"

    def collection(self, namespace: str) -> str:
        """Where those of a namespace are listed and created."""
        if not self.namespaced:
            return self.path
        return f"{self.path.removesuffix(self.plural)}namespaces/{namespace}/{self.plural}"

    def object_path(self, namespace: str, name: str) -> str:
        """Where one of them is."""
        return f"{self.collection(namespace)}/{name}"


PODS = Kind("v1", "Pod", "pods")
JOBS = Kind("batch/v1", "Job", "jobs")
REPLICA_SETS = Kind("apps/v1", "ReplicaSet", "replicasets")
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
BUDGETS = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
