"""kubelet's checkpoint of its device manager: every container with devices, init ones included.

    {"Data":{"PodDeviceEntries":[{"PodUID":"8d1…","ContainerName":"a","ResourceName":"x.y/gpu",
     "DeviceIDs":{"-1":["0-0"]},"AllocResp":"…"}],"RegisteredDevices":{…}},"Checksum":1}

`AllocResp` is a ContainerAllocateResponse in base64. kubelet writes the file anew at each
allocation, before it admits the pod, and moves it to its place, so that it is whole
(pkg/kubelet/cm/devicemanager/checkpoint; in this form since Kubernetes 1.20).
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.node.kubelet.channels import KubeletUnreachable
from kubeshare_py.edges.node.kubelet.given_files import claim_of
from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.node_agent.device_plugin.owners import AllocatedDevices

FILE = "kubelet_internal_checkpoint"


class _Entry(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    PodUID: str
    container_name: str
    resource_name: str
    DeviceIDs: Mapping[str, tuple[str, ...]] | None = None
    alloc_resp: bytes | None = None


class _Data(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    pod_device_entries: tuple[_Entry, ...] | None = None


class _Checkpoint(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    data: _Data


def allocated_devices(folder: Path) -> list[AllocatedDevices]:
    """What is allocated by the checkpoint in this folder of plugins; nothing if there is none.

    Raises KubeletUnreachable if it cannot be read.
    """
    path = folder / FILE
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Checkpoint)
        return [_allocated(one) for one in stored.data.pod_device_entries or ()]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, DecodeError) as error:
        raise KubeletUnreachable(f"kubelet's {FILE} cannot be read: {error}") from error


def _allocated(entry: _Entry) -> AllocatedDevices:
    answer = wire.ContainerAllocateResponse.FromString(entry.alloc_resp or b"")
    claims = (claim_of(one.name) for one in answer.cdi_devices)
    # A device near several NUMA nodes is listed at each.
    devices = frozenset(one for near in (entry.DeviceIDs or {}).values() for one in near)
    return AllocatedDevices(
        PodUid(entry.PodUID),
        entry.container_name,
        entry.resource_name,
        devices,
        tuple(claim for claim in claims if claim),
    )
