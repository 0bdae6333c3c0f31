"""Configuration files: shaped like KubeSchedulerConfiguration, typed, every error with its path.

`plugins.<point>` lists what runs at that point, in order. A point that is left out gets the default
profile's plugins; `disabled: [{name: "*"}]` clears them first, as in kube-scheduler.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from kubeshare_py.framework.points import (
    CardFilter,
    CardScore,
    Filter,
    Permit,
    PreEnqueue,
    QueueSort,
    Reserve,
    Score,
)
from kubeshare_py.framework.scheduler_profile import Profile

API_VERSION = "kubeshare.io/v1"
KIND = "KubeShareSchedulerConfiguration"
SCHEDULER_NAME = "kubeshare-scheduler"

#: Makes a plugin from the `args` of its pluginConfig entry, given as keywords.
PluginFactory = Callable[..., object]


class ConfigurationError(Exception):
    """A configuration cannot be used; the text begins with the path of the field."""


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping of the file: no field may be unknown, so that a typo is an error."""


class Named(Struct, frozen=True):
    """A plugin at a point; only scores have weights."""

    name: str
    weight: int = 1


class Point(Struct, frozen=True):
    """What to add to a point's default plugins, and what to take away first."""

    enabled: tuple[Named, ...] = ()
    disabled: tuple[Named, ...] = ()


class Points(Struct, frozen=True):
    """The extension points that a profile may change."""

    pre_enqueue: Point = Point()
    queue_sort: Point = Point()
    filter: Point = Point()
    card_filter: Point = Point()
    score: Point = Point()
    card_score: Point = Point()
    permit: Point = Point()
    reserve: Point = Point()


class PluginArgs(Struct, frozen=True):
    """Arguments of one plugin of a profile."""

    name: str
    args: dict[str, Any] = {}


class ProfileConfiguration(Struct, frozen=True):
    """One profile: pods with this schedulerName are decided by these plugins."""

    scheduler_name: str = SCHEDULER_NAME
    plugins: Points = Points()
    plugin_config: tuple[PluginArgs, ...] = ()


class Inventory(Struct, frozen=True):
    """Where the cards come from: `prometheus` (its URL and series selector) or `file`."""

    source: str = "prometheus"
    url: str = "http://prometheus-k8s.monitoring:9090"
    selector: str = 'job="kubeshare-collector"'
    path: str = ""
    interval_seconds: float = 5.0
    bearer_token_file: str = ""
    ca_file: str = ""


class Server(Struct, frozen=True):
    """The read-only state endpoint: address, certificate, and the file of accepted tokens."""

    bind_address: str = "0.0.0.0"
    port: int = 10259
    service: str = "kubeshare-scheduler"
    certificate_file: str = ""
    key_file: str = ""
    token_file: str = ""


class SchedulerConfiguration(Struct, frozen=True):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = KIND
    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)
    inventory: Inventory = Inventory()
    server: Server = Server()
    parallel_binds: int = 32
    lease_namespace: str = "kube-system"
    lease_name: str = "kubeshare-scheduler"


@runtime_checkable
class _Any(Protocol):
    name: str


_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "pre_enqueue": (),
    "queue_sort": ("PrioritySort",),
    "filter": ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeResourcesFit"),
    "card_filter": ("GpuFit", "GpuModel"),
    "score": ("BinPack", "AvoidGpuNodes"),
    "card_score": ("BinPack",),
    "permit": (),
    "reserve": (),
}
_PROTOCOLS: Mapping[str, type] = {
    "pre_enqueue": PreEnqueue,
    "queue_sort": QueueSort,
    "filter": Filter,
    "card_filter": CardFilter,
    "score": Score,
    "card_score": CardScore,
    "permit": Permit,
    "reserve": Reserve,
}


