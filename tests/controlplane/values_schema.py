"""The part of the chart's values.schema.json that is about the scheduler's configuration.

It is made of the configuration's own types, so that a field, a choice or a bound is written once.
What the chart sets itself is left out; where it allows less than the scheduler, `_NARROWER` says
so. The rest of the file is written by hand and stays as it is.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from deploy.boards.json_text import laid_out
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


def written(schema: Mapping[str, Any]) -> str:
    """The whole file, with the configuration's part made anew."""
    types = msgspec.json.schema(SchedulerConfiguration, ref_template=f"{_DEFINED}{{name}}")["$defs"]
    config = _cleaned(types["SchedulerConfiguration"], types, "")
    shared = {name: _cleaned(types[name], types, "") for name in _SHARED}
    properties = {**schema["properties"], "config": config}
    return f"{laid_out({**schema, 'definitions': shared, 'properties': properties})}\n"


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
