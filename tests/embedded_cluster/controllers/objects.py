"""Claims, volumes and classes as the controllers see them."""

from typing import Any

from kubeshare_py.embedded_cluster.controllers.unstructured import (
    UnstructuredMetadata,
    UnstructuredObject,
)

NOW = 1_800_000_000.0


def claim(name: str = "c", size: str = "1Gi", **fields: Any) -> UnstructuredObject:
    """A claim of the class `fast`; further fields of its spec, or `annotations`, `status`."""
    return UnstructuredObject(
        metadata=_metadata(name, "ns", fields),
        status=fields.pop("status", {}),
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            **fields,
        },
    )


def volume(name: str = "v", size: str = "1Gi", **fields: Any) -> UnstructuredObject:
    """An available volume of the class `fast`; further fields as of `claim`."""
    return UnstructuredObject(
        metadata=_metadata(name, "", fields),
        status=fields.pop("status", {"phase": "Available"}),
        spec={
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": size},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            **fields,
        },
    )


def storage_class(mode: str = "Immediate", **fields: Any) -> UnstructuredObject:
    """The class `fast`."""
    given = {"provisioner": "disks.kubeshare.sim", "reclaimPolicy": "Delete", **fields}
    metadata = UnstructuredMetadata(name="fast", uid="uid-fast")
    return UnstructuredObject(metadata=metadata, volumeBindingMode=mode, **given)


def reserved(name: str, for_claim: str, **fields: Any) -> UnstructuredObject:
    """A volume whose claimRef names a claim with its uid."""
    reference = {"namespace": "ns", "name": for_claim, "uid": f"uid-{for_claim}"}
    return volume(name, claimRef=reference, **fields)


def _metadata(name: str, namespace: str, fields: dict[str, Any]) -> UnstructuredMetadata:
    return UnstructuredMetadata(
        name=name,
        namespace=namespace,
        uid=f"uid-{name}",
        resourceVersion=fields.pop("version", "1"),
        labels=fields.pop("labels", None),
        annotations=fields.pop("annotations", None),
        finalizers=fields.pop("finalizers", None),
        deletionTimestamp=fields.pop("deleted", None),
    )
