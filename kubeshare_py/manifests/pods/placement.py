"""What a pod needs of its node: resources, and where it may run, as a `Shape`."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import msgspec

from kubeshare_py.dialects.pod_request import unread
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.pod import (
    ANY_ADDRESS,
    RESTART_ALL,
    USERS_ON_HOST_NETWORK,
    HostPort,
    InterPodTerms,
    NodePreferences,
    NodeRule,
    NodeTerm,
    PodVolumes,
    Shape,
    Toleration,
)
from kubeshare_py.domain.quota import NVIDIAS, NativeResources
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import CardRelation, GpuRequest, InvalidRequest
from kubeshare_py.manifests.common_definitions import RequirementFields, requirement
from kubeshare_py.manifests.pods.effective_requests import NOTHING_ASKED, effective_requests
from kubeshare_py.manifests.pods.pod_fields import (
    Container,
    NodeAffinityFields,
    NodeSelectorFields,
    PodFields,
    PodSpec,
    PreferredTermFields,
    TermFields,
    TolerationFields,
)
from kubeshare_py.manifests.pods.pod_volumes import (
    ANYWHERE_WITH_NAME,
    pod_device_claims,
    pod_volumes,
    unreadable,
    unreadable_claims,
)

# Ports of the node that a pod takes while it runs: those of containers and sidecars.
#
# Other init containers have ended before. The API server sets `hostPort` of pods on the host's
# network (GetHostPorts in pkg/scheduler/util/utils.go of github.com/kubernetes/kubernetes).


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The ports, sorted, each once."""
    found: dict[HostPort, None] = {}
    for container in spec.containers or ():
        if container.ports:
            found.update(dict.fromkeys(_of(container)))
    for container in spec.init_containers or ():
        if container.ports and container.restart_policy == "Always":
            found.update(dict.fromkeys(_of(container)))
    return tuple(sorted(found)) if found else ()


def _of(container: Container) -> Iterator[HostPort]:
    for port in container.ports or ():
        if port.host_port > 0:
            yield HostPort(port.host_port, port.protocol or "TCP", port.host_ip or ANY_ADDRESS)


# Features that a pod needs its node to declare.


def required_features(spec: PodSpec) -> tuple[str, ...]:
    """Their names, sorted; empty for nearly every pod."""
    found = []
    for container in (spec.containers or ()) + (spec.init_containers or ()):
        rules = container.restart_policy_rules
        if rules and any(one.action == "RestartAllContainers" for one in rules):
            found.append(RESTART_ALL)
            break
    if spec.host_network and spec.host_users is False:
        found.append(USERS_ON_HOST_NETWORK)
    return tuple(found)


# The terms of a long node affinity as one text, while their pod waits.
#
# 5,000 values take 100 KB as text and 500 KB as objects of 64 bytes each. Thousands of such
# objects, freed when their pod goes, leave arenas of Python's allocator that a few other objects
# keep from the system.


#: Terms with more objects are packed; nearly all pods have fewer.
MAX_OBJECTS = 40

#: The objects of a term, and of a line without its values; the bytes of an object.
_OF_TERM, _OF_LINE, _OBJECT = 3, 4, 64


@dataclass(frozen=True, slots=True)
class PackedTerms(Sequence[NodeTerm]):
    """Terms that are decoded from `text` at each access. Equal if the texts are.

    `text` is JSON: for each term its lines on labels and on fields, each with key, operator and
    values. `_weight` is the size of the terms as objects (bytes; see `remembered.weight_of`).
    """

    text: str
    length: int
    _weight: int = field(repr=False)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[NodeTerm]:
        for labels, fields in json.loads(self.text):
            yield NodeTerm(_requirements(labels), _requirements(fields))

    @overload
    def __getitem__(self, index: int) -> NodeTerm: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[NodeTerm, ...]: ...
    def __getitem__(self, index: int | slice) -> NodeTerm | tuple[NodeTerm, ...]:
        return tuple(self)[index]


def packed(terms: tuple[NodeTerm, ...]) -> Sequence[NodeTerm]:
    """The same terms, packed if there are many; equal terms give equal results."""
    lines = sum(len(term.labels) + len(term.fields) for term in terms)
    values = sum(len(line.values) for term in terms for line in (*term.labels, *term.fields))
    objects = _OF_TERM * len(terms) + _OF_LINE * lines + values
    if objects <= MAX_OBJECTS:
        return terms
    written = [(_written(term.labels), _written(term.fields)) for term in terms]
    text = json.dumps(written, separators=(",", ":"))
    return PackedTerms(text, len(terms), len(text) + _OBJECT * objects)


