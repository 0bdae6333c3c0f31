"""A case that shows a difference, made smaller as long as it shows the same kind of difference."""

from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

#: Cases that are tried; each costs some milliseconds.
_MAX_TRIES = 3000
#: What every object of its kind has, or other fields need.
_KEPT = frozenset(
    {
        *("apiVersion", "kind", "metadata", "spec", "status", "name", "namespace", "uid"),
        *("schedulerName", "containers", "allocatable", "nodeName", "phase", "startTime"),
        *("key", "operator", "effect", "protocol", "containerPort", "topologyKey", "maxSkew"),
        *("whenUnsatisfiable", "weight", "preference", "podAffinityTerm", "nodeSelectorTerms"),
        *("selector", "disruptionsAllowed", "pods", "values", "count"),
    }
)


def shrunken(shows: Callable[[Json], bool], case: Json) -> Json:
    """A smaller case for which `shows` is still true."""
    tries = 0
    found_one = True
    while found_one:
        found_one = False
        for smaller in _smaller_cases(case):
            tries += 1
            if tries > _MAX_TRIES:
                return case
            if shows(smaller):
                case, found_one = smaller, True
                break
    return case


def _smaller_cases(case: Json) -> Iterator[Json]:
    """First without whole objects, then without parts of them."""
    objects = case["objects"]
    size = max(1, len(objects) // 2)
    while size:
        for at in range(0, len(objects), size):
            yield {**case, "objects": objects[:at] + objects[at + size :]}
        size //= 2
    for smaller in _without_parts(case["pod"]):
        yield {**case, "pod": smaller}
    for at, one in enumerate(objects):
        for smaller in _without_parts(one):
            yield {**case, "objects": [*objects[:at], smaller, *objects[at + 1 :]]}
    if case.get("pluginConfig"):
        yield {key: case[key] for key in case if key != "pluginConfig"}


def _without_parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in value:
            if key not in _KEPT:
                yield {name: one for name, one in value.items() if name != key}
        for key, inner in value.items():
            for smaller in _without_parts(inner):
                yield {**value, key: smaller}
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            if len(value) > 1:
                yield value[:at] + value[at + 1 :]
            for smaller in _without_parts(inner):
                yield [*value[:at], smaller, *value[at + 1 :]]
