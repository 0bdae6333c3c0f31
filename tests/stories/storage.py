"""Volumes, claims and classes of stories."""

from typing import Any

from kubeshare_py.embedded_cluster.controllers.provisioning import PROVISIONER
from tests.stories.conftest import Json, Stage

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
#: A provisioner that never answers.
ABSENT = "never.kubeshare.sim"


def storage_class(name: str, *, delayed: bool = True, **fields: Any) -> Json:
    """A class of the simulated driver, unless it names another provisioner."""
    mode = "WaitForFirstConsumer" if delayed else "Immediate"
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": PROVISIONER,
        "volumeBindingMode": mode,
        **fields,
    }


def claim(name: str, class_name: str, **spec: Any) -> Json:
    """A claim of 1 GiB."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": claim_spec(class_name, **spec),
    }


def claim_spec(class_name: str, **spec: Any) -> Json:
    size = {"requests": {"storage": "1Gi"}}
    modes = {"accessModes": ["ReadWriteOnce"]}
    return {**modes, "resources": size, "storageClassName": class_name, **spec}


def local_volume(name: str, node: str, class_name: str) -> Json:
    """A disk of one node."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def mounted(*claims: str) -> Json:
    """The volumes of a pod that mounts these claims."""
    return {
        "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    }


async def expect_phase(stage: Stage, path: str, name: str, phase: str) -> Json:
    """Wait for the phase of a claim or a volume."""
    return await stage.expect_in(path, name, lambda one: one["status"].get("phase") == phase)
