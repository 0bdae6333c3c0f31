"""Where a pod may run, as a `Shape`: node selector, required node affinity, tolerations.

Preferred affinity is soft and not read.
"""

from collections.abc import Sequence

from kubeshare_py.domain.pod import NodeTerm, Shape, Toleration
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuRequest
from kubeshare_py.manifests.label_selector import requirement
from kubeshare_py.manifests.pods.packed_terms import packed
from kubeshare_py.manifests.pods.pod_fields import (
    NodeSelectorFields,
    PodSpec,
    TolerationFields,
)

_LabelPairs = tuple[tuple[str, str], ...]


def shape_without_place(
    resources: tuple[tuple[str, int], ...], request: GpuRequest | None
) -> Shape:
    """The shape of a pod whose placement fields exceed the limits: no node satisfies it."""
    return _shape(resources, request, (), NodeSelectorFields(), ())


def shape_of(
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
        claim=request.claim if request else None,
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
