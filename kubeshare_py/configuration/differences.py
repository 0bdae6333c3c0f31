"""What a configuration changes of the defaults, as lines for people: `--check-config` begins so."""

import json
from collections.abc import Iterator
from typing import Any

from kubeshare_py.configuration.scheduler import SchedulerConfiguration, effective, read
from kubeshare_py.domain.printable import beginning, printable

#: The most characters that are shown of a value.
_MAX_VALUE = 80


def differences(configuration: SchedulerConfiguration) -> Iterator[str]:
    """A line for each field with another value than its default, by its path.

    Each profile is compared with the only one of default values. Of plugins it says which are added
    and left out.
    """
    default = effective(read(None))
    [profile] = default.pop("profiles")
    now = effective(configuration)
    for index, one in enumerate(now.pop("profiles")):
        yield from _between(f"profiles[{index}]", one, profile)
    yield from _between("", now, default)


def _between(path: str, now: Any, default: Any) -> Iterator[str]:
    if now == default:
        return
    if isinstance(now, dict) and isinstance(default, dict):
        for key in {**default, **now}:
            step = f"{path}.{key}" if path else str(key)
            yield from _between(step, now.get(key), default.get(key))
    elif _are_named(now) and _are_named(default):
        yield f"{path}: {', '.join(_changed(now, default)) or 'in another order'}"
    else:
        yield f"{path}: {_value(now)} (default: {_value(default)})"


def _are_named(found: Any) -> bool:
    """Whether it is a list of plugins or dialects."""
    return isinstance(found, list) and all(isinstance(one, dict) and "name" in one for one in found)


def _changed(now: list[dict[str, Any]], default: list[dict[str, Any]]) -> Iterator[str]:
    before = {one["name"]: one for one in default}
    after = {one["name"]: one for one in now}
    for name, one in after.items():
        if name not in before:
            more = {key: value for key, value in one.items() if key != "name"}
            yield f"+ {printable(name)}{f' {_value(more)}' if more else ''}"
        else:
            yield from _between(printable(name), one, before[name])
    yield from (f"- {printable(name)}" for name in before if name not in after)


def _value(found: Any) -> str:
    return printable(beginning(json.dumps(found, ensure_ascii=False), _MAX_VALUE))
