"""Devices, slices and claims, and a machine in a cluster with them.

Each node has one slice, whose devices may be its cards.
"""

from typing import Any

from kubeshare_py.devices.device_pools import DevicePools, NodeDevices
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.device import (
    AllocatedDevice,
    AllocationMode,
    ClaimAllocation,
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceKey,
    DeviceNodes,
    DeviceRequest,
    MatchAttribute,
    ResourceClaim,
    ResourceSlice,
)
from kubeshare_py.domain.events import ObjectSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import DeviceClaimName, DeviceClaims, NodeTerm, Pod
from kubeshare_py.domain.storage import ReserveDevices
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.machine import Machine
from tests.making.driver import Driver
from tests.making.values import a_pod, a_shape

DRIVER = "gpu.example.com"
NODE = NodeName("n1")
CLASSES = {"any": DeviceClass(name="any")}
ON_N1 = (NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),)


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


def a_claim_of(*devices: str, node: str = "n1", **fields: Any) -> ResourceClaim:
    """A claim with these devices of a node's pool."""
    held = tuple(AllocatedDevice("r", DeviceKey(DRIVER, node, one)) for one in devices)
    named = replace(ON_N1[0].fields[0], values=(node,))
    allocation = ClaimAllocation(held, (NodeTerm(fields=(named,)),))
    return replace(an_open_claim(), allocation=allocation, **fields)


def an_open_claim(name: str = "c", **fields: Any) -> ResourceClaim:
    """A claim for one device of the class `any` that has none yet."""
    return replace(claim(request(), name=name), namespace="default", resource_version="1", **fields)


def card_slice(machine: Machine, node: str) -> ResourceSlice:
    """A slice whose devices are the cards of a node."""
    gpus = machine.ledger.inventory[NodeName(node)]
    return sliced(
        *(
            Device(
                name=f"gpu-{gpu.index}",
                attributes=(DeviceAttribute(DRIVER, "uuid", text=gpu.uuid),),
            )
            for gpu in gpus
        ),
        node=node,
    )


def a_claiming_pod(name: str = "p", *claims: str, **fields: Any) -> Pod:
    """A pod that uses these claims and asks for no card itself."""
    names = tuple(DeviceClaimName(one, one) for one in claims or ("c",))
    asked = DeviceClaims(namespace="default", pod=name, uid=f"uid-{name}", names=names)
    return a_pod(name, replace(a_shape(), claims=(), device_claims=asked), **fields)


def device_driver(
    cards: dict[str, int], *, slices: bool = True, machine: Machine | None = None
) -> Driver:
    """A driver whose machine knows the class `any`, and each node's cards as devices."""
    driver = Driver(cards, machine=machine)
    driver.tell(ObjectSeen(DeviceClass(name="any")))
    for node in cards if slices else ():
        driver.tell(ObjectSeen(card_slice(driver.machine, node)))
    return driver


def devices_of(driver: Driver, at: int = -1) -> list[str]:
    """The devices that a write allocates."""
    allocation = driver.requested[at].allocation
    return [str(one.key) for one in allocation.devices] if allocation else []


def holders(driver: Driver, node: str = "n1") -> list[str]:
    """The claims that hold cards of a node."""
    return [str(one.claim) for one in driver.machine.devices.on(NodeName(node))]


def as_written(known: ResourceClaim, write: ReserveDevices) -> ResourceClaim:
    """The claim as the API server shows it after a write."""
    return replace(
        known,
        resource_version=f"{known.resource_version}1",
        allocation=write.allocation or known.allocation,
        reserved_for=known.reserved_for | {write.pod_uid},
        is_protected=True,
    )
