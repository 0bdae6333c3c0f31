"""Configuration files: shaped like KubeSchedulerConfiguration, typed, every error with its path.

`plugins.<point>` lists what runs at that point, in order. A point that is left out gets the default
profile's plugins; `disabled: [{name: "*"}]` clears them first, as in kube-scheduler.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kubeshare_py.domain.gpu_capacities import Capacities
from kubeshare_py.domain.gpu_models import name_part
from kubeshare_py.domain.isolation import IsolationBackend, IsolationChoice
from kubeshare_py.framework.arguments import ArgumentError, located
from kubeshare_py.framework.inventory_settings import Inventory
from kubeshare_py.framework.leader_election import LeaderElection
from kubeshare_py.framework.points import (
    CardFilter,
    CardScore,
    Filter,
    Locality,
    Permit,
    PostFilter,
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


#: Scores are 0…100 and card ranks up to some thousands: with this bound their sums stay far from
#: the limits of the integers that carry them.
MOST_WEIGHT = 10_000


class ConfigurationError(Exception):
    """A configuration cannot be used; the text begins with the path of the field."""


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping of the file: no field may be unknown, so that a typo is an error."""


class Named(Struct, frozen=True):
    """A plugin at a point; only scores have weights."""

    name: str
    weight: Annotated[int, Meta(ge=1, le=MOST_WEIGHT)] = 1


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
    post_filter: Point = Point()
    score: Point = Point()
    card_score: Point = Point()
    locality: Point = Point()
    permit: Point = Point()
    reserve: Point = Point()


class PluginArgs(Struct, frozen=True):
    """Arguments of one plugin of a profile."""

    name: str
    args: dict[str, Any] = {}


class ProfileConfiguration(Struct, frozen=True):
    """One profile: pods with this schedulerName are decided by these plugins."""

    scheduler_name: Annotated[str, Meta(min_length=1)] = SCHEDULER_NAME
    plugins: Points = Points()
    plugin_config: tuple[PluginArgs, ...] = ()
    #: Isolation back-ends; the first is taken by pods that wish none of the others.
    isolation: Annotated[tuple[IsolationBackend, ...], Meta(min_length=1)] = (
        IsolationBackend.NONE,
    )
    #: What cards of which models can do, in any unit; the first name that names a model counts.
    gpu_capacities: dict[str, Annotated[int, Meta(ge=1, le=10**9)]] = {}


class Server(Struct, frozen=True):
    """The read-only state endpoint: address, certificate, and the file of accepted tokens."""

    bind_address: str = "0.0.0.0"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 10259
    service: str = "kubeshare-scheduler"
    certificate_file: str = ""
    key_file: str = ""
    token_file: str = ""

    def address(self, url: str) -> str:
        """Where others ask for it: its Service, and the port of its URL."""
        return f"https:{self.service}:{url.rpartition(':')[2]}"


