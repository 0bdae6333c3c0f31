"""What slices, claims and classes of resource.k8s.io/v1 have in common, as it comes over the wire.

A field that these structs do not name is an error, with its place: ignoring it might place a pod
where it must not be. Sizes are bounded as the API server bounds them.
https://github.com/kubernetes/api/blob/master/resource/v1/types.go
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.devices.device import DeviceNodes, DeviceToleration
from kubeshare_py.domain.devices.resource_claim import DeviceConfiguration
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.manifests.label_selector import RequirementFields, requirement

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