def _written(lines: tuple[Requirement, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(line.key, line.operator, line.values) for line in lines]


def _requirements(lines: list[tuple[str, str, list[str]]]) -> tuple[Requirement, ...]:
    return tuple(Requirement(key, operator, tuple(values)) for key, operator, values in lines)


# Fields of a pod that this scheduler does not implement: such a pod is not bound.
#
# Placing it would ignore a requirement. Preferences (preferred affinity, ScheduleAnyway) may be
# ignored, and are. Sources of volumes that are unknown here, those of later Kubernetes releases
# among them, are unsupported.


_NODE_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})

#: The domains of resources that ask for GPUs in another dialect.
_GPU_DOMAINS = ("aliyun.com", "elasticgpu.io", "nano-gpu.io", "4pd.io", "hami.io")
#: Resources that stand for a claim on a device class (dynamic resource allocation).
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io"
_OWNERS = "|".join(one.replace(".", "[.]") for one in (*_GPU_DOMAINS, _DEVICE_CLASS))
#: Qualified resource names in lower case that ask for GPUs; valid for RE2 too, which the API
#: server's CEL uses. NVIDIA's device plugin names GPUs `nvidia.com/gpu*` and MIG instances
#: `nvidia.com/mig-*`; other resources of nvidia.com (the network operator's `hostdev` and `rdma*`)
#: are ordinary ones: https://github.com/NVIDIA/k8s-device-plugin
GPU_RESOURCE = f"gpu|(^|[.])nvidia[.]com/mig-|(^|[.])({_OWNERS})/"


def unsupported_fields(spec: PodSpec) -> tuple[str, ...]:
    """The paths of such fields; empty for nearly every pod."""
    found: list[str] = []
    if spec.affinity and spec.affinity.node_affinity and spec.affinity.node_affinity.required:
        found += _node_affinity(spec.affinity.node_affinity.required)
    for volume in spec.volumes or ():
        if not volume.keys() <= ANYWHERE_WITH_NAME:
            found += unreadable(volume)
    if spec.resource_claims:
        found += unreadable_claims(spec.resource_claims)
    group = spec.scheduling_group
    if group is not None and (group.keys() != {"podGroupName"} or not spec.pod_group):
        found.append("spec.schedulingGroup")
    if spec.workload_ref is not None:
        found.append("spec.workloadRef")
    return tuple(found)


@remembered(4096)
def unread_resources(
    resources: tuple[tuple[str, int], ...],
    own: frozenset[str],
    foreign: frozenset[str],
    scheduler: str,
) -> InvalidRequest | None:
    """The problem of a pod that asks for GPUs by names that its profile does not read.

    `own` are the resource names that dialects of the pod's profile understand, `foreign` those of
    other profiles.
    """
    found = tuple(
        name for name, _ in resources if name not in own and (name in foreign or _is_anothers(name))
    )
    if not found:
        return None
    return unread(found, scheduler, elsewhere=any(name in foreign for name in found))


def _is_anothers(resource: str) -> bool:
    return "/" in resource and re.search(GPU_RESOURCE, resource.lower()) is not None


def _node_affinity(required: NodeSelectorFields) -> Iterator[str]:
    for term in required.node_selector_terms or ():
        for one in (*(term.match_expressions or ()), *(term.match_fields or ())):
            if one.operator not in _NODE_OPERATORS:
                yield f"spec.affinity.nodeAffinity (operator {one.operator})"
        for one in term.match_fields or ():
            if one.key != "metadata.name":
                yield f"spec.affinity.nodeAffinity (matchFields {one.key})"


# What a pod needs of its node: resources, and where it may run, as a `Shape`.
#
# Read are the node selector, node affinity, tolerations, ports of the node, and features that it
# must declare. Kubernetes bounds these only by the size of the whole object, and every part of them
# is evaluated for each node. The limits here are far above what people write: lists of some hundred
# nodes by name, one term for each, as controllers make them, are well within them.


MAX_TERMS = 500
#: Lines in all terms.
MAX_REQUIREMENTS = 1000
#: Values in all lines.
MAX_VALUES = 5000
#: Characters in all keys and values.
MAX_CHARACTERS = 256 * 1024
MAX_TOLERATIONS = 500
MAX_SELECTED = 100
MAX_HOST_PORTS = 500
MAX_VOLUMES = 500
#: Containers and init containers.
MAX_CONTAINERS = 1000
#: Requests and limits in all containers.
MAX_AMOUNTS = 1000

TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
PREFERENCES = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"

_LabelPairs = tuple[tuple[str, str], ...]
_AmountPairs = tuple[tuple[str, int], ...]
#: The pod's resources, what scores count besides, and its ports of the node.
_Requested = tuple[_AmountPairs, _AmountPairs, tuple[HostPort, ...]]
#: What it asks about other pods, and its volumes.
_Others = tuple[InterPodTerms | None, PodVolumes | None]


class NodeNeeds(msgspec.Struct, frozen=True, gc=False):
    """A pod's shape, and what keeps the pod from being tried: nothing if it is bound already."""

    shape: Shape
    problem: InvalidRequest | None = None
    unsupported: tuple[str, ...] = ()


class OwnedNames(msgspec.Struct, frozen=True, gc=False):
    """Resource names that dialects own, as far as they matter to a pod.

    `own` are those of the pod's profile, which it may ask for, and `foreign` those of other
    profiles. `marks` are resources of nodes on which a contested name that the pod asks for is its
    dialect's. `native` are those of device plugins.
    """

    own: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    marks: tuple[str, ...] = ()
    native: NativeResources = NVIDIAS


NONE_OWNED = OwnedNames()


def node_needs(
    pod: PodFields,
    request: GpuRequest | None,
    inter_pod: InterPodTerms | None,
    owned: OwnedNames = NONE_OWNED,
    rules: tuple[NodeRule, ...] = (),
) -> NodeNeeds:
    """What a pod with this request needs. `inter_pod` is what it asks about other pods.

    `rules` are those of the request's dialect. The shape of a pod that cannot be tried says nothing
    of other pods, volumes and device claims.
    """
    spec, is_bound = pod.spec, bool(pod.spec.node_name)
    problem = _placement_problem(spec)
    # Of what exceeds a limit nothing more is read, unless it is charged: reading it takes long too.
    is_read = problem is None or is_bound
    asked, unrequested, bad_quantities = (
        effective_requests(spec, pod.status if is_bound else None) if is_read else NOTHING_ASKED
    )
    resources = _marked(asked, owned.marks) if owned.marks else asked
    ports = host_ports(spec) if is_read else ()
    amounts = resources, unrequested + owned.native.charged(asked), ports
    refusal = None
    if not is_bound:
        refusal = problem or unread_resources(asked, owned.own, owned.foreign, spec.scheduler_name)
    others: _Others = (None, None)
    device_claims = None
    if refusal is None:
        statuses = pod.status.resource_claim_statuses
        others = inter_pod, pod_volumes(pod.metadata, spec.volumes)
        device_claims = pod_device_claims(pod.metadata, spec.resource_claims, statuses)
    build = _shape_of if problem is None else _shape_without_place
    shape = build(spec, amounts, request, rules, others)
    if device_claims is not None:
        # No other pod has these, so the shape that is remembered is without them.
        shape = replace(shape, device_claims=device_claims)
    if is_bound or problem is not None:
        return NodeNeeds(shape, refusal)
    return NodeNeeds(shape, refusal, bad_quantities + unsupported_fields(spec))


@remembered(1024)
def _marked(
    resources: tuple[tuple[str, int], ...], marks: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((*resources, *((mark, 1) for mark in marks))))


