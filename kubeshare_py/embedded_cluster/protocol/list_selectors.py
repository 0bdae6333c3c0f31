"""Label and field selectors as written in `labelSelector=` and `fieldSelector=`.

Both parse to a predicate over an object. Fields that a kind does not support are refused with 400,
as the real server does.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from kubeshare_py.domain.label_selector import BadSelector, all_hold, parsed
from kubeshare_py.embedded_cluster.protocol.status import Json, bad_request

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
