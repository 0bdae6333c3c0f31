"""Makes the profiles of a configuration, with their plugins; errors name their path.

A profile may lack plugins of the default one: `warnings` says what it does not check then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any, TypeVar

import msgspec

from kubeshare_py.configuration.fields import explained
from kubeshare_py.configuration.scheduler import (
    OF_KUBE_SCHEDULER,
    ConfigurationError,
    EnabledPlugin,
    PluginArgs,
    Point,
    ProfileConfiguration,
    SchedulerConfiguration,
    camel,
    kept_defaults,
)
from kubeshare_py.domain.card_reading import IsolationChoice
from kubeshare_py.domain.gpu import name_part
from kubeshare_py.domain.gpu_capacities import Capacities
from kubeshare_py.framework.boundary import PLUGIN_ERRORS, in_words, name_of
from kubeshare_py.framework.points import (
    CardFilter,
    CardScore,
    Filter,
    Ground,
    Locality,
    Permit,
    PostFilter,
    PreBind,
    PreEnqueue,
    QueueSort,
    Reserve,
    Score,
)
from kubeshare_py.framework.scheduler_profile import Profile, unguarded

# Typed reading of a plugin's `args`; every error names its path.


T = TypeVar("T")
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class ArgumentError(ValueError):
    """A plugin's argument cannot be used; the text begins with its path within `args`."""


def checked(value: object, kind: type[T], path: str) -> T:
    """Convert the argument at this path to a msgspec type.

    Raises ArgumentError.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inner, _, text = explained(str(error), value, kind).partition(": ")
        within = "" if inner == "document" else f".{inner}".replace(".[", "[")
        raise ArgumentError(f"{path}{within}: {text}") from error


def names_taken(factory: Callable[..., object]) -> tuple[str, ...] | None:
    """The arguments of a factory by name; None if it takes any, or does not say."""
    try:
        taken = signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is Parameter.VAR_KEYWORD for one in taken):
        return None
    return tuple(one.name for one in taken if one.kind in _BY_NAME)


#: Makes a plugin from the `args` of its pluginConfig entry, passed as keywords.
PluginFactory = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Trusted:
    """A factory of plugins whose answers are not checked, because this project tests them."""

    factory: PluginFactory

    def __call__(self, **args: Any) -> object:
        """Make the plugin."""
        return self.factory(**args)


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
    "pre_bind": PreBind,
}


def _members(protocol: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of its methods and of its values."""
    methods = tuple(name for name in vars(protocol) if not name.startswith("_"))
    return methods, tuple(protocol.__annotations__)


#: What isinstance() looks for in a plugin; it would collect the names anew for each plugin and
#: point, which takes longer than all else that makes a profile.
_MEMBERS = {point: _members(protocol) for point, protocol in _PROTOCOLS.items()}
_GROUNDS = {
    Ground.NODE: "no filter looks at what is free on nodes (NodeResourcesFit does)",
    Ground.CARDS: "no cardFilter looks at what is free on GPUs (GpuFit does)",
}
#: The fields that name the type of arguments: `kind: NodeResourcesFitArgs`.
_TYPE = ("apiVersion", "kind")
_CHECKED_ANYHOW = "the ledger refuses what does not fit, with less to say about why"

#: What an extender of kube-scheduler cannot do, for the log of each start.
NOT_BY_EXTENDER = (
    "kube-scheduler decides, with an extender: no gangs, no preemption for the sake of cards, "
    "no reservations"
)

#: What is ignored without the plugin.
_IGNORED: Mapping[str, str] = {
    "NodeUnschedulable": "pods go to cordoned nodes",
    "TaintToleration": "pods go to nodes with taints that they do not tolerate",
    "NodeAffinity": "nodeSelector and node affinity are ignored",
    "PodPolicy": "policies of pods themselves (as of `hami`) are ignored",
    "DialectNodes": "labels by which nodes refuse pods of a dialect (as `gpushare`) are ignored",
    "NodeDeclaredFeatures": "features that pods need of nodes are ignored",
    "NodePorts": "host ports are ignored, and kubelets refuse pods whose ports are taken",
    "PodTopologySpread": "topology spread constraints are ignored",
    "InterPodAffinity": "pod affinity and anti-affinity are ignored",
    "VolumeBinding": "volumes are not bound to claims, and the nodes that they allow are ignored",
    "VolumeZone": "the zones of volumes are ignored",
    "VolumeRestrictions": "several pods may get a claim or disk that is for one",
    "NodeVolumeLimits": "nodes may get more volumes than their CSI drivers attach",
    "DynamicResources": "pods with ResourceClaims wait",
    "GpuModel": "the GPU models that pods ask for are ignored",
    "GpuUuids": "the UUIDs of GPUs that pods name or deny are ignored",
    "GpuNames": "pods that name a GPU of another node get one of the same name",
    "GpuTags": "affinity and anti-affinity tags of GPUs are ignored",
    "OneModel": "pods that ask for GPUs of one model may get several",
    "NumaBinding": "pods that ask for GPUs near one NUMA node may get others",
}


