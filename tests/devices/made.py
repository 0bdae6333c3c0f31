"""Devices, slices and claims that say only what a test is about."""

from kubeshare_py.devices.device_pools import DevicePools, NodeDevices
from kubeshare_py.domain.devices.device import (
    Device,
    DeviceAttribute,
    DeviceNodes,
    ResourceSlice,
)
from kubeshare_py.domain.devices.resource_claim import (
    AllocationMode,
    DeviceClass,
    DeviceRequest,
    MatchAttribute,
    ResourceClaim,
)
from kubeshare_py.domain.identity import NodeName

DRIVER = "gpu.example.com"
NODE = NodeName("n1")
CLASSES = {"any": DeviceClass(name="any")}


def device(name: str, **attributes: str | int) -> Device:
    """A device with these attributes of its driver."""
    return Device(
        name=name,
        attributes=tuple(
            DeviceAttribute(DRIVER, key, text=value)
            if isinstance(value, str)
            else DeviceAttribute(DRIVER, key, value)
            for key, value in sorted(attributes.items())
        ),
    )


def sliced(*devices: Device, node: str = NODE, name: str = "", pool: str = "") -> ResourceSlice:
    """The only slice of a node's pool."""
    return ResourceSlice(
        name=name or node,
        driver=DRIVER,
        pool=pool or node,
        generation=1,
        slice_count=1,
        nodes=DeviceNodes(NodeName(node)),
        devices=devices,
    )


def on_node(*slices: ResourceSlice, node: NodeName = NODE) -> NodeDevices:
    """What a node may use of these slices; no term holds."""
    return DevicePools(slices).on(node, lambda terms: False)


def request(name: str = "r", count: int = 1, *selectors: str, **fields: str) -> DeviceRequest:
    """A request of the class `any`."""
    return DeviceRequest(
        name=name,
        device_class=fields.get("device_class", "any"),
        mode=AllocationMode(fields.get("mode", AllocationMode.EXACT_COUNT)),
        count=count,
        selectors=selectors,
    )


def claim(
    *requests: DeviceRequest | tuple[DeviceRequest, ...],
    name: str = "c",
    constraints: tuple[MatchAttribute, ...] = (),
) -> ResourceClaim:
    """A claim that is not allocated; a tuple is one request with alternatives."""
    return ResourceClaim(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        requests=tuple(one if isinstance(one, tuple) else (one,) for one in requests),
        constraints=constraints,
    )
