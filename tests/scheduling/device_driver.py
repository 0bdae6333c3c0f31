"""A machine in a cluster with devices: one slice for each node, whose devices may be its cards."""

from dataclasses import replace
from typing import Any

from kubeshare_py.domain.devices.device import Device, DeviceAttribute, DeviceKey, ResourceSlice
from kubeshare_py.domain.devices.resource_claim import (
    AllocatedDevice,
    ClaimAllocation,
    DeviceClass,
    ResourceClaim,
)
from kubeshare_py.domain.effects import Bind, Effect, WriteObject
from kubeshare_py.domain.events import ObjectSeen, ObjectWritten, WriteOutcome
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.device_claims import DeviceClaimName, DeviceClaims
from kubeshare_py.domain.needs.object_writes import ReserveDevices
from kubeshare_py.domain.pod import NodeTerm, Pod
from kubeshare_py.scheduling.machine import Machine
from tests.builders import a_pod, a_shape
from tests.devices.made import DRIVER, claim, request, sliced
from tests.scheduling.gang_driver import GangDriver

ON_N1 = (NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),)


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


class DeviceDriver(GangDriver):
    """A machine with devices; `writes` is what it requests of claims."""

    def __init__(
        self, cards: dict[str, int], *, slices: bool = True, machine: Machine | None = None
    ) -> None:
        self.writes: list[ReserveDevices] = []
        self._requested: list[WriteObject] = []
        super().__init__(cards, machine=machine)
        self.tell(ObjectSeen(DeviceClass(name="any")))
        for node in cards if slices else ():
            self.tell(ObjectSeen(card_slice(self.machine, node)))

    def tell(self, *events: Any) -> list[Effect]:
        effects = super().tell(*events)
        for effect in effects:
            if isinstance(effect, WriteObject):
                assert isinstance(effect.write, ReserveDevices)
                self._requested.append(effect)
                self.writes.append(effect.write)
        return effects

    def see(self, *objects: ResourceClaim | ResourceSlice | DeviceClass) -> list[Bind]:
        """These objects are as they are now; what is bound because of it."""
        self.tell(*map(ObjectSeen, objects))
        return self.turn()

    def wrote(self, outcome: WriteOutcome = WriteOutcome.DONE, at: int = -1) -> list[Bind]:
        """The API server answers a write; what is bound because of it."""
        effect = self._requested[at]
        self.tell(ObjectWritten(effect.uid, effect.token, effect.write, outcome))
        return self.turn()

    def devices(self, at: int = -1) -> list[str]:
        """The devices that a write allocates."""
        allocation = self.writes[at].allocation
        return [str(one.key) for one in allocation.devices] if allocation else []

    def holders(self, node: str = "n1") -> list[str]:
        """The claims that hold cards of a node."""
        return [str(one.claim) for one in self.machine.devices.on(NodeName(node))]

    def free(self, node: str = "n1") -> list[int]:
        """The free shares of a node's cards."""
        columns = self.machine.ledger.columns
        found: list[int] = columns.free_milli[columns.row_of[NodeName(node)]].tolist()
        return found


def as_written(known: ResourceClaim, write: ReserveDevices) -> ResourceClaim:
    """The claim as the API server shows it after a write."""
    return replace(
        known,
        resource_version=f"{known.resource_version}1",
        allocation=write.allocation or known.allocation,
        reserved_for=known.reserved_for | {write.pod_uid},
        is_protected=True,
    )
