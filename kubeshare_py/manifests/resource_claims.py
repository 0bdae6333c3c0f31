"""ResourceClaims and DeviceClasses of resource.k8s.io/v1: read, and claims written."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.device import (
    MAX_CONSUMERS,
    MAX_RESULTS,
    AllocatedDevice,
    AllocationMode,
    ClaimAllocation,
    DeviceClass,
    DeviceConfiguration,
    DeviceKey,
    DeviceNodes,
    DeviceRequest,
    DeviceToleration,
    MatchAttribute,
    ResourceClaim,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.storage import ReserveDevices
from kubeshare_py.manifests.api_paths import object_path
from kubeshare_py.manifests.common_definitions import ObjectMeta, RequirementFields, requirement
from kubeshare_py.manifests.decoding import UNDECODABLE

# What slices, claims and classes of resource.k8s.io/v1 have in common, as it comes over the wire.
#
# A field that these structs do not name is an error, with its place: ignoring it might place a pod
# where it must not be. Sizes are bounded as the API server bounds them.
# https://github.com/kubernetes/api/blob/master/resource/v1/types.go


#: Selectors of a request or class, tolerations of a request, configurations of a claim or class.
MAX_SELECTORS = 32
MAX_TOLERATIONS = 16
MAX_CONFIGURATIONS = 32
MAX_REQUESTS = 32
#: Characters of a CEL expression, and of the parameters of a driver.
MAX_EXPRESSION = 10 * 1024
MAX_PARAMETERS = 10 * 1024

#: What an optional field that is only recognised has if the object does not.
NOTHING = msgspec.Raw(b"")

DeviceName = Annotated[str, Meta(min_length=1, max_length=253)]
RequestName = Annotated[str, Meta(min_length=1, max_length=127)]
Requests = Annotated[tuple[RequestName, ...], Meta(max_length=MAX_REQUESTS)]


class StrictFields(
    msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True
):
    """Camel case in JSON; an unknown field is an error."""


class NodeTermFields(StrictFields, frozen=True):
    """One term of a node selector."""

    match_expressions: Annotated[tuple[RequirementFields, ...], Meta(max_length=64)] | None = None
    match_fields: Annotated[tuple[RequirementFields, ...], Meta(max_length=64)] | None = None


class NodeSelection(StrictFields, frozen=True):
    """A node selector."""

    node_selector_terms: Annotated[tuple[NodeTermFields, ...], Meta(max_length=32)] | None = None


class _CelFields(StrictFields, frozen=True):
    expression: Annotated[str, Meta(min_length=1, max_length=MAX_EXPRESSION)]


class DeviceSelectorFields(StrictFields, frozen=True):
    """A selector of devices: a CEL expression."""

    cel: _CelFields


Selectors = Annotated[tuple[DeviceSelectorFields, ...], Meta(max_length=MAX_SELECTORS)]


class DeviceTolerationFields(StrictFields, frozen=True):
    """A toleration of device taints; `toleration_seconds` matter only after placement."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


Tolerations = Annotated[tuple[DeviceTolerationFields, ...], Meta(max_length=MAX_TOLERATIONS)]


class _OpaqueFields(StrictFields, frozen=True):
    driver: DeviceName
    parameters: msgspec.Raw


class ConfigurationFields(StrictFields, frozen=True):
    """Parameters for a driver; `source` only in allocations, `requests` not in classes."""

    source: str = ""
    requests: Requests | None = None
    opaque: _OpaqueFields | None = None


Configurations = Annotated[tuple[ConfigurationFields, ...], Meta(max_length=MAX_CONFIGURATIONS)]


def is_set(field: msgspec.Raw) -> bool:
    """Whether the object has this undecoded field."""
    return bytes(field) not in (b"", b"null", b"[]", b"{}")


def expressions(selectors: Selectors | None) -> tuple[str, ...]:
    """The CEL expressions of selectors."""
    return tuple(one.cel.expression for one in selectors or ())


def tolerations(fields: Tolerations | None) -> tuple[DeviceToleration, ...]:
    """The tolerations."""
    return tuple(
        DeviceToleration(one.key, one.operator or "Equal", one.value, one.effect)
        for one in fields or ()
    )


def node_terms(fields: NodeSelection | None) -> tuple[NodeTerm, ...] | None:
    """The terms of a node selector; None without one."""
    if fields is None:
        return None
    return tuple(
        NodeTerm(_lines(term.match_expressions), _lines(term.match_fields))
        for term in fields.node_selector_terms or ()
    )


