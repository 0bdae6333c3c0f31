"""A ResourceClaim or DeviceClass of resource.k8s.io/v1 as the domain's.

https://kubernetes.io/docs/reference/kubernetes-api/resource/v1/resource-claim-v1/
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.devices.device import DeviceKey
from kubeshare_py.domain.devices.resource_claim import (
    MAX_CONSUMERS,
    MAX_RESULTS,
    AllocatedDevice,
    AllocationMode,
    ClaimAllocation,
    DeviceClass,
    DeviceConfiguration,
    DeviceRequest,
    MatchAttribute,
    ResourceClaim,
)
from kubeshare_py.domain.printable import beginning
from kubeshare_py.manifests.devices.device_fields import (
    NOTHING,
    Configurations,
    DeviceName,
    NodeSelection,
    RequestName,
    Requests,
    Selectors,
    StrictFields,
    Tolerations,
    configuration,
    expressions,
    is_set,
    node_terms,
    tolerations,
)
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.undecodable import UNDECODABLE

MAX_ALTERNATIVES = 8
MAX_CONSTRAINTS = 32
#: What keeps an allocated claim from being deleted.
FINALIZER = "resource.kubernetes.io/delete-protection"
_MAX_PROBLEM = 200
#: More devices than this cannot be allocated, however many are asked for.
_COUNTED = MAX_RESULTS + 1
_FROM_CLASS, _FROM_CLAIM = "FromClass", "FromClaim"


class _RequestFields(StrictFields, frozen=True):
    """An exact request, or an alternative, which alone has a name."""

    device_class_name: DeviceName
    name: str = ""
    selectors: Selectors | None = None
    allocation_mode: str = AllocationMode.EXACT_COUNT
    count: Annotated[int, Meta(ge=0)] = 0
    admin_access: bool = False
    tolerations: Tolerations | None = None
    capacity: msgspec.Raw = NOTHING


_DeviceAlternatives = Annotated[tuple[_RequestFields, ...], Meta(max_length=MAX_ALTERNATIVES)]


class _NamedRequest(StrictFields, frozen=True):
    name: RequestName
    exactly: _RequestFields | None = None
    first_available: _DeviceAlternatives | None = None


class _ConstraintFields(StrictFields, frozen=True):
    requests: Requests | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class _DevicesSpec(StrictFields, frozen=True):
    requests: Annotated[tuple[_NamedRequest, ...], Meta(max_length=MAX_RESULTS)] | None = None
    constraints: (
        Annotated[tuple[_ConstraintFields, ...], Meta(max_length=MAX_CONSTRAINTS)] | None
    ) = None
    config: Configurations | None = None


class _DeviceClaimSpec(StrictFields, frozen=True):
    devices: _DevicesSpec = _DevicesSpec()


class _ResultFields(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A device that any scheduler allocated: fields that are not named do not matter here."""

    driver: str
    pool: str
    device: str
    request: str = ""
    admin_access: bool = False
    tolerations: Tolerations | None = None
    binding_conditions: tuple[str, ...] | None = None


class _DeviceResults(msgspec.Struct, frozen=True, gc=False):
    results: tuple[_ResultFields, ...] | None = None


class _AllocationFields(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    devices: _DeviceResults = _DeviceResults()
    node_selector: NodeSelection | None = None


class _ConsumerFields(msgspec.Struct, frozen=True, gc=False):
    uid: str = ""


class _DeviceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    allocation: msgspec.Raw = NOTHING
    reserved_for: Annotated[tuple[_ConsumerFields, ...], Meta(max_length=MAX_CONSUMERS)] | None = (
        None
    )


class _ClaimMeta(ObjectMeta, frozen=True, gc=False):
    """An object's metadata, with its finalizers."""

    finalizers: tuple[str, ...] | None = None


class ResourceClaimFields(msgspec.Struct, frozen=True, gc=False):
    """A ResourceClaim."""

    metadata: _ClaimMeta = _ClaimMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _ClassSpec(StrictFields, frozen=True):
    """`extended_resource_name` is for pods that do not name claims."""

    selectors: Selectors | None = None
    config: Configurations | None = None
    extended_resource_name: str | None = None


class DeviceClassFields(msgspec.Struct, frozen=True, gc=False):
    """A DeviceClass."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _AskedDevices(msgspec.Struct, frozen=True, gc=False):
    """What a claim's spec asks for."""

    requests: tuple[tuple[DeviceRequest, ...], ...] = ()
    constraints: tuple[MatchAttribute, ...] = ()
    configurations: tuple[DeviceConfiguration, ...] = ()
    unsupported: tuple[str, ...] = ()
    problem: str = ""


def to_resource_claim(fields: ResourceClaimFields) -> ResourceClaim:
    """The domain's claim. Never raises: what cannot be read is named in it."""
    meta = fields.metadata
    asked = _asked(fields.spec)
    problem = asked.problem
    try:
        status = msgspec.json.decode(fields.status, type=_DeviceClaimStatus)
    except UNDECODABLE as error:
        status, problem = _DeviceClaimStatus(), problem or _told("status", error)
    consumers = frozenset(one.uid for one in status.reserved_for or ())
    return ResourceClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        requests=asked.requests,
        constraints=asked.constraints,
        configurations=asked.configurations,
        allocation=_allocation(status.allocation),
        reserved_for=consumers,
        owner=meta.controller_uid,
        deleting=meta.deletion_timestamp is not None,
        is_protected=FINALIZER in (meta.finalizers or ()),
        unsupported=asked.unsupported,
        problem=problem,
    )


