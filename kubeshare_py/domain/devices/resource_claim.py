"""ResourceClaims and DeviceClasses: what is asked of devices, and what was allocated.

https://kubernetes.io/docs/reference/kubernetes-api/resource/v1/resource-claim-v1/
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from kubeshare_py.domain.devices.device import DeviceKey, DeviceToleration
from kubeshare_py.domain.needs.cluster_objects import ClusterObject, WatchedKind
from kubeshare_py.domain.pod import NodeTerm

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
