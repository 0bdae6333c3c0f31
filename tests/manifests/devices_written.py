"""Objects of resource.k8s.io as JSON, read as the watch reads them."""

from typing import Any

import msgspec

from kubeshare_py.domain.device import DeviceClass, ResourceClaim, ResourceSlice
from kubeshare_py.manifests.resource_claims import (
    DeviceClassFields,
    ResourceClaimFields,
    to_device_class,
    to_resource_claim,
)
from kubeshare_py.manifests.resource_slices import ResourceSliceFields, to_resource_slice


def slice_of(**spec: Any) -> ResourceSlice:
    """A slice of the driver gpu.example.com with these fields."""
    pool = {"name": "n1", "generation": 2, "resourceSliceCount": 1}
    body = {
        "metadata": {"name": "s"},
        "spec": {"driver": "gpu.example.com", "pool": pool, "nodeName": "n1", **spec},
    }
    fields = msgspec.json.decode(msgspec.json.encode(body), type=ResourceSliceFields)
    return to_resource_slice(fields)


def claim_of(devices: Any, status: Any = None, **metadata: Any) -> ResourceClaim:
    """A claim that asks for these devices."""
    body = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "u", **metadata},
        "spec": {"devices": devices},
        "status": status or {},
    }
    fields = msgspec.json.decode(msgspec.json.encode(body), type=ResourceClaimFields)
    return to_resource_claim(fields)


def class_of(**spec: Any) -> DeviceClass:
    """A class with these fields."""
    body = {"metadata": {"name": "gpu"}, "spec": spec}
    fields = msgspec.json.decode(msgspec.json.encode(body), type=DeviceClassFields)
    return to_device_class(fields)


def exactly(name: str = "r", **fields: Any) -> dict[str, Any]:
    """A request for devices of the class gpu."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}