def device_nodes(name: str, everywhere: bool, selector: NodeSelection | None) -> DeviceNodes:
    """From which nodes devices may be used."""
    return DeviceNodes(NodeName(name) if name else None, everywhere, node_terms(selector))


def configuration(fields: ConfigurationFields, source: str) -> DeviceConfiguration:
    """The parameters as they are; raises ValidationError if they are too large."""
    if fields.opaque is None:
        content = b"{}"
    else:
        parameters = bytes(fields.opaque.parameters)
        if len(parameters) > MAX_PARAMETERS:
            raise msgspec.ValidationError(
                f"the parameters for {fields.opaque.driver} have {len(parameters)} bytes; at most"
                f" {MAX_PARAMETERS} are read"
            )
        content = msgspec.json.encode({"opaque": fields.opaque})
    return DeviceConfiguration(source, fields.requests or (), content.decode())


def _lines(lines: tuple[RequirementFields, ...] | None) -> tuple[Requirement, ...]:
    return tuple(requirement(one) for one in lines or ())


# A ResourceClaim or DeviceClass of resource.k8s.io/v1 as the domain's.
#
# https://kubernetes.io/docs/reference/kubernetes-api/resource/v1/resource-claim-v1/


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


# Writes to ResourceClaims: strategic merge patches for one version, like kube-scheduler's updates.
#
# An allocated claim must not be deleted while pods use it, so that the finalizer is added before
# the allocation:
# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/


RESOURCE = "/apis/resource.k8s.io/v1"


class ClaimPatch(msgspec.Struct, frozen=True):
    """A patch of the object at this path, without the version that it is for."""

    path: str
    content: dict[str, Any]

    def body(self, uid: str, version: str) -> bytes:
        """The patch for this version of the object."""
        meta = {**self.content.get("metadata", {}), "uid": uid, "resourceVersion": version}
        return msgspec.json.encode({**self.content, "metadata": meta})


class _Written(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


def claim_path(write: ReserveDevices) -> str:
    """The path of the claim."""
    return object_path(RESOURCE, "resourceclaims", write.device_claim, write.namespace)


def claim_patches(write: ReserveDevices) -> Iterator[ClaimPatch]:
    """The patches, in order; each is for the version that the one before has made."""
    path = claim_path(write)
    if write.allocation is not None and not write.is_protected:
        yield ClaimPatch(path, {"metadata": {"finalizers": [FINALIZER]}})
    consumer = {"resource": "pods", "name": write.pod, "uid": write.pod_uid}
    status: dict[str, Any] = {"reservedFor": [consumer]}
    if write.allocation is not None:
        status["allocation"] = _written_allocation(write.allocation)
    yield ClaimPatch(f"{path}/status", {"status": status})


def version_in(answer: bytes) -> str:
    """The version of an object in an answer; "" if it has none, for which any patch is refused."""
    try:
        return msgspec.json.decode(answer, type=_Written).metadata.resource_version
    except UNDECODABLE:
        return ""


def _written_allocation(allocation: ClaimAllocation) -> dict[str, Any]:
    devices: dict[str, Any] = {"results": [_result(one) for one in allocation.devices]}
    if allocation.configurations:
        devices["config"] = [_configuration(one) for one in allocation.configurations]
    found: dict[str, Any] = {"devices": devices}
    if allocation.terms is not None:
        found["nodeSelector"] = {"nodeSelectorTerms": [_term(one) for one in allocation.terms]}
    return found


def _result(device: AllocatedDevice) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "request": device.request,
        "driver": device.key.driver,
        "pool": device.key.pool,
        "device": device.key.device,
    }
    if device.tolerations:
        found["tolerations"] = [_toleration(one) for one in device.tolerations]
    return found


def _toleration(toleration: DeviceToleration) -> Mapping[str, Any]:
    found = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: value for name, value in found.items() if value}


def _configuration(configuration: DeviceConfiguration) -> Mapping[str, Any]:
    content: dict[str, Any] = msgspec.json.decode(
        configuration.content, type=dict[str, msgspec.Raw]
    )
    found: dict[str, Any] = {"source": configuration.source, **content}
    if configuration.requests:
        found["requests"] = configuration.requests
    return found


def _term(term: NodeTerm) -> Mapping[str, Any]:
    found = {
        "matchExpressions": _written_lines(term.labels),
        "matchFields": _written_lines(term.fields),
    }
    return {name: lines for name, lines in found.items() if lines}


def _written_lines(lines: Sequence[Requirement]) -> list[Mapping[str, Any]]:
    return [
        {"key": one.key, "operator": one.operator, **({"values": one.values} if one.values else {})}
        for one in lines
    ]