def to_device_class(fields: DeviceClassFields) -> DeviceClass:
    """The domain's class. Never raises: what cannot be read is its problem."""
    name = fields.metadata.name
    try:
        spec = msgspec.json.decode(fields.spec, type=_ClassSpec)
        configurations = tuple(configuration(one, _FROM_CLASS) for one in spec.config or ())
    except UNDECODABLE as error:
        return DeviceClass(name=name, problem=_told("spec", error))
    return DeviceClass(
        name=name, selectors=expressions(spec.selectors), configurations=configurations
    )


def _asked(raw: msgspec.Raw) -> _AskedDevices:
    try:
        devices = msgspec.json.decode(raw, type=_DeviceClaimSpec).devices
        named = devices.requests or ()
        constraints = devices.constraints or ()
        return _AskedDevices(
            requests=tuple(tuple(_alternatives(one)) for one in named),
            constraints=tuple(map(_constraint, constraints)),
            configurations=tuple(configuration(one, _FROM_CLAIM) for one in devices.config or ()),
            unsupported=tuple(
                dict.fromkeys(
                    [*(field for one in named for field in _unsupported(one)), *_kinds(constraints)]
                )
            ),
        )
    except UNDECODABLE as error:
        return _AskedDevices(problem=_told("spec", error))


def _alternatives(fields: _NamedRequest) -> Iterator[DeviceRequest]:
    """The request, or its alternatives. Raises ValidationError if it has neither, or both."""
    if (fields.exactly is None) == (not fields.first_available):
        raise msgspec.ValidationError(
            f"request {fields.name} must have one of exactly and firstAvailable"
        )
    if fields.exactly is not None:
        yield _request(fields.name, fields.exactly)
    for one in fields.first_available or ():
        yield _request(f"{fields.name}/{one.name}", one)


def _request(name: str, fields: _RequestFields) -> DeviceRequest:
    try:
        mode = AllocationMode(fields.allocation_mode)
    except ValueError as error:
        raise msgspec.ValidationError(
            f"request {name} has the unknown allocationMode {beginning(fields.allocation_mode, 40)}"
        ) from error
    return DeviceRequest(
        name=name,
        device_class=fields.device_class_name,
        mode=mode,
        count=min(fields.count or 1, _COUNTED),
        selectors=expressions(fields.selectors),
        tolerations=tolerations(fields.tolerations),
    )


def _constraint(fields: _ConstraintFields) -> MatchAttribute:
    """The constraint; one of another kind is never looked at, because it is unsupported."""
    domain, _, name = (fields.match_attribute or "/").partition("/")
    return MatchAttribute(domain, name, fields.requests or ())


def _kinds(constraints: tuple[_ConstraintFields, ...]) -> Iterator[str]:
    for one in constraints:
        if one.match_attribute is None:
            yield "distinctAttribute" if one.distinct_attribute is not None else "constraints"


def _unsupported(fields: _NamedRequest) -> Iterator[str]:
    alternatives = fields.first_available or ()
    for one in alternatives if fields.exactly is None else (fields.exactly,):
        if one.admin_access:
            yield "adminAccess"
        if is_set(one.capacity):
            yield "capacity"


def _allocation(raw: msgspec.Raw) -> ClaimAllocation | None:
    """What the claim holds; an allocation that cannot be read is one that no pod is placed with."""
    if bytes(raw) in (b"", b"null"):
        return None
    try:
        fields = msgspec.json.decode(raw, type=_AllocationFields)
    except UNDECODABLE as error:
        return ClaimAllocation((), unsupported=(_told("status.allocation", error),))
    results = fields.devices.results or ()
    return ClaimAllocation(
        devices=tuple(
            AllocatedDevice(
                one.request,
                DeviceKey(one.driver, one.pool, one.device),
                one.admin_access,
                tolerations(one.tolerations),
            )
            for one in results
        ),
        terms=node_terms(fields.node_selector),
        unsupported=("bindingConditions",)
        if any(one.binding_conditions for one in results)
        else (),
    )


def _told(field: str, error: Exception) -> str:
    return f"{field}: {beginning(str(error), _MAX_PROBLEM)}"
