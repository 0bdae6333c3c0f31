"""Writes to ResourceClaims: strategic merge patches for one version, like kube-scheduler's updates.

An allocated claim must not be deleted while pods use it, so that the finalizer is added before the
allocation: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubeshare_py.domain.devices.device import DeviceToleration
from kubeshare_py.domain.devices.resource_claim import (
    AllocatedDevice,
    ClaimAllocation,
    DeviceConfiguration,
)
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.object_writes import ReserveDevices
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.manifests.api_paths import object_path
from kubeshare_py.manifests.devices.resource_claim import FINALIZER
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.undecodable import UNDECODABLE

RESOURCE = "/apis/resource.k8s.io/v1"


class ClaimPatch(msgspec.Struct, frozen=True):
    """A patch of the object at this path, without the version that it is for."""

    path: str
    content: dict[str, Any]

    def body(self, uid: str, version: str) -> bytes:
        """The patch for this version of the object."""
        meta = {**self.content.get("metadata", {}), "uid": uid, "resourceVersion": version}
        return msgspec.json.encode({**self.content, "metadata": meta})


class _Written(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


def claim_path(write: ReserveDevices) -> str:
    """The path of the claim."""
    return object_path(RESOURCE, "resourceclaims", write.device_claim, write.namespace)


def claim_patches(write: ReserveDevices) -> Iterator[ClaimPatch]:
    """The patches, in order; each is for the version that the one before has made."""
    path = claim_path(write)
    if write.allocation is not None and not write.is_protected:
        yield ClaimPatch(path, {"metadata": {"finalizers": [FINALIZER]}})
    consumer = {"resource": "pods", "name": write.pod, "uid": write.pod_uid}
    status: dict[str, Any] = {"reservedFor": [consumer]}
    if write.allocation is not None:
        status["allocation"] = _allocation(write.allocation)
    yield ClaimPatch(f"{path}/status", {"status": status})


def version_in(answer: bytes) -> str:
    """The version of an object in an answer; "" if it has none, for which any patch is refused."""
    try:
        return msgspec.json.decode(answer, type=_Written).metadata.resource_version
    except UNDECODABLE:
        return ""


def _allocation(allocation: ClaimAllocation) -> dict[str, Any]:
    devices: dict[str, Any] = {"results": [_result(one) for one in allocation.devices]}
    if allocation.configurations:
        devices["config"] = [_configuration(one) for one in allocation.configurations]
    found: dict[str, Any] = {"devices": devices}
    if allocation.terms is not None:
        found["nodeSelector"] = {"nodeSelectorTerms": [_term(one) for one in allocation.terms]}
    return found


def _result(device: AllocatedDevice) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "request": device.request,
        "driver": device.key.driver,
        "pool": device.key.pool,
        "device": device.key.device,
    }
    if device.tolerations:
        found["tolerations"] = [_toleration(one) for one in device.tolerations]
    return found


def _toleration(toleration: DeviceToleration) -> Mapping[str, Any]:
    found = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: value for name, value in found.items() if value}


def _configuration(configuration: DeviceConfiguration) -> Mapping[str, Any]:
    content: dict[str, Any] = msgspec.json.decode(
        configuration.content, type=dict[str, msgspec.Raw]
    )
    found: dict[str, Any] = {"source": configuration.source, **content}
    if configuration.requests:
        found["requests"] = configuration.requests
    return found


def _term(term: NodeTerm) -> Mapping[str, Any]:
    found = {"matchExpressions": _lines(term.labels), "matchFields": _lines(term.fields)}
    return {name: lines for name, lines in found.items() if lines}


def _lines(lines: Sequence[Requirement]) -> list[Mapping[str, Any]]:
    return [
        {"key": one.key, "operator": one.operator, **({"values": one.values} if one.values else {})}
        for one in lines
    ]
