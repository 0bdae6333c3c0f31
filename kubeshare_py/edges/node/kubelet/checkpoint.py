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


class _Entry(msgspec.Struct, frozen=True, gc=False):
    uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    devices: Mapping[str, tuple[str, ...]] | None = msgspec.field(name="DeviceIDs", default=None)
    answer: bytes | None = msgspec.field(name="AllocResp", default=None)


class _Data(msgspec.Struct, frozen=True, gc=False):
    entries: tuple[_Entry, ...] | None = msgspec.field(name="PodDeviceEntries", default=None)


class _Checkpoint(msgspec.Struct, frozen=True, gc=False):
    data: _Data = msgspec.field(name="Data")


def allocated_devices(folder: Path) -> list[AllocatedDevices]:
    """What is allocated by the checkpoint in this folder of plugins; nothing if there is none.

    Raises KubeletUnreachable if it cannot be read.
    """
    path = folder / FILE
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Checkpoint)
        return [_allocated(one) for one in stored.data.entries or ()]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, DecodeError) as error:
        raise KubeletUnreachable(f"kubelet's {FILE} cannot be read: {error}") from error


def _allocated(entry: _Entry) -> AllocatedDevices:
    answer = wire.ContainerAllocateResponse.FromString(entry.answer or b"")
    claims = (claim_of(one.name) for one in answer.cdi_devices)
    # A device near several NUMA nodes is listed at each.
    devices = frozenset(one for near in (entry.devices or {}).values() for one in near)
    return AllocatedDevices(
        PodUid(entry.uid),
        entry.container,
        entry.resource,
        devices,
        tuple(claim for claim in claims if claim),
    )
