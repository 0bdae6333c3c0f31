"""What the tools of KubeShare, gpushare, nano-gpu and HAMi understand of a pod's annotations.

An independent reader: written from their formats, and not from our code, which it does not import.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Json = dict[str, object]
#: The prefix of nano-gpu's resources, by which its generations differ: the flag of a placed pod,
#: and the beginning of a container's annotation.
NANO_KEYS = {
    "nano-gpu.io": ("nano-gpu.io/gpu", "nano-gpu.io/gpu-"),
    "nano-gpu": ("nano-gpu/assume", "nano-gpu/container-"),
    "elastic-gpu": ("elastic-gpu/assume", "elastic-gpu/container-"),
    "elasticgpu.io": ("elasticgpu.io/assumed", "elasticgpu.io/container-"),
}


@dataclass(frozen=True)
class Told:
    """What an annotation format says: by container's number, units on cards by their index."""

    cards: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    totals: Mapping[int, int] = field(default_factory=dict)


def gpushare_first(annotations: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Card's index, units of the pod, units of the card (`ALIYUN_COM_GPU_MEM_*`).

    A pod is placed when five keys are there; the device plugin takes it for one of its own as long
    as ASSIGNED is "false" (gpushare-device-plugin, pkg/gpu/nvidia/podutils.go).
    """
    start = "ALIYUN_COM_GPU_MEM_"
    if f"{start}IDX" not in annotations:
        return None
    assert annotations[f"{start}ASSIGNED"] == "false"
    assert len(annotations[f"{start}ASSUME_TIME"]) == 19, "nanoseconds"
    index, pod, card = (int(annotations[f"{start}{key}"]) for key in ("IDX", "POD", "DEV"))
    assert card, "the tools divide by it"
    return index, pod, card


def gpushare_second(annotations: Mapping[str, str]) -> Told | None:
    """The JSON objects of `scheduler.framework.gpushare.allocation`, and the cards' totals."""
    text = annotations.get("scheduler.framework.gpushare.allocation")
    if text is None:
        return None
    totals = json.loads(annotations["gpushare.alibabacloud.com/device-resource"])
    return Told(
        {
            int(container): {int(index): units for index, units in cards.items()}
            for container, cards in json.loads(text).items()
        },
        {int(index): units for index, units in totals.items()},
    )


def gpushare_percent(annotations: Mapping[str, str]) -> dict[int, dict[int, int]]:
    """Hundredths of each card's time, by container and card."""
    text = annotations.get("gpushare.alibabacloud.com/core-percentage", "{}")
    return {
        int(container): {int(index): part for index, part in cards.items()}
        for container, cards in json.loads(text).items()
    }


def nano(
    annotations: Mapping[str, str], labels: Mapping[str, str], prefix: str, names: Sequence[str]
) -> dict[str, list[int]] | None:
    """The indices of each container's cards, `[]` for "-1"; None if the pod is not placed.

    The flag must be an annotation and a label: nano-gpu lists its pods by the label.
    """
    flag, start = NANO_KEYS[prefix]
    if annotations.get(flag) != "true":
        return None
    assert labels.get(flag) == "true"
    found = {}
    for name in names:
        text = annotations.get(start + name)
        if text is not None:
            found[name] = [] if text == "-1" else [int(part) for part in text.split(",")]
    return found


def kubeshare(annotations: Mapping[str, str]) -> tuple[list[str], int]:
    """The uuids of the pod's cards, and the bytes on all of them (`sharedgpu/*`)."""
    uuids = [one for one in annotations.get("sharedgpu/gpu_uuid", "").split(",") if one]
    return uuids, int(annotations.get("sharedgpu/gpu_mem", "0"))


def hami(annotations: Mapping[str, str], node: str) -> list[list[tuple[str, int, int]]]:
    """Of each container, init containers first: uuid, MiB and cores of its cards.

    As HAMi's device plugin reads them (GetNextDeviceRequest in pkg/device/devices.go): it takes
    pods of its node whose phase is `allocating`, and empties the first text container by container.
    """
    assert annotations["hami.io/bind-phase"] == "allocating"
    pending = annotations["hami.io/vgpu-devices-to-allocate"]
    assert pending == annotations["hami.io/vgpu-devices-allocated"]
    return hami_allocated(annotations, node)


def hami_done(annotations: Mapping[str, str], node: str) -> list[list[tuple[str, int, int]]]:
    """The same of a pod of which the plugin has nothing to do: nothing is left to allocate."""
    assert annotations["hami.io/bind-phase"] == "success"
    found = hami_allocated(annotations, node)
    assert annotations["hami.io/vgpu-devices-to-allocate"] == ";" * len(found)
    return found


def hami_allocated(annotations: Mapping[str, str], node: str) -> list[list[tuple[str, int, int]]]:
    """The same whatever the plugin has done, as HAMi's scheduler reads it."""
    assert annotations["hami.io/vgpu-node"] == node
    assert len(annotations["hami.io/bind-time"]) == 10, "seconds"
    *slots, rest = annotations["hami.io/vgpu-devices-allocated"].split(";")
    assert rest == ""
    found = []
    for slot in slots:
        *records, end = slot.split(":")
        assert end == ""
        fields = [record.split(",") for record in records]
        assert all(vendor == "NVIDIA" for _, vendor, _, _ in fields)
        found.append([(uuid, int(mib), int(cores)) for uuid, _, mib, cores in fields])
    return found


def containers(annotations: Mapping[str, str]) -> dict[int, list[str]]:
    """The uuids of each container's cards, by its number (`sharedgpu/allocation`)."""
    found = {}
    for claim in json.loads(annotations["sharedgpu/allocation"])["claims"]:
        number = int(claim["container"].removeprefix("container-"))
        found[number] = [card["uuid"] for card in claim["cards"]]
    return found
