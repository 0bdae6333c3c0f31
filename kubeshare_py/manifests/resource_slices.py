"""A ResourceSlice of resource.k8s.io/v1 as the domain's.

https://kubernetes.io/docs/reference/kubernetes-api/resource/v1/resource-slice-v1/
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.device import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceNodes,
    DeviceTaint,
    ResourceSlice,
)
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.quantity import is_quantity
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.resource_claims import (
    NOTHING,
    DeviceName,
    NodeSelection,
    StrictFields,
    device_nodes,
    is_set,
)

MAX_DEVICES = 128
MAX_ATTRIBUTES = 32
MAX_TAINTS = 16
_MAX_PROBLEM = 200

_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Text = Annotated[str, Meta(max_length=64)]
_Qualified = Annotated[str, Meta(min_length=1, max_length=96)]


class _AttributeFields(StrictFields, frozen=True):
    number: _Int64 | None = msgspec.field(default=None, name="int")
    flag: bool | None = msgspec.field(default=None, name="bool")
    string: _Text | None = None
    version: _Text | None = None


class _CapacityFields(StrictFields, frozen=True):
    value: str | int
    request_policy: msgspec.Raw = NOTHING


class _DeviceTaintFields(StrictFields, frozen=True):
    key: DeviceName
    effect: str
    value: str = ""
    time_added: str | None = None


class _DeviceFields(StrictFields, frozen=True):
    """A device. The fields that are kept undecoded are only recognised."""

    name: DeviceName
    attributes: (
        Annotated[dict[_Qualified, _AttributeFields], Meta(max_length=MAX_ATTRIBUTES)] | None
    ) = None
    capacity: (
        Annotated[dict[_Qualified, _CapacityFields], Meta(max_length=MAX_ATTRIBUTES)] | None
    ) = None
    node_name: str = ""
    node_selector: NodeSelection | None = None
    all_nodes: bool = False
    taints: Annotated[tuple[_DeviceTaintFields, ...], Meta(max_length=MAX_TAINTS)] | None = None
    consumes_counters: msgspec.Raw = NOTHING
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool = False
    node_allocatable_resource_mappings: msgspec.Raw = NOTHING


class _PoolFields(StrictFields, frozen=True):
    name: DeviceName
    generation: _Int64 = 0
    resource_slice_count: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 1


class _SliceSpec(StrictFields, frozen=True):
    driver: DeviceName
    pool: _PoolFields
    node_name: str = ""
    node_selector: NodeSelection | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: Annotated[tuple[_DeviceFields, ...], Meta(max_length=MAX_DEVICES)] | None = None
    shared_counters: msgspec.Raw = NOTHING


class _SliceIdentity(msgspec.Struct, frozen=True, gc=False):
    """What is read of a slice that cannot be understood as a whole."""

    driver: str = ""
    pool: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class ResourceSliceFields(msgspec.Struct, frozen=True, gc=False):
    """A ResourceSlice."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def to_resource_slice(fields: ResourceSliceFields) -> ResourceSlice:
    """The domain's slice. Never raises: a slice that cannot be read says so as its problem."""
    name = fields.metadata.name
    try:
        spec = msgspec.json.decode(fields.spec, type=_SliceSpec)
        devices = tuple(_device(spec, one) for one in spec.devices or ())
    except UNDECODABLE as error:
        return _unreadable(name, fields.spec, error)
    nodes = device_nodes(spec.node_name, spec.all_nodes, spec.node_selector)
    return ResourceSlice(
        name=name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        nodes=None if spec.per_device_node_selection else nodes,
        devices=devices,
    )


def _unreadable(name: str, spec: msgspec.Raw, error: Exception) -> ResourceSlice:
    try:
        known = msgspec.json.decode(spec, type=_SliceIdentity)
        pool = msgspec.json.decode(known.pool.get("name", b'""'), type=str)
        generation = msgspec.json.decode(known.pool.get("generation", b"0"), type=int)
    except UNDECODABLE:
        known, pool, generation = _SliceIdentity(), "", 0
    return ResourceSlice(
        name=name,
        driver=known.driver,
        pool=pool,
        generation=generation,
        slice_count=1,
        nodes=DeviceNodes(),
        problem=f"resourceslice {name}: {beginning(str(error), _MAX_PROBLEM)}",
    )


def _device(spec: _SliceSpec, fields: _DeviceFields) -> Device:
    own = None
    if spec.per_device_node_selection:
        own = device_nodes(fields.node_name, fields.all_nodes, fields.node_selector)
    return Device(
        name=fields.name,
        attributes=tuple(
            _attribute(spec, name, one) for name, one in sorted((fields.attributes or {}).items())
        ),
        capacity=tuple(
            _capacity(spec, name, one) for name, one in sorted((fields.capacity or {}).items())
        ),
        taints=tuple(DeviceTaint(one.key, one.value, one.effect) for one in fields.taints or ()),
        nodes=own,
        unsupported=tuple(_unsupported(fields)),
    )


def _unsupported(fields: _DeviceFields) -> Iterator[str]:
    """Fields of a device that need more than its allocation."""
    if is_set(fields.consumes_counters):
        yield "consumesCounters"
    if fields.binding_conditions or fields.binding_failure_conditions:
        yield "bindingConditions"
    if fields.binds_to_node:
        yield "bindsToNode"
    if fields.allow_multiple_allocations:
        yield "allowMultipleAllocations"
    if is_set(fields.node_allocatable_resource_mappings):
        yield "nodeAllocatableResourceMappings"


def _qualified(name: str, driver: str) -> tuple[str, str]:
    """Domain and name; without a domain, the driver's."""
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)


def _attribute(spec: _SliceSpec, name: str, fields: _AttributeFields) -> DeviceAttribute:
    """The attribute. Raises ValidationError if it has no value, or several."""
    values = (fields.number, fields.flag, fields.string, fields.version)
    count = sum([one is not None for one in values])
    if count != 1:
        raise msgspec.ValidationError(f"attribute {name} has {count} values instead of one")
    domain, own = _qualified(name, spec.driver)
    return DeviceAttribute(domain, own, *values)


def _capacity(spec: _SliceSpec, name: str, fields: _CapacityFields) -> DeviceCapacity:
    quantity = str(fields.value)
    if not is_quantity(quantity):
        raise msgspec.ValidationError(f"capacity {name} is not a quantity")
    return DeviceCapacity(*_qualified(name, spec.driver), quantity)
