"""The part of the chart's values.schema.json that is about the scheduler's configuration.

It is made of the configuration's own types, so that a field, a choice or a bound is written once.
What the chart sets itself is left out; where it allows less than the scheduler, `_NARROWER` says
so. The rest of the file is written by hand and stays as it is.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from kubeshare_py.configuration.scheduler import FORMER_KEYS, SchedulerConfiguration
from tests.controlplane.shipped import MANIFESTS

SCHEMA = MANIFESTS.with_name("chart") / "kubeshare/values.schema.json"

#: Settings that the chart makes itself of other values, or of what it installs.
OF_THE_CHART = frozenset(
    (
        *("apiVersion", "kind", "clientConnection", "hamiMetrics"),
        *(f"server.{name}" for name in ("service", "certificateFile", "keyFile", "apiService")),
        *(f"extender.{name}" for name in ("certificateFile", "keyFile", "clientCaFile")),
        *("leaderElection.resourceNamespace", "leaderElection.resourceName"),
    )
)
#: The pods of the chart may not listen below 1024, and on no port that is not known.
_PORT = {"minimum": 1024}
#: Helm users may write a duration without its unit, in seconds.
_DURATION = {"type": ["string", "number"]}
_NARROWER: Mapping[str, Mapping[str, Any]] = {
    "server.port": _PORT,
    "extender.port": _PORT,
    "leaderElection.leaseDuration": _DURATION,
    "leaderElection.renewDeadline": _DURATION,
    "leaderElection.retryPeriod": _DURATION,
    "nativeResources[]": {
        "pattern": "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61})\\*?$",
        "not": {"const": "nvidia.com/gpu"},
    },
}
#: What msgspec adds for readers; docs/install.md has it in words.
_FOR_READERS = ("title", "description", "default")
_DEFINED = "#/definitions/"
#: Types that are there many times.
_SHARED = ("Point", "EnabledPlugin")
#: Columns of a line, which may end with a comma.
_WIDTH = 120


def written(schema: Mapping[str, Any]) -> str:
    """The whole file, with the configuration's part made anew."""
    types = msgspec.json.schema(SchedulerConfiguration, ref_template=f"{_DEFINED}{{name}}")["$defs"]
    config = _cleaned(types["SchedulerConfiguration"], types, "")
    shared = {name: _cleaned(types[name], types, "") for name in _SHARED}
    properties = {**schema["properties"], "config": config}
    return f"{_laid_out({**schema, 'definitions': shared, 'properties': properties}, 0, 0)}\n"


def _cleaned(schema: Mapping[str, Any], types: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The schema of the setting at `path`, with those of its types in place."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_DEFINED)
        return {"$ref": schema["$ref"]} if name in _SHARED else _cleaned(types[name], types, path)
    kept = {name: part for name, part in schema.items() if name not in _FOR_READERS and part != []}
    if "properties" in kept:
        fields = {
            name: _cleaned(inner, types, where)
            for name, inner in kept["properties"].items()
            if (where := f"{path}.{name}".removeprefix(".")) not in OF_THE_CHART
        }
        former = {old: fields[new] for old, new in FORMER_KEYS.items() if new in fields}
        kept["properties"] = fields | former
    for name in ("items", "additionalProperties"):
        if kept.get(name):
            kept[name] = _cleaned(kept[name], types, f"{path}[]")
    return {**kept, **_NARROWER.get(path, {})}


def _laid_out(value: object, depth: int, before: int) -> str:
    """JSON, two columns further in with each level; what fits into a line is on one.

    `before` is the number of characters that its first line begins with.
    """
    line = json.dumps(value)
    if not isinstance(value, dict | list) or (depth and before + len(line) < _WIDTH):
        return line
    inside = 2 * (depth + 1) * " "
    named = value.items() if isinstance(value, dict) else (("", one) for one in value)
    parts = []
    for name, one in named:
        head = f"{json.dumps(name)}: " if name else ""
        parts.append(f"{head}{_laid_out(one, depth + 1, len(inside + head))}")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inside}" + f",\n{inside}".join(parts) + f"\n{2 * depth * ' '}{closing}"