def profiles(
    configuration: SchedulerConfiguration, factories: Mapping[str, PluginFactory]
) -> tuple[Profile, ...]:
    """Make the plugins of each profile.

    Raises ConfigurationError, naming the path, for: an unknown plugin, a plugin that does not
    implement its point, a plugin listed twice, bad arguments, no queue sort or two, two localities,
    and profiles that sort their common queue in different ways.
    """
    made = tuple(
        _profile(f"profiles[{index}]", profile, factories)
        for index, profile in enumerate(configuration.profiles)
    )
    sorts = [sort for _, sort in made]
    for index, sort in enumerate(sorts):
        if sort != sorts[0]:
            raise ConfigurationError(
                f"profiles[{index}].plugins.queueSort: all profiles share one queue and must sort "
                f"it alike; profiles[0] has {sorts[0].name}, with the same args"
            )
    return tuple(profile for profile, _ in made)


def _profile(
    path: str, profile: ProfileConfiguration, factories: Mapping[str, PluginFactory]
) -> tuple[Profile, PluginArgs]:
    """The profile, and how it sorts the queue."""
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
        pre_binds=[plugin for plugin, _ in makers.plugins("pre_bind")],
        isolation=IsolationChoice(profile.isolation),
        capacities=_capacities(f"{path}.gpuCapacities", profile.gpu_capacities),
        extender=profile.extender,
    )
    makers.check_arguments()
    reads_namespace, reads_labels = _reads_of_pods(path, makers.made)
    in_tree = [made for name, made in makers.made.items() if isinstance(factories[name], Trusted)]
    spreading = (getattr(plugin, "default_spread", ()) for plugin in in_tree)
    ignoring = (getattr(plugin, "ignores_resource", None) for plugin in in_tree)
    result = replace(
        result,
        trusted=frozenset(map(id, in_tree)),
        only_for={id(one): names for one in in_tree if (names := getattr(one, "only_for", ()))},
        reads_images=any(getattr(plugin, "reads_images", False) for plugin in in_tree),
        reads_namespace=reads_namespace,
        reads_labels=reads_labels,
        default_spread=next(filter(None, spreading), ()),
        ignores_resource=next((found for found in ignoring if found is not None), None),
    )
    return result, makers.entry_of(sorts[0][0])


def _reads_of_pods(path: str, made: Mapping[str, object]) -> tuple[bool, frozenset[str]]:
    """What plugins declare that they read of pods: `reads_namespace`, and keys `reads_labels`."""
    keys: set[str] = set()
    reads_namespace = False
    for name, plugin in made.items():
        declared = getattr(plugin, "reads_labels", ())
        reads = getattr(plugin, "reads_namespace", False)
        is_list = isinstance(declared, tuple | list | frozenset | set)
        if not is_list or not all(isinstance(key, str) and key for key in declared):
            rule = "reads_labels must be keys of labels, as a tuple"
            raise ConfigurationError(f"{path}: plugin {name}: {rule}")
        if not isinstance(reads, bool):
            raise ConfigurationError(f"{path}: plugin {name}: reads_namespace must be a bool")
        keys.update(declared)
        reads_namespace |= reads
    return reads_namespace, frozenset(keys)


def _capacities(path: str, given: Mapping[str, int]) -> Capacities:
    parts = {name: name_part(name) for name in given}
    for name, part in parts.items():
        if part is None:
            rule = "must be the name of a model or words of it"
            raise ConfigurationError(f"{path}[{name}]: {rule}")
    return Capacities(tuple((parts[name] or "", amount) for name, amount in given.items()))