def _placement_problem(spec: PodSpec) -> InvalidRequest | None:
    """Which limit the pod exceeds; None for nearly every pod."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return (
        (_affinity_problem(affinity) if affinity is not None else None)
        or _over("spec.nodeSelector", "labels", len(spec.node_selector or ()), MAX_SELECTED)
        or _over("spec.tolerations", "entries", len(spec.tolerations or ()), MAX_TOLERATIONS)
        or _over("spec.volumes", "volumes", len(spec.volumes or ()), MAX_VOLUMES)
        or _over("spec.containers", "containers", _containers(spec), MAX_CONTAINERS)
        or _over("spec.containers[].resources", "amounts", _amounts(spec), MAX_AMOUNTS)
        or _over("spec.containers[].ports", "host ports", _host_ports(spec), MAX_HOST_PORTS)
    )


def _affinity_problem(affinity: NodeAffinityFields) -> InvalidRequest | None:
    required = affinity.required.node_selector_terms if affinity.required else None
    preferred = [one.preference for one in affinity.preferred or ()]
    return _terms_problem(TERMS, required or ()) or _terms_problem(PREFERENCES, preferred)


def _terms_problem(field: str, terms: Sequence[TermFields]) -> InvalidRequest | None:
    lines = [
        line
        for term in terms
        for line in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    return (
        _over(field, "terms", len(terms), MAX_TERMS)
        or _over(field, "requirements", len(lines), MAX_REQUIREMENTS)
        or _over(field, "values", sum(len(line.values or ()) for line in lines), MAX_VALUES)
        or _over(field, "characters", sum(map(_characters, lines)), MAX_CHARACTERS)
    )


def _characters(line: RequirementFields) -> int:
    return len(line.key) + sum(map(len, line.values or ()))


def _containers(spec: PodSpec) -> int:
    return len(spec.containers or ()) + len(spec.init_containers or ())


def _host_ports(spec: PodSpec) -> int:
    """The ports of the host in all containers, a port that two of them name twice."""
    ports = 0
    for container in (spec.containers or ()) + (spec.init_containers or ()):
        if container.ports:
            ports += sum(port.host_port > 0 for port in container.ports)
    return ports


def _amounts(spec: PodSpec) -> int:
    amounts = 0
    for container in (spec.containers or ()) + (spec.init_containers or ()):
        if container.resources is not None:
            resources = container.resources
            amounts += len(resources.requests or ()) + len(resources.limits or ())
    return amounts


def _over(field: str, what: str, count: int, most: int) -> InvalidRequest | None:
    if count <= most:
        return None
    rule = f"has {count} {what}; this scheduler takes at most {most}"
    return InvalidRequest(field=field, rule=rule)


def _shape_without_place(
    _spec: PodSpec,
    amounts: _Requested,
    request: GpuRequest | None,
    _rules: tuple[NodeRule, ...],
    others: _Others,
) -> Shape:
    """The shape of a pod whose placement fields exceed the limits: no node satisfies it."""
    nowhere = NodeAffinityFields(required=NodeSelectorFields())
    return _shape(amounts, request, (), nowhere, (), ((), ()), others)


def _shape_of(
    spec: PodSpec,
    amounts: _Requested,
    request: GpuRequest | None,
    rules: tuple[NodeRule, ...],
    others: _Others,
) -> Shape:
    """The pod's shape; the same object for the same content while the cache holds it."""
    affinity, selector = spec.affinity, spec.node_selector
    return _shape(
        amounts,
        request,
        tuple(sorted(selector.items())) if selector else (),
        affinity.node_affinity if affinity else None,
        spec.tolerations or (),
        (required_features(spec), rules),
        others,
    )


@remembered(4096)
def _shape(
    amounts: _Requested,
    request: GpuRequest | None,
    node_selector: _LabelPairs,
    affinity: NodeAffinityFields | None,
    tolerations: tuple[TolerationFields, ...],
    node_must: tuple[tuple[str, ...], tuple[NodeRule, ...]],
    others: _Others,
) -> Shape:
    resources, unrequested, ports = amounts
    features, rules = node_must
    inter_pod, volumes = others
    return Shape(
        resources=resources,
        claims=tuple([one.claim for one in request.claims]) if request else (),
        relation=request.relation if request else CardRelation.FREE,
        guarantee=request.guarantee if request else False,
        needs_port=request.needs_port if request else False,
        node_selector=node_selector,
        terms=_terms(affinity.required) if affinity else None,
        tolerations=tuple(_toleration(one) for one in tolerations),
        preferences=_preferences(affinity.preferred) if affinity else None,
        unrequested=unrequested,
        features=features,
        host_ports=ports,
        node_rules=rules,
        policy=request.policy if request else None,
        inter_pod=inter_pod,
        volumes=volumes,
    )


def _terms(required: NodeSelectorFields | None) -> Sequence[NodeTerm] | None:
    if required is None:
        return None
    return packed(tuple(_term(term) for term in required.node_selector_terms or ()))


def _preferences(preferred: tuple[PreferredTermFields, ...] | None) -> NodePreferences | None:
    """Those that count: with a weight, and with anything to match."""
    terms = [(one.weight, _term(one.preference)) for one in preferred or () if one.weight > 0]
    terms = [(weight, term) for weight, term in terms if term != NodeTerm()]
    if not terms:
        return None
    return NodePreferences(
        tuple(weight for weight, _ in terms), packed(tuple(term for _, term in terms))
    )


def _term(term: TermFields) -> NodeTerm:
    return NodeTerm(
        tuple(requirement(one) for one in term.match_expressions or ()),
        tuple(requirement(one) for one in term.match_fields or ()),
    )


def _toleration(fields: TolerationFields) -> Toleration:
    return Toleration(fields.key, fields.operator or "Equal", fields.value, fields.effect)
