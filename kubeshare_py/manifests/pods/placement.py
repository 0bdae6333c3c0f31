"""What a pod needs of its node: resources, and where it may run, as a `Shape`.

Read are the node selector, required node affinity and tolerations; preferred affinity is soft.
Kubernetes bounds these only by the size of the whole object, and every part of them is evaluated
for each node. The limits here are far above what people write: lists of some hundred nodes by name,
one term for each, as controllers make them, are well within them.
"""

from collections.abc import Sequence

import msgspec

from kubeshare_py.domain.pod import NodeTerm, Shape, Toleration
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import CardRelation, GpuRequest, InvalidRequest
from kubeshare_py.manifests.label_selector import RequirementFields, requirement
from kubeshare_py.manifests.pods.effective_requests import Demand, demand
from kubeshare_py.manifests.pods.packed_terms import packed
from kubeshare_py.manifests.pods.pod_fields import (
    NodeSelectorFields,
    PodSpec,
    PodStatus,
    TolerationFields,
)
from kubeshare_py.manifests.pods.unsupported import unsupported_fields

MAX_TERMS = 500
#: Lines in all terms.
MAX_REQUIREMENTS = 1000
#: Values in all lines.
MAX_VALUES = 5000
#: Characters in all keys and values.
MAX_CHARACTERS = 256 * 1024
MAX_TOLERATIONS = 500
MAX_SELECTED = 100
#: Requests and limits in all containers.
MAX_AMOUNTS = 1000

TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

_LabelPairs = tuple[tuple[str, str], ...]


class NodeNeeds(msgspec.Struct, frozen=True, gc=False):
    """A pod's shape, and what keeps the pod from being tried: nothing if it is bound already."""

    shape: Shape
    problem: InvalidRequest | None = None
    unsupported: tuple[str, ...] = ()


class OwnedNames(msgspec.Struct, frozen=True, gc=False):
    """Resource names that dialects own, as far as they matter to a pod.

    `own` are those of the pod's profile, which it may ask for, and `foreign` those of other
    profiles. `marks` are resources of nodes on which a contested name that the pod asks for is its
    dialect's.
    """

    own: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    marks: tuple[str, ...] = ()


NONE_OWNED = OwnedNames()


def node_needs(
    spec: PodSpec,
    status: PodStatus | None,
    request: GpuRequest | None,
    owned: OwnedNames = NONE_OWNED,
) -> NodeNeeds:
    """What a pod with this request needs. `status` is a bound pod's, else None."""
    problem = _placement_problem(spec)
    is_bound = status is not None
    needs = demand(spec, status) if problem is None or is_bound else Demand(())
    resources = _marked(needs.resources, owned.marks) if owned.marks else needs.resources
    if problem is None:
        shape = _shape_of(spec, resources, request)
    else:
        shape = _shape_without_place(resources, request)
    if is_bound:
        return NodeNeeds(shape)
    unsupported = unsupported_fields(spec, needs.resources, owned.own, owned.foreign)
    return NodeNeeds(shape, problem, needs.problems + unsupported)


@remembered(1024)
def _marked(
    resources: tuple[tuple[str, int], ...], marks: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((*resources, *((mark, 1) for mark in marks))))


def _placement_problem(spec: PodSpec) -> InvalidRequest | None:
    """Which limit the pod exceeds; None for nearly every pod."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    return (
        (_affinity_problem(required) if required is not None else None)
        or _over("spec.nodeSelector", "labels", len(spec.node_selector or ()), MAX_SELECTED)
        or _over("spec.tolerations", "entries", len(spec.tolerations or ()), MAX_TOLERATIONS)
        or _over("spec.containers[].resources", "amounts", _amounts(spec), MAX_AMOUNTS)
    )


def _affinity_problem(required: NodeSelectorFields) -> InvalidRequest | None:
    terms = required.node_selector_terms or ()
    lines = [
        line
        for term in terms
        for line in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    return (
        _over(TERMS, "terms", len(terms), MAX_TERMS)
        or _over(TERMS, "requirements", len(lines), MAX_REQUIREMENTS)
        or _over(TERMS, "values", sum(len(line.values or ()) for line in lines), MAX_VALUES)
        or _over(TERMS, "characters", sum(map(_characters, lines)), MAX_CHARACTERS)
    )


def _characters(line: RequirementFields) -> int:
    return len(line.key) + sum(map(len, line.values or ()))


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
    resources: tuple[tuple[str, int], ...], request: GpuRequest | None
) -> Shape:
    """The shape of a pod whose placement fields exceed the limits: no node satisfies it."""
    return _shape(resources, request, (), NodeSelectorFields(), ())


def _shape_of(
    spec: PodSpec, resources: tuple[tuple[str, int], ...], request: GpuRequest | None
) -> Shape:
    """The pod's shape; the same object for the same content while the cache holds it."""
    affinity, selector = spec.affinity, spec.node_selector
    node_affinity = affinity.node_affinity if affinity else None
    return _shape(
        resources,
        request,
        tuple(sorted(selector.items())) if selector else (),
        node_affinity.required if node_affinity else None,
        spec.tolerations or (),
    )


@remembered(4096)
def _shape(
    resources: tuple[tuple[str, int], ...],
    request: GpuRequest | None,
    node_selector: _LabelPairs,
    required: NodeSelectorFields | None,
    tolerations: tuple[TolerationFields, ...],
) -> Shape:
    return Shape(
        resources=resources,
        claims=tuple([one.claim for one in request.claims]) if request else (),
        relation=request.relation if request else CardRelation.FREE,
        guarantee=request.guarantee if request else False,
        needs_port=request.needs_port if request else False,
        node_selector=node_selector,
        terms=_terms(required),
        tolerations=tuple(_toleration(one) for one in tolerations),
    )


def _terms(required: NodeSelectorFields | None) -> Sequence[NodeTerm] | None:
    if required is None:
        return None
    return packed(
        tuple(
            NodeTerm(
                tuple(requirement(one) for one in term.match_expressions or ()),
                tuple(requirement(one) for one in term.match_fields or ()),
            )
            for term in required.node_selector_terms or ()
        )
    )


def _toleration(fields: TolerationFields) -> Toleration:
    return Toleration(fields.key, fields.operator or "Equal", fields.value, fields.effect)
