"""Objects of dynamic resource allocation (resource.k8s.io/v1) as frozen values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from kubeshare_py.domain.cluster_objects import ClusterObject, WatchedKind
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.pod import NodeTerm

# Devices, the ResourceSlices that list them, and the nodes that they may be used from.
#
# https://kubernetes.io/docs/reference/kubernetes-api/resource/v1/resource-slice-v1/


#: Attributes by which NVIDIA's driver (gpu.nvidia.com) names the card that a device is, or is a
#: part of: https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu
_CARD_ATTRIBUTES = ("uuid", "parentUUID")
#: Taint effects that keep a device from being allocated.
_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class DeviceAttribute:
    """One attribute, with one of four values; `version` is text of https://semver.org.

    `domain` is the driver's name if the object gives none.
    """

    domain: str
    name: str
    number: int | None = None
    flag: bool | None = None
    text: str | None = None
    version: str | None = None

    def equals(self, other: "DeviceAttribute") -> bool:
        """Whether both have the same value, of the same type."""
        return (self.number, self.flag, self.text, self.version) == (
            *(other.number, other.flag, other.text, other.version),
        )


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """One capacity: a quantity that can be read; `domain` as with attributes."""

    domain: str
    name: str
    quantity: str


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint; one without an effect that is known does nothing."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """What a request tolerates; empty key with Exists tolerates all, empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether it tolerates this taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (
            self.operator in ("", "Equal") and self.value == taint.value
        )


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """From which nodes devices may be used: from one, from all, or from those that match.

    `terms` None: no node selector; at most one of the three is set, and with none the devices may
    be used nowhere.
    """

    name: NodeName | None = None
    everywhere: bool = False
    terms: Sequence[NodeTerm] | None = None


@dataclass(frozen=True, slots=True, order=True)
class DeviceKey:
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device; `nodes` is None unless its slice leaves the choice of nodes to each device.

    Attributes and capacity are sorted. `unsupported` are its fields that are not implemented: it
    is never allocated.
    """

    name: str
    attributes: tuple[DeviceAttribute, ...] = ()
    capacity: tuple[DeviceCapacity, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    nodes: DeviceNodes | None = None
    unsupported: tuple[str, ...] = ()

    def attribute(self, domain: str, name: str) -> DeviceAttribute | None:
        """An attribute, or None."""
        for one in self.attributes:
            if one.name == name and one.domain == domain:
                return one
        return None

    def cards(self) -> Iterator[GpuUuid]:
        """The uuids by which an inventory may know the device, or the card that it is a part of."""
        for one in self.attributes:
            if one.name in _CARD_ATTRIBUTES and one.text:
                yield GpuUuid(one.text)

    def repelling(self, tolerations: tuple[DeviceToleration, ...]) -> Iterator[DeviceTaint]:
        """Taints that keep it from a request with these tolerations."""
        for taint in self.taints:
            if taint.effect in _EFFECTS and not any(one.tolerates(taint) for one in tolerations):
                yield taint


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSlice(ClusterObject):
    """Some devices of a pool; a pool is complete with `slice_count` slices of one generation.

    `nodes` is None if each device names its own. `problem` says what cannot be read of the slice,
    whose devices are then left out: its pool is not used.
    """

    kind: ClassVar[WatchedKind] = WatchedKind.RESOURCE_SLICE
    driver: str
    pool: str
    generation: int
    slice_count: int
    nodes: DeviceNodes | None
    devices: tuple[Device, ...] = ()
    problem: str = ""

    def key_of(self, device: Device) -> DeviceKey:
        """The identity of one of its devices."""
        return DeviceKey(self.driver, self.pool, device.name)

    def nodes_of(self, device: Device) -> DeviceNodes | None:
        """From which nodes one of its devices may be used."""
        return device.nodes if self.nodes is None else self.nodes


# ResourceClaims and DeviceClasses: what is asked of devices, and what was allocated.
#
# https://kubernetes.io/docs/reference/kubernetes-api/resource/v1/resource-claim-v1/


#: The most devices of one claim, and pods that may use one claim (resource/v1/types.go).
MAX_RESULTS = 32
MAX_CONSUMERS = 256


class AllocationMode(StrEnum):
    """How many of the matching devices a request asks for."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """Devices of one class that satisfy all CEL expressions in `selectors`.

    `name` of an alternative is "request/alternative", as results name it.
    """

    name: str
    device_class: str
    mode: AllocationMode = AllocationMode.EXACT_COUNT
    count: int = 1
    selectors: tuple[str, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()

    @property
    def top_name(self) -> str:
        """The name of the request, without that of an alternative."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class MatchAttribute:
    """All devices of these requests (of all if empty) have this attribute, with equal values."""

    domain: str
    name: str
    requests: tuple[str, ...] = ()

    def concerns(self, request: DeviceRequest) -> bool:
        """Whether devices of a request are compared."""
        return (
            not self.requests or request.name in self.requests or request.top_name in self.requests
        )


@dataclass(frozen=True, slots=True)
class DeviceConfiguration:
    """Parameters for a driver: `content` is JSON as it is in the object, without `requests`.

    `source` is FromClass or FromClaim. Without `requests` it is for all of them.
    """

    source: str
    requests: tuple[str, ...]
    content: str


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that a claim holds. `admin` if it has admin access, which needs nothing."""

    request: str
    key: DeviceKey
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """What a claim holds; `terms` None: it may be used from every node.

    `unsupported` are fields of it that are not implemented: no pod is placed with it.
    """

    devices: tuple[AllocatedDevice, ...]
    terms: Sequence[NodeTerm] | None = None
    configurations: tuple[DeviceConfiguration, ...] = ()
    unsupported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim(ClusterObject):
    """A claim. `requests` have one or several alternatives each, the first ones preferred.

    `owner` is the uid of its controller, "" if it has none. `reserved_for` are the uids of the pods
    (or other objects) that may use it. `is_protected`: it has the finalizer of allocated claims.
    `is_assumed`: its allocation is being written, and the API server has not shown it yet.
    `unsupported` are fields of its spec that are not implemented, and `problem` says what cannot be
    read: it is not allocated.
    """

    kind: ClassVar[WatchedKind] = WatchedKind.RESOURCE_CLAIM
    uid: str
    resource_version: str = ""
    requests: tuple[tuple[DeviceRequest, ...], ...] = ()
    constraints: tuple[MatchAttribute, ...] = ()
    configurations: tuple[DeviceConfiguration, ...] = ()
    allocation: ClaimAllocation | None = None
    reserved_for: frozenset[str] = frozenset()
    owner: str = ""
    deleting: bool = False
    is_protected: bool = False
    is_assumed: bool = False
    unsupported: tuple[str, ...] = ()
    problem: str = ""

    def held_devices(self) -> Iterator[DeviceKey]:
        """The devices that no other claim may get while this one is allocated."""
        if self.allocation is not None:
            for one in self.allocation.devices:
                if not one.admin:
                    yield one.key


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass(ClusterObject):
    """A class of devices: those that satisfy all CEL expressions in `selectors`."""

    kind: ClassVar[WatchedKind] = WatchedKind.DEVICE_CLASS
    selectors: tuple[str, ...] = ()
    configurations: tuple[DeviceConfiguration, ...] = ()
    problem: str = ""
