"""LabelSelector objects, as specs of workloads and budgets have them.

Rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements
"""

from collections.abc import Callable, Mapping

from msgspec import convert

from kubeshare_py.domain.label_selector import all_hold
from kubeshare_py.embedded_cluster.protocol.names import label_causes, qualified_problem
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    wrong,
)
from kubeshare_py.manifests.label_selector import SelectorFields, query, requirements

LabelMap = Mapping[str, str]
_LISTED = ("In", "NotIn")
_BARE = ("Exists", "DoesNotExist")


def selects(selector: Json | None) -> Callable[[LabelMap | None], bool]:
    """Whether labels match; without a selector none do, with an empty one all do."""
    if selector is None:
        return lambda _labels: False
    lines = requirements(convert(selector, SelectorFields))
    return lambda labels: all_hold(lines, labels or {})


def selector_text(selector: Json | None) -> str:
    """`a=b,c in (d,e),!f`, sorted by key: as `labelSelector=` takes it."""
    return query(convert(selector or {}, SelectorFields))


def selector_causes(selector: Json, path: str) -> list[StatusCause]:
    """Everything wrong with a selector."""
    causes = label_causes(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or []):
        causes += _requirement_causes(one, f"{path}.matchExpressions[{index}]")
    return causes


def _requirement_causes(requirement: Json, path: str) -> list[StatusCause]:
    operator, values = requirement.get("operator", ""), requirement.get("values")
    causes: list[StatusCause] = []
    if operator in _LISTED and not values:
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        causes.append(required(f"{path}.values", text))
    elif operator in _BARE and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(not_allowed(f"{path}.values", text))
    elif operator not in _LISTED + _BARE:
        causes.append(wrong(f"{path}.operator", operator, "not a valid selector operator"))
    if problem := qualified_problem(requirement.get("key", "")):
        causes.append(wrong(f"{path}.key", requirement.get("key", ""), problem))
    return causes