class SchedulerConfiguration(Struct, frozen=True):
    """The whole file.

    When too few members of a gang could be bound, the others are tried for `gang_repair_seconds`;
    then `gang_repair` says to `release` those that are bound, or only to `report` it.

    The first gang or pod of whole cards that waits gets earmarks after `earmark_seconds`, at 0
    nobody ever does. Evicted pods that are still there after `preemption_patience_seconds` are not
    waited for any longer.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    profiles: Annotated[tuple[ProfileConfiguration, ...], Meta(min_length=1)] = (
        ProfileConfiguration(),
    )
    inventory: Inventory = Inventory()
    server: Server = Server()
    parallel_binds: Annotated[int, Meta(ge=1)] = 32
    leader_election: LeaderElection = LeaderElection()
    gang_repair_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    gang_repair: str = "release"
    earmark_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 60.0
    preemption_patience_seconds: Annotated[float, Meta(ge=1, le=604_800)] = 120.0


#: What a pod says of models goes before all that policies say of equally good ones.
_PREFERENCE = Named("ModelPreference", 2000)

_DEFAULTS: Mapping[str, tuple[Named, ...]] = {
    "pre_enqueue": (),
    "queue_sort": (Named("PrioritySort"),),
    "filter": (
        Named("NodeUnschedulable"),
        Named("TaintToleration"),
        Named("NodeAffinity"),
        Named("NodeResourcesFit"),
    ),
    "card_filter": (Named("GpuFit"), Named("GpuModel"), Named("OneModel"), Named("NumaBinding")),
    "post_filter": (Named("DefaultPreemption"),),
    "score": (Named("BinPack"), Named("AvoidGpuNodes"), Named("Topology", 10), _PREFERENCE),
    "card_score": (Named("BinPack"), Named("Topology"), _PREFERENCE),
    "locality": (Named("Coscheduling"),),
    "permit": (),
    "reserve": (),
}
_PROTOCOLS: Mapping[str, type] = {
    "pre_enqueue": PreEnqueue,
    "queue_sort": QueueSort,
    "filter": Filter,
    "card_filter": CardFilter,
    "post_filter": PostFilter,
    "score": Score,
    "card_score": CardScore,
    "locality": Locality,
    "permit": Permit,
    "reserve": Reserve,
}


def read(document: object) -> SchedulerConfiguration:
    """Check a parsed YAML document.

    Raises ConfigurationError naming the path of the first bad field.
    """
    try:
        configuration = msgspec.convert(
            {} if document is None else document, SchedulerConfiguration
        )
    except msgspec.ValidationError as error:
        raise ConfigurationError(located(str(error))) from error
    for field, wanted in (("api_version", API_VERSION), ("kind", KIND)):
        if getattr(configuration, field) != wanted:
            camel = "apiVersion" if field == "api_version" else field
            raise ConfigurationError(f"{camel}: must be {wanted}")
    if configuration.gang_repair not in ("release", "report"):
        raise ConfigurationError("gangRepair: must be release or report")
    for section, settings in (
        ("inventory", configuration.inventory),
        ("leaderElection", configuration.leader_election),
    ):
        try:
            settings.check()
        except ValueError as error:
            raise ConfigurationError(f"{section}.{error}") from error
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
    point, plugin that is there twice, bad arguments, no or two queue sorts, two localities,
    profiles that sort the queue they share in different ways.
    """
    made = tuple(
        _profile(f"profiles[{index}]", profile, factories)
        for index, profile in enumerate(configuration.profiles)
    )
    sorts = [_queue_sort(profile) for profile in configuration.profiles]
    for index, sort in enumerate(sorts):
        if sort != sorts[0]:
            raise ConfigurationError(
                f"profiles[{index}].plugins.queueSort: all profiles share one queue and must sort "
                f"it alike; profiles[0] has {sorts[0][0]}, with the same args"
            )
    return made


def effective(configuration: SchedulerConfiguration) -> dict[str, Any]:
    """The configuration with every default filled in, as plain data for printing.

    Read again it means the same: each point clears the defaults and lists all that runs.
    """
    plain = msgspec.to_builtins(configuration)
    assert isinstance(plain, dict)
    for listed, profile in zip(plain["profiles"], configuration.profiles, strict=True):
        listed["plugins"] = {
            _camel(point): {
                "enabled": [msgspec.to_builtins(named) for named in _enabled(profile, point)],
                "disabled": [{"name": "*"}],
            }
            for point in _DEFAULTS
        }
    return plain


def _enabled(profile: ProfileConfiguration, point: str) -> list[Named]:
    """What runs at a point: the defaults that stay, then what the file enables, in its order."""
    changes: Point = getattr(profile.plugins, point)
    return [*_kept_defaults(changes, point), *changes.enabled]


def _kept_defaults(changes: Point, point: str) -> list[Named]:
    gone = {named.name for named in (*changes.disabled, *changes.enabled)}
    defaults = () if "*" in gone else _DEFAULTS[point]
    return [named for named in defaults if named.name not in gone]


def _queue_sort(profile: ProfileConfiguration) -> tuple[list[str], list[Any]]:
    names = [named.name for named in _enabled(profile, "queue_sort")]
    return names, [entry.args for entry in profile.plugin_config if entry.name in names]


