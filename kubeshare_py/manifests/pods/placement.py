"""What a pod needs of its node: resources, and where it may run, as a `Shape`.

Read are the node selector, node affinity, tolerations, ports of the node, and features that it must
declare.
Kubernetes bounds these only by the size of the whole object, and every part of them is evaluated
for each node. The limits here are far above what people write: lists of some hundred nodes by name,
one term for each, as controllers make them, are well within them.
"""

from collections.abc import Sequence

import msgspec

from kubeshare_py.domain.needs.host_ports import HostPort
from kubeshare_py.domain.needs.native_resources import NVIDIAS, NativeResources
from kubeshare_py.domain.needs.node_rules import NodeRule
from kubeshare_py.domain.pod import NodePreferences, NodeTerm, Shape, Toleration
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import CardRelation, GpuRequest, InvalidRequest
from kubeshare_py.manifests.label_selector import RequirementFields, requirement
from kubeshare_py.manifests.pods.effective_requests import demand
from kubeshare_py.manifests.pods.host_ports import host_ports
from kubeshare_py.manifests.pods.packed_terms import packed
from kubeshare_py.manifests.pods.pod_fields import (
    NodeAffinityFields,
    NodeSelectorFields,
    PodSpec,
    PodStatus,
    PreferredTermFields,
    TermFields,
    TolerationFields,
)
from kubeshare_py.manifests.pods.required_features import required_features
from kubeshare_py.manifests.pods.summed_requests import Demand
from kubeshare_py.manifests.pods.unsupported import unread_resources, unsupported_fields

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
    spec: PodSpec,
    status: PodStatus | None,
    request: GpuRequest | None,
    owned: OwnedNames = NONE_OWNED,
    rules: tuple[NodeRule, ...] = (),
) -> NodeNeeds:
    """What a pod with this request needs. `status` is a bound pod's, else None.

    `rules` are those of the request's dialect.
    """
    problem = _placement_problem(spec)
    is_bound = status is not None
    # Of what exceeds a limit nothing more is read, unless it is charged: reading it takes long too.
    ports = host_ports(spec) if problem is None or is_bound else ()
    needs = demand(spec, status) if problem is None or is_bound else Demand(())
    resources = _marked(needs.resources, owned.marks) if owned.marks else needs.resources
    amounts = resources, needs.unrequested + owned.native.charged(needs.resources), ports
    if problem is None:
        shape = _shape_of(spec, amounts, request, rules)
    else:
        shape = _shape_without_place(amounts, request)
    if is_bound:
        return NodeNeeds(shape)
    if problem is not None:
        return NodeNeeds(shape, problem)
    unread = unread_resources(needs.resources, owned.own, owned.foreign, spec.scheduler_name)
    return NodeNeeds(shape, unread, needs.problems + unsupported_fields(spec))


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


def _shape_without_place(amounts: _Requested, request: GpuRequest | None) -> Shape:
    """The shape of a pod whose placement fields exceed the limits: no node satisfies it."""
    nowhere = NodeAffinityFields(required=NodeSelectorFields())
    return _shape(amounts, request, (), nowhere, (), (), ())


def _shape_of(
    spec: PodSpec,
    amounts: _Requested,
    request: GpuRequest | None,
    rules: tuple[NodeRule, ...],
) -> Shape:
    """The pod's shape; the same object for the same content while the cache holds it."""
    affinity, selector = spec.affinity, spec.node_selector
    return _shape(
        amounts,
        request,
        tuple(sorted(selector.items())) if selector else (),
        affinity.node_affinity if affinity else None,
        spec.tolerations or (),
        required_features(spec),
        rules,
    )


@remembered(4096)
def _shape(
    amounts: _Requested,
    request: GpuRequest | None,
    node_selector: _LabelPairs,
    affinity: NodeAffinityFields | None,
    tolerations: tuple[TolerationFields, ...],
    features: tuple[str, ...],
    rules: tuple[NodeRule, ...],
) -> Shape:
    resources, unrequested, ports = amounts
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
