"""Node selectors: validation of the terms that volumes, claims and slices have of nodes.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators
"""

from kubeshare_py.embedded_cluster.protocol.names import qualified_problem
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    wrong,
)

_LISTED, _BARE, _COMPARED = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")


def node_selector_causes(selector: Json, path: str) -> list[StatusCause]:
    """Everything wrong with a NodeSelector: it needs terms, and their requirements are valid."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        text = "must have at least one node selector term"
        return [required(f"{path}.nodeSelectorTerms", text)]
    return [
        cause
        for index, term in enumerate(terms)
        for at, one in enumerate(term.get("matchExpressions") or [])
        for cause in _requirement_causes(
            one, f"{path}.nodeSelectorTerms[{index}].matchExpressions[{at}]"
        )
    ]


def _requirement_causes(requirement: Json, path: str) -> list[StatusCause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    causes: list[StatusCause] = []
    if operator in _LISTED and not values:
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        causes.append(required(f"{path}.values", text))
    elif operator in _BARE and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(not_allowed(f"{path}.values", text))
    elif operator in _COMPARED and len(values) != 1:
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        causes.append(required(f"{path}.values", text))
    elif operator not in _LISTED + _BARE + _COMPARED:
        causes.append(wrong(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    if problem := qualified_problem(key):
        causes.append(wrong(f"{path}.key", key, problem))
    return causes