def _profile(
    path: str, profile: ProfileConfiguration, factories: Mapping[str, PluginFactory]
) -> Profile:
    makers = _Makers(path, profile, factories)
    sorts = list(makers.plugins("queue_sort"))
    if len(sorts) != 1:
        raise ConfigurationError(f"{path}.plugins.queueSort: exactly one plugin, not {len(sorts)}")
    localities = [plugin for plugin, _ in makers.plugins("locality")]
    if len(localities) > 1:
        raise ConfigurationError(
            f"{path}.plugins.locality: at most one plugin, not {len(localities)}"
        )
    result = Profile(
        scheduler_name=profile.scheduler_name,
        queue_sort=sorts[0][0],
        pre_enqueue=[plugin for plugin, _ in makers.plugins("pre_enqueue")],
        filters=[plugin for plugin, _ in makers.plugins("filter")],
        card_filters=[plugin for plugin, _ in makers.plugins("card_filter")],
        post_filters=[plugin for plugin, _ in makers.plugins("post_filter")],
        card_scores=list(makers.plugins("card_score")),
        scores=list(makers.plugins("score")),
        locality=localities[0] if localities else None,
        permits=[plugin for plugin, _ in makers.plugins("permit")],
        reserves=[plugin for plugin, _ in makers.plugins("reserve")],
        isolation=IsolationChoice(profile.isolation),
        capacities=_capacities(f"{path}.gpuCapacities", profile.gpu_capacities),
    )
    makers.check_arguments()
    return result


def _capacities(path: str, given: Mapping[str, int]) -> Capacities:
    parts = {name: name_part(name) for name in given}
    for name, part in parts.items():
        if part is None:
            rule = "must be the name of a model or words of it"
            raise ConfigurationError(f"{path}[{name}]: {rule}")
    return Capacities(tuple((parts[name] or "", amount) for name, amount in given.items()))


class _Makers:
    """Makes each plugin of one profile once, however many points it is enabled at."""

    def __init__(
        self, path: str, profile: ProfileConfiguration, factories: Mapping[str, PluginFactory]
    ) -> None:
        self._path = path
        self._profile = profile
        self._factories = factories
        self._entries: dict[str, int] = {}
        for index, entry in enumerate(profile.plugin_config):
            self._entries.setdefault(entry.name, index)
        self._made: dict[str, object] = {}

    def plugins(self, point: str) -> Iterator[tuple[Any, int]]:
        """The plugins of a point with their weights, in calling order."""
        changes: Point = getattr(self._profile.plugins, point)
        where = f"{self._path}.plugins.{_camel(point)}"
        self._check_names(f"{where}.disabled", changes.disabled)
        self._check_names(f"{where}.enabled", changes.enabled)
        for named in _kept_defaults(changes, point):
            yield self._plugin(where, named.name, point), named.weight
        for index, named in enumerate(changes.enabled):
            yield self._plugin(f"{where}.enabled[{index}].name", named.name, point), named.weight

    def check_arguments(self) -> None:
        """Arguments are for plugins that run, once each."""
        for index, entry in enumerate(self._profile.plugin_config):
            where = f"{self._path}.pluginConfig[{index}].name"
            if self._entries[entry.name] != index:
                raise ConfigurationError(f"{where}: {entry.name} is there twice")
            if entry.name not in self._made:
                raise ConfigurationError(f"{where}: {entry.name} is not enabled")

    def _check_names(self, where: str, listed: Iterable[Named]) -> None:
        seen: set[str] = set()
        for index, named in enumerate(listed):
            if named.name != "*":
                self._check_known(f"{where}[{index}].name", named.name)
            if named.name in seen:
                raise ConfigurationError(f"{where}[{index}].name: {named.name} is there twice")
            seen.add(named.name)

    def _check_known(self, where: str, name: str) -> None:
        if name not in self._factories:
            known = ", ".join(sorted(self._factories))
            raise ConfigurationError(f"{where}: no plugin {name}; there are {known}")

    def _plugin(self, where: str, name: str, point: str) -> object:
        self._check_known(where, name)
        if name not in self._made:
            self._made[name] = self._make(name)
        plugin = self._made[name]
        if not isinstance(plugin, _PROTOCOLS[point]):
            raise ConfigurationError(f"{where}: {name} is no {_camel(point)} plugin")
        return plugin

    def _make(self, name: str) -> object:
        index = self._entries.get(name)
        entry = self._profile.plugin_config[index] if index is not None else PluginArgs(name)
        try:
            return self._factories[name](**entry.args)
        except ArgumentError as error:
            where = f"{self._path}.pluginConfig[{index}].args"
            raise ConfigurationError(f"{where}.{error}") from error
        except (TypeError, ValueError) as error:
            where = f"[{index}].args" if index is not None else f": {name} without args"
            raise ConfigurationError(f"{self._path}.pluginConfig{where}: {error}") from error


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
