"""Selectors of objects: in specs, in the query of a list or watch, and those of nodes."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import convert

from kubeshare_py.domain.cluster_objects import BadSelector, all_hold, parsed
from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.names import check_labels, qualified_problem
from kubeshare_py.embedded_cluster.protocol.status import Json, bad_request
from kubeshare_py.manifests.common_definitions import SelectorFields, query, requirements

# LabelSelector objects, as specs of workloads and budgets have them.
#
# Rules:
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements


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


def check_selector(selector: Checked) -> None:
    """Labels and requirements of a selector."""
    check_labels(selector.at("matchLabels"))
    for one in selector.each("matchExpressions"):
        _check_requirement(one)


def check_node_selector(selector: Checked) -> None:
    """A NodeSelector needs terms, and their requirements are valid.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators
    """
    text = "must have at least one node selector term"
    if selector.require("nodeSelectorTerms", text=text):
        for term in selector.each("nodeSelectorTerms"):
            for one in term.each("matchExpressions"):
                _check_requirement(one, compared=("Gt", "Lt"))


def _check_requirement(one: Checked, compared: Sequence[str] = ()) -> None:
    operator, values = one.get("operator"), one.get("values") or []
    if operator in _LISTED and not values:
        one.lacks("values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _BARE and values:
        one.forbid("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in compared and len(values) != 1:
        one.lacks("values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif operator not in (*_LISTED, *_BARE, *compared):
        one.wrong("operator", operator, "not a valid selector operator")
    one.valid("key", qualified_problem)


# Label and field selectors as written in `labelSelector=` and `fieldSelector=`.
#
# Both parse to a predicate over an object. Fields that a kind does not support are refused with
# 400, as the real server does.


Predicate = Callable[[Json], bool]
FieldPath = tuple[str, ...]

_FIELD = re.compile(r"^([^=!]+)(==|!=|=)(.*)$")


def labels_match(text: str) -> Predicate:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k`; != and notin also match objects without the key."""
    try:
        requirements = parsed(text)
    except BadSelector as bad:
        problem = f"unable to parse requirement: {bad.part!r} is not a label selector"
        raise bad_request(problem) from bad
    return lambda obj: all_hold(requirements, obj["metadata"].get("labels") or {})


def fields_match(text: str, supported: Mapping[str, FieldPath]) -> Predicate:
    """`metadata.name=x,status.phase!=Failed`; a missing field counts as ""."""
    tests = [_field_test(part, supported) for part in text.split(",") if part]

    def matches(obj: Json) -> bool:
        return all(test(obj) for test in tests)

    return matches


def exact_value(text: str, label: str) -> str | None:
    """The value that a field selector demands of `label`, None when it leaves it open."""
    for part in text.split(","):
        found = _FIELD.match(part)
        if found and found[1].strip() == label and found[2] != "!=":
            return found[3].strip()
    return None


def value_at(obj: Json, path: FieldPath) -> Any:
    """What is at a path, None if nothing is."""
    found: Any = obj
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def field_value(obj: Json, path: FieldPath) -> str:
    """The field as selectors compare it: a string, "" when absent, true/false for booleans."""
    found = value_at(obj, path)
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None else str(found)


def _field_test(part: str, supported: Mapping[str, FieldPath]) -> Predicate:
    found = _FIELD.match(part)
    if not found:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    label, operator, value = found[1].strip(), found[2], found[3].strip()
    if label not in supported:
        raise bad_request(f"field label not supported: {label}")
    path = supported[label]
    if operator == "!=":
        return lambda obj: field_value(obj, path) != value
    return lambda obj: field_value(obj, path) == value