def read(document: object) -> SchedulerConfiguration:
    """Check a parsed YAML document.

    Raises ConfigurationError naming the path of the first bad field.
    """
    try:
        configuration = msgspec.convert(document or {}, SchedulerConfiguration)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        raise ConfigurationError(
            f"{path.rstrip('`').lstrip('$.') or 'document'}: {text}"
        ) from error
    for field, wanted in (("api_version", API_VERSION), ("kind", KIND)):
        if getattr(configuration, field) != wanted:
            camel = "apiVersion" if field == "api_version" else field
            raise ConfigurationError(f"{camel}: must be {wanted}")
    if configuration.inventory.source not in ("prometheus", "file"):
        raise ConfigurationError("inventory.source: must be prometheus or file")
    if configuration.inventory.source == "file" and not configuration.inventory.path:
        raise ConfigurationError("inventory.path: must name the file when source is file")
    names = [profile.scheduler_name for profile in configuration.profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigurationError(f"profiles[{index}].schedulerName: {name} is there twice")
    return configuration


def profiles(
    configuration: SchedulerConfiguration, factories: Mapping[str, PluginFactory]
) -> tuple[Profile, ...]:
    """Make the plugins of each profile.

    Raises ConfigurationError naming the path: unknown plugin, plugin that does not implement the
    point, bad arguments, no or two queue sorts.
    """
    return tuple(
        _profile(f"profiles[{index}]", profile, factories)
        for index, profile in enumerate(configuration.profiles)
    )


def effective(configuration: SchedulerConfiguration) -> dict[str, Any]:
    """The configuration with every default filled in, as plain data for printing."""
    plain = msgspec.to_builtins(configuration)
    assert isinstance(plain, dict)
    for listed, profile in zip(plain["profiles"], configuration.profiles, strict=True):
        listed["plugins"] = {
            msgspec.structs.fields(Points)[number].encode_name: {
                "enabled": [msgspec.to_builtins(named) for named in _enabled(profile, point)]
            }
            for number, point in enumerate(_DEFAULTS)
        }
    return plain


def _enabled(profile: ProfileConfiguration, point: str) -> list[Named]:
    changes: Point = getattr(profile.plugins, point)
    off = {named.name for named in changes.disabled}
    replaced = {named.name for named in changes.enabled}
    defaults = [] if "*" in off else [Named(name) for name in _DEFAULTS[point]]
    kept = [named for named in defaults if named.name not in off | replaced]
    return [*kept, *changes.enabled]


def _profile(
    path: str, profile: ProfileConfiguration, factories: Mapping[str, PluginFactory]
) -> Profile:
    arguments = {entry.name: entry.args for entry in profile.plugin_config}
    made: dict[str, object] = {}

    def plugins(point: str) -> Iterable[tuple[Any, int]]:
        for index, named in enumerate(_enabled(profile, point)):
            where = f"{path}.plugins.{_camel(point)}.enabled[{index}]"
            if named.name not in factories:
                known = ", ".join(sorted(factories))
                raise ConfigurationError(f"{where}.name: no plugin {named.name}; there are {known}")
            if named.weight < 1:
                raise ConfigurationError(f"{where}.weight: must be at least 1")
            if named.name not in made:
                made[named.name] = _make(path, named.name, factories, arguments)
            plugin = made[named.name]
            if not isinstance(plugin, _PROTOCOLS[point]):
                raise ConfigurationError(f"{where}.name: {named.name} is no {_camel(point)} plugin")
            yield plugin, named.weight

    sorts = list(plugins("queue_sort"))
    if len(sorts) != 1:
        raise ConfigurationError(f"{path}.plugins.queueSort: exactly one plugin, not {len(sorts)}")
    result = Profile(
        scheduler_name=profile.scheduler_name,
        queue_sort=sorts[0][0],
        pre_enqueue=[plugin for plugin, _ in plugins("pre_enqueue")],
        filters=[plugin for plugin, _ in plugins("filter")],
        card_filters=[plugin for plugin, _ in plugins("card_filter")],
        card_scores=list(plugins("card_score")),
        scores=list(plugins("score")),
        permits=[plugin for plugin, _ in plugins("permit")],
        reserves=[plugin for plugin, _ in plugins("reserve")],
    )
    for index, entry in enumerate(profile.plugin_config):
        if entry.name not in made:
            raise ConfigurationError(
                f"{path}.pluginConfig[{index}].name: {entry.name} is not enabled"
            )
    return result


def _make(
    path: str,
    name: str,
    factories: Mapping[str, PluginFactory],
    arguments: Mapping[str, Mapping[str, Any]],
) -> object:
    try:
        return factories[name](**arguments.get(name, {}))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{path}.pluginConfig[{name}].args: {error}") from error


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
