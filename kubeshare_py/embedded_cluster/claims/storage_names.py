"""Annotations of volumes and their claims, and what they say.

https://kubernetes.io/docs/reference/labels-annotations-taints/
"""

from kubeshare_py.embedded_cluster.controllers.object_kinds import CLAIMS
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject

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