class _Makers:
    """Makes each plugin of one profile once, even if it is enabled at several points."""

    def __init__(
        self, path: str, profile: ProfileConfiguration, factories: Mapping[str, PluginFactory]
    ) -> None:
        self._path = path
        self._profile = profile
        self._factories = factories
        self._entries: dict[str, int] = {}
        for index, entry in enumerate(profile.plugin_config):
            self._entries.setdefault(entry.name, index)
        self.made: dict[str, object] = {}
        self._everywhere = list(self._plugins_everywhere(profile.plugins.multi_point))

    def plugins(self, point: str) -> Iterator[tuple[Any, int]]:
        """The plugins of a point with their weights, in calling order."""
        changes: Point = getattr(self._profile.plugins, point)
        where = f"{self._path}.plugins.{camel(point)}"
        self._check_names(where, changes)
        for named in kept_defaults(self._profile, point):
            yield self._plugin(where, named.name, point), named.weight
        for index, named in enumerate(changes.enabled):
            yield self._plugin(f"{where}.enabled[{index}].name", named.name, point), named.weight
        here = {named.name for named in (*changes.enabled, *changes.disabled)}
        for plugin, named in self._everywhere:
            if named.name not in here and _implements(plugin, point):
                yield plugin, named.weight

    def entry_of(self, plugin: object) -> PluginArgs:
        """The name by which the profile enables a plugin, and its arguments."""
        name = next(name for name, made in self.made.items() if made is plugin)
        return self._entry(name)

    def check_arguments(self) -> None:
        """Raises ConfigurationError for arguments given twice, or to a plugin not enabled."""
        for index, entry in enumerate(self._profile.plugin_config):
            where = f"{self._path}.pluginConfig[{index}].name"
            if self._entries[entry.name] != index:
                raise ConfigurationError(f"{where}: {entry.name} is there twice")
            if entry.name not in self.made:
                raise ConfigurationError(f"{where}: {entry.name} is not enabled")

    def _plugins_everywhere(self, multi: Point) -> Iterator[tuple[object, EnabledPlugin]]:
        where = f"{self._path}.plugins.multiPoint"
        self._check_names(where, multi)
        for index, named in enumerate(multi.enabled):
            plugin = self._made(named.name)
            if not any(_implements(plugin, point) for point in _PROTOCOLS):
                place = f"{where}.enabled[{index}].name"
                raise ConfigurationError(f"{place}: {named.name} is a plugin of no point")
            yield plugin, named

    def _check_names(self, where: str, changes: Point) -> None:
        for part, listed in (("disabled", changes.disabled), ("enabled", changes.enabled)):
            seen: set[str] = set()
            for index, named in enumerate(listed):
                place = f"{where}.{part}[{index}].name"
                if named.name != "*":
                    self._check_known(place, named.name)
                if named.name in seen:
                    raise ConfigurationError(f"{place}: {named.name} is there twice")
                seen.add(named.name)

    def _check_known(self, where: str, name: str) -> None:
        if name not in self._factories:
            known = ", ".join(sorted(self._factories))
            raise ConfigurationError(f"{where}: no plugin {name}; there are {known}")

    def _plugin(self, where: str, name: str, point: str) -> object:
        self._check_known(where, name)
        plugin = self._made(name)
        if not _implements(plugin, point):
            raise ConfigurationError(f"{where}: {name} is no {camel(point)} plugin")
        return plugin

    def _made(self, name: str) -> object:
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def _entry(self, name: str) -> PluginArgs:
        index = self._entries.get(name)
        return PluginArgs(name) if index is None else self._profile.plugin_config[index]

    def _make(self, name: str) -> object:
        index = self._entries.get(name)
        try:
            return _made_from(self._factories[name], self._entry(name))
        except ArgumentError as error:
            where = f"{self._path}.pluginConfig[{index}].args"
            raise ConfigurationError(f"{where}.{error}") from error
        except PLUGIN_ERRORS as error:
            # The constructor is the plugin's: anything may go wrong there.
            text = str(error) if isinstance(error, TypeError | ValueError) else in_words(error)
            where = f"[{index}].args" if index is not None else f": {name} without args"
            raise ConfigurationError(f"{self._path}.pluginConfig{where}: {text}") from error


def _made_from(factory: PluginFactory, entry: PluginArgs) -> object:
    """A plugin from its arguments, without the type that kube-scheduler's files may give them."""
    args, expected = entry.args, f"{entry.name}Args"
    if args.get("kind", expected) == expected:
        args = {name: value for name, value in args.items() if name not in _TYPE}
    # To find out what a factory takes costs more than most plugins.
    taken = (
        names_taken(factory.factory if isinstance(factory, Trusted) else factory) if args else ()
    )
    unknown = [] if taken is None else [name for name in args if name not in taken]
    if "kind" in unknown:
        raise ArgumentError(f"kind: must be {expected}, not {args['kind']!r}")
    if unknown:
        known = ", ".join(taken or ()) or "none"
        raise ArgumentError(f"{unknown[0]}: no such argument; there are {known}")
    return factory(**args)


def _implements(plugin: object, point: str) -> bool:
    methods, values = _MEMBERS[point]
    try:
        return (
            isinstance(getattr(plugin, "name", None), str)
            and all(getattr(plugin, name, None) is not None for name in methods)
            and all(hasattr(plugin, name) for name in values)
        )
    except Exception:  # noqa: BLE001 - the plugin's attributes may be properties that raise
        return False


_OPPOSED = {"BinPack", "Spread"}
OPPOSED = (
    "BinPack and Spread are both enabled: one scores what is in use, the other what is free, and "
    "what counts is the difference of their weights"
)


def warnings(profiles: Sequence[Profile]) -> Iterator[str]:
    """One line for each warning, with the profile's place in the configuration."""
    for index, profile in enumerate(profiles):
        where = f"profiles[{index}] ({profile.scheduler_name})"
        if profile.extender:
            yield f"{where}: {NOT_BY_EXTENDER}"
        for scores in (profile.scores, profile.card_scores):
            if {name_of(plugin) for plugin, _ in scores} >= _OPPOSED:
                yield f"{where}: {OPPOSED}"
                break
        missing = unguarded(profile)
        for ground, text in _GROUNDS.items():
            if ground in missing and not (profile.extender and ground is Ground.NODE):
                yield f"{where}: {text}: {_CHECKED_ANYHOW}"
        names = {name_of(plugin) for plugin in (*profile.filters, *profile.card_filters)}
        for name, effect in _IGNORED.items():
            if name not in names and not (profile.extender and name in OF_KUBE_SCHEDULER):
                yield f"{where}: without {name}, or a plugin in its place, {effect}"
