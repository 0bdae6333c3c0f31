"""Limits of what a pod may state about its placement and resources.

Kubernetes bounds these only by the size of the whole object, and every part of them is evaluated
for each node. All limits are far above what people write: lists of some hundred nodes by name, one
term for each, as controllers make them, are well within them.
"""

from collections.abc import Iterator

from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.manifests.label_selector import RequirementFields
from kubeshare_py.manifests.pods.pod_fields import NodeSelectorFields, PodSpec

MOST_TERMS = 500
#: Lines in all terms.
MOST_REQUIREMENTS = 1000
#: Values in all lines.
MOST_VALUES = 5000
#: Characters in all keys and values.
MOST_CHARACTERS = 256 * 1024
MOST_TOLERATIONS = 500
MOST_SELECTED = 100
#: Requests and limits in all containers.
MOST_AMOUNTS = 1000

TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def placement_problem(spec: PodSpec) -> InvalidRequest | None:
    """Which limit the pod exceeds; None for nearly every pod."""
    return next(_too_many(spec), None)


def _too_many(spec: PodSpec) -> Iterator[InvalidRequest]:
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    if node_affinity is not None and node_affinity.required is not None:
        yield from _affinity(node_affinity.required)
    yield from _over("spec.nodeSelector", "labels", len(spec.node_selector or ()), MOST_SELECTED)
    yield from _over("spec.tolerations", "entries", len(spec.tolerations or ()), MOST_TOLERATIONS)
    amounts = 0
    for container in (spec.containers or ()) + (spec.init_containers or ()):
        if container.resources is not None:
            resources = container.resources
            amounts += len(resources.requests or ()) + len(resources.limits or ())
    yield from _over("spec.containers[].resources", "amounts", amounts, MOST_AMOUNTS)


def _affinity(required: NodeSelectorFields) -> Iterator[InvalidRequest]:
    terms = required.node_selector_terms or ()
    yield from _over(TERMS, "terms", len(terms), MOST_TERMS)
    lines = [
        line
        for term in terms
        for line in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    yield from _over(TERMS, "requirements", len(lines), MOST_REQUIREMENTS)
    yield from _over(TERMS, "values", sum(len(line.values or ()) for line in lines), MOST_VALUES)
    yield from _over(TERMS, "characters", sum(map(_characters, lines)), MOST_CHARACTERS)


def _characters(line: RequirementFields) -> int:
    return len(line.key) + sum(map(len, line.values or ()))


def _over(field: str, what: str, count: int, most: int) -> Iterator[InvalidRequest]:
    if count > most:
        rule = f"has {count} {what}; this scheduler takes at most {most}"
        yield InvalidRequest(field=field, rule=rule)
