"""kube-scheduler's configuration file as a configuration of this scheduler.

What has a counterpart is used. What has none is named with its path in a warning, and is an error
where ignoring it would change where pods may go. docs/from-kube-scheduler.md lists all of it.
"""

import dataclasses
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from kubeshare_py.configuration.fields import explained
from kubeshare_py.configuration.leader_election import Duration, LeaderElection
from kubeshare_py.configuration.scheduler import (
    MAX_WEIGHT,
    ClientConnection,
    ConfigurationError,
    ConfigurationStruct,
    EnabledPlugin,
    PluginArgs,
    Point,
    Points,
    ProfileConfiguration,
    SchedulerConfiguration,
    checked,
    default_plugins,
)

# The fields of a KubeSchedulerConfiguration, kubescheduler.config.k8s.io/v1.
#
# https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/ lists them; a field that
# is not there is an error, as in kube-scheduler's strict decoding.


KUBE_API_VERSION = "kubescheduler.config.k8s.io/v1"
KUBE_KIND = "KubeSchedulerConfiguration"

_Percentage = Annotated[int, Meta(ge=0, le=100)]
_Seconds = Annotated[int, Meta(ge=1, le=86_400)]


class KubePlugin(ConfigurationStruct, frozen=True):
    """A plugin in a set; a weight of 0 is 1, as in kube-scheduler."""

    name: str
    weight: Annotated[int, Meta(ge=0, le=MAX_WEIGHT)] = 1


class KubePluginSet(ConfigurationStruct, frozen=True):
    """What is enabled beside kube-scheduler's defaults, and what is disabled of them."""

    enabled: tuple[KubePlugin, ...] = ()
    disabled: tuple[KubePlugin, ...] = ()

    def is_disabled(self, name: str) -> bool:
        """Whether the set disables this plugin and does not enable it again."""
        off = {one.name for one in self.disabled}
        return bool({name, "*"} & off) and all(one.name != name for one in self.enabled)


class KubePlugins(ConfigurationStruct, frozen=True):
    """The extension points of kube-scheduler."""

    multi_point: KubePluginSet = KubePluginSet()
    pre_enqueue: KubePluginSet = KubePluginSet()
    queue_sort: KubePluginSet = KubePluginSet()
    pre_filter: KubePluginSet = KubePluginSet()
    filter: KubePluginSet = KubePluginSet()
    post_filter: KubePluginSet = KubePluginSet()
    pre_score: KubePluginSet = KubePluginSet()
    score: KubePluginSet = KubePluginSet()
    reserve: KubePluginSet = KubePluginSet()
    permit: KubePluginSet = KubePluginSet()
    pre_bind: KubePluginSet = KubePluginSet()
    bind: KubePluginSet = KubePluginSet()
    post_bind: KubePluginSet = KubePluginSet()
    placement_generate: KubePluginSet = KubePluginSet()
    placement_score: KubePluginSet = KubePluginSet()

    def sets(self) -> Iterator[tuple[str, str, KubePluginSet]]:
        """Each point: our name of the field, the file's name of it, and its set."""
        fields = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        for name, camel in fields:
            yield name, camel, getattr(self, name)


class KubeProfile(ConfigurationStruct, frozen=True):
    """One profile."""

    scheduler_name: Annotated[str, Meta(min_length=1)] | msgspec.UnsetType = msgspec.UNSET
    percentage_of_nodes_to_score: _Percentage | msgspec.UnsetType = msgspec.UNSET
    plugins: KubePlugins = KubePlugins()
    plugin_config: tuple[PluginArgs, ...] = ()


class KubeLeaderElection(ConfigurationStruct, frozen=True):
    """component-base's LeaderElectionConfiguration; what is left out has our defaults."""

    leader_elect: bool | msgspec.UnsetType = msgspec.UNSET
    lease_duration: Duration | msgspec.UnsetType = msgspec.UNSET
    renew_deadline: Duration | msgspec.UnsetType = msgspec.UNSET
    retry_period: Duration | msgspec.UnsetType = msgspec.UNSET
    resource_lock: str = "leases"
    resource_name: str | msgspec.UnsetType = msgspec.UNSET
    resource_namespace: str | msgspec.UnsetType = msgspec.UNSET


class KubeClientConnection(ConfigurationStruct, frozen=True):
    """component-base's ClientConnectionConfiguration."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float | msgspec.UnsetType = msgspec.UNSET
    burst: int | msgspec.UnsetType = msgspec.UNSET


class KubeExtender(ConfigurationStruct, frozen=True):
    """An HTTP extender; only what it decides is read."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    score_verb: str = msgspec.field(name="prioritizeVerb", default="")
    bind_verb: str = ""
    managed_resources: tuple[dict[str, Any], ...] = ()
    weight: Any = None
    enable_https: Any = msgspec.field(name="enableHTTPS", default=None)
    tls_config: Any = None
    http_timeout: Any = None
    node_cache_capable: Any = None
    ignorable: Any = None

    def decides(self) -> Iterator[str]:
        """The fields by which it decides where pods may go."""
        if any(resource.get("ignoredByScheduler") for resource in self.managed_resources):
            yield "managedResources"
        for field, verb in (
            ("filterVerb", self.filter_verb),
            ("preemptVerb", self.preempt_verb),
            ("bindVerb", self.bind_verb),
        ):
            if verb:
                yield field


class KubeSchedulerFile(ConfigurationStruct, frozen=True):
    """The whole file."""

    api_version: str
    kind: str
    parallelism: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    leader_election: KubeLeaderElection = KubeLeaderElection()
    client_connection: KubeClientConnection = KubeClientConnection()
    enable_profiling: bool = False
    enable_contention_profiling: bool = False
    percentage_of_nodes_to_score: _Percentage | msgspec.UnsetType = msgspec.UNSET
    pod_initial_backoff_seconds: _Seconds = 1
    pod_max_backoff_seconds: _Seconds = 10
    profiles: tuple[KubeProfile, ...] = ()
    extenders: tuple[KubeExtender, ...] = ()
    delay_cache_until_active: bool = False


# A profile of kube-scheduler as a profile of this scheduler; what is left out is named.
#
# kube-scheduler's plugins keep their names, points and weights. This project's plugins for GPUs
# stay, unless the file disables them by name: `*` stands for kube-scheduler's plugins.


#: The names that a profile may enable; None if plugins are not made from it.
KnownPlugins = Container[str] | None

#: kube-scheduler's default plugins and their weights in 1.36, in its order
#: (pkg/scheduler/apis/config/v1/default_plugins.go).
KUBE_DEFAULTS = (
    *(KubePlugin("SchedulingGates"), KubePlugin("PrioritySort"), KubePlugin("NodeUnschedulable")),
    *(KubePlugin("NodeName"), KubePlugin("TaintToleration", 3), KubePlugin("NodeAffinity", 2)),
    *(KubePlugin("NodePorts"), KubePlugin("NodeResourcesFit"), KubePlugin("VolumeRestrictions")),
    *(KubePlugin("NodeVolumeLimits"), KubePlugin("VolumeBinding"), KubePlugin("VolumeZone")),
    *(KubePlugin("PodTopologySpread", 2), KubePlugin("InterPodAffinity", 2)),
    *(KubePlugin("DynamicResources", 2), KubePlugin("DefaultPreemption")),
    *(KubePlugin("NodeResourcesBalancedAllocation"), KubePlugin("ImageLocality")),
    *(KubePlugin("DefaultBinder"), KubePlugin("NodeDeclaredFeatures")),
)

#: Plugins of kube-scheduler whose work no plugin does here, and what does it.
_BUILT_IN: Mapping[str, str] = {
    "DefaultBinder": "the scheduler itself sends Bindings",
    "NodeName": "a pod that names its node is bound, and never waits",
    "SchedulingGates": "the scheduler itself keeps pods with gates out of the queue",
    "GangScheduling": "the scheduler itself plans gangs",
    "TopologyPlacementGenerator": "the plugin Coscheduling chooses the domain of a gang",
    "PodGroupPodsCount": "the plugin Coscheduling chooses the domain of a gang",
}
#: Points that exist within others here.
_WITHIN: Mapping[str, str] = {
    "pre_filter": "filters prepare when they are asked",
    "pre_score": "scores prepare when they are asked",
    "bind": "the scheduler itself sends Bindings",
    "post_bind": "there is no such point",
    "placement_generate": "the plugin Coscheduling chooses the domain of a gang",
    "placement_score": "the plugin Coscheduling chooses the domain of a gang",
}
#: Points at which plugins of kube-scheduler may have no work of their own here.
_BY_PLUGIN = frozenset({"pre_enqueue", "reserve", "permit", "pre_bind"})
#: Points whose plugins decide neither which nodes a pod may go to, nor in which order.
_HARMLESS = frozenset({"pre_score", "score", "post_filter", "post_bind", "placement_score"})

_SEARCHED = "up to 512 nodes are searched for victims"
#: Arguments of plugins that are read and have no effect, and what is done instead.
_WITHOUT_EFFECT: Mapping[str, Mapping[str, str]] = {
    "DefaultPreemption": {
        "minCandidateNodesPercentage": _SEARCHED,
        "minCandidateNodesAbsolute": _SEARCHED,
    },
    "DynamicResources": {
        "filterTimeout": "the steps of a search for devices are limited, not its time",
        "bindingTimeout": "devices with bindingConditions are not allocated",
    },
}
#: Plugins that do not take these arguments.
_NOT_PASSED_TO = frozenset({"DynamicResources"})
#: From this likeness on, a name is taken for a misspelt one.
_ALIKE = 0.8
#: Arguments whose default is another one in this scheduler's own configuration.
_DEFAULT_ARGS: Mapping[str, Mapping[str, Any]] = {
    "PodTopologySpread": {"defaultingType": "System"},
}

#: Policies of the default profile that kube-scheduler's scores replace. BinPack stays for pods with
#: GPUs, with more weight than the scores of cpu and memory.
_REPLACED = frozenset({"AvoidGpuNodes", "BinPack"})
_BIN_PACK = EnabledPlugin("BinPack", 2)
_BIN_PACK_ARGS = PluginArgs("BinPack", {"pods": "WithGpus"})
_ALL = "*"


@dataclass(frozen=True, slots=True)
class ProfileReading:
    """Reads the profile at a path; `warn` gets a sentence for everything that is ignored."""

    path: str
    known: KnownPlugins
    warn: Callable[[str], object]
    _kube: frozenset[str] = dataclasses.field(default=frozenset(one.name for one in KUBE_DEFAULTS))

    def profile(self, name: str, given: KubeProfile) -> ProfileConfiguration:
        """The profile of this schedulerName.

        Raises ConfigurationError for a plugin that this scheduler lacks, where ignoring it would
        change where pods may go.
        """
        multi = self._multi_point(given.plugins.multi_point)
        alone = self._listed_alone(given.plugins, {one.name for one in multi})
        multi = (*multi, *(EnabledPlugin(one) for one in alone))
        points = {"multi_point": Point(multi)}
        for point, camel, plugins in given.plugins.sets():
            if point in _WITHIN:
                self._check_within(point, camel, plugins)
            elif point != "multi_point":
                points[point] = self._point(point, camel, given.plugins, multi, alone)
        for point in set(Points.__struct_fields__) - set(points):
            off = given.plugins.multi_point.disabled
            defaults = {one.name for one in default_plugins(point)}
            points[point] = Point((), _disabled(one.name for one in off if one.name in defaults))
        plugins_of = Points(**points)
        return ProfileConfiguration(
            name, plugins_of, tuple(self._arguments(given, _listed(plugins_of)))
        )

    def _multi_point(self, custom: KubePluginSet) -> tuple[EnabledPlugin, ...]:
        """kube-scheduler's defaults and the file's plugins; ours that its scores replace are not.

        A plugin that the file names anew keeps its place among the defaults.
        """
        where = f"{self.path}.plugins.multiPoint"
        self._name_disabled(where, custom)
        off = {one.name for one in custom.disabled}
        anew = {one.name: one for one in custom.enabled}
        defaults = [anew.get(one.name, one) for one in KUBE_DEFAULTS if not {_ALL, one.name} & off]
        for one in defaults:
            if not self._is_known(one.name) and one.name not in (*_BUILT_IN, *anew):
                self.warn(f"{where}: {one.name}, a default of kube-scheduler, does not exist here")
        kept = {one.name for one in defaults}
        usable = set(self._usable(where, "multi_point", custom.enabled))
        return (
            *(_weighed(one) for one in defaults if self._is_known(one.name)),
            *(_weighed(one) for one in custom.enabled if one in usable and one.name not in kept),
        )

    def _listed_alone(self, plugins: KubePlugins, multi: Container[str]) -> list[str]:
        """kube-scheduler's plugins that the file lists at single points only, in its order."""
        found: dict[str, None] = {}
        for point, _, given in plugins.sets():
            if point in _BY_PLUGIN:
                names = (one.name for one in given.enabled if self._is_known(one.name))
                found |= dict.fromkeys(
                    name for name in names if name in self._kube and name not in multi
                )
        return list(found)

    def _point(
        self,
        point: str,
        camel: str,
        plugins: KubePlugins,
        multi: Iterable[EnabledPlugin],
        alone: Container[str],
    ) -> Point:
        """A point of both schedulers; plugins of `alone` are only at the points that list them."""
        given: KubePluginSet = getattr(plugins, point)
        where = f"{self.path}.plugins.{camel}"
        self._name_disabled(where, given)
        usable = self._usable(where, point, given.enabled)
        if point in _BY_PLUGIN:
            # Whether they do their work at this point here is theirs to say: `multi` has them.
            usable = (one for one in usable if one.name not in self._kube)
        enabled = [_weighed(one) for one in usable]
        named = {one.name for one in (*given.enabled, *given.disabled)}
        named |= {one.name for one in plugins.multi_point.disabled}
        ours = [
            one for one in default_plugins(point) if one.name not in named | self._kube | _REPLACED
        ]
        if point == "score" and _BIN_PACK.name not in named:
            ours.append(_BIN_PACK)
        here = {one.name for one in given.enabled}
        off = (
            one.name
            for one in multi
            if given.is_disabled(one.name) or (one.name in alone and one.name not in here)
        )
        return Point((*enabled, *ours), _disabled((_ALL, *off)))

    def _usable(self, where: str, point: str, listed: Iterable[KubePlugin]) -> Iterator[KubePlugin]:
        """The plugins that exist; the others are named, or raise ConfigurationError."""
        for index, one in enumerate(listed):
            if self._is_known(one.name):
                yield one
            else:
                self._name_lacking(f"{where}.enabled[{index}].name", point, one.name)

    def _name_lacking(self, where: str, point: str, name: str) -> None:
        if name in _BUILT_IN:
            self.warn(f"{where}: {name} is built in: {_BUILT_IN[name]}")
        elif point in _HARMLESS:
            self.warn(f"{where}: no plugin {name} here: it is ignored{_meant(name)}")
        else:
            raise ConfigurationError(
                f"{where}: no plugin {name}, and it may decide where pods go; install it beside the"
                f" scheduler, or remove it{_meant(name)}"
            )

    def _name_disabled(self, where: str, given: KubePluginSet) -> None:
        for index, one in enumerate(given.disabled):
            if one.name == _ALL or self._is_known(one.name):
                continue
            why = _BUILT_IN.get(one.name, "no such plugin here")
            meant = "" if one.name in _BUILT_IN else _meant(one.name)
            self.warn(
                f"{where}.disabled[{index}].name: {one.name} cannot be disabled: {why}{meant}"
            )

    def _check_within(self, point: str, camel: str, given: KubePluginSet) -> None:
        """A point that is part of another one here."""
        where = f"{self.path}.plugins.{camel}"
        for index, one in enumerate(given.enabled):
            place = f"{where}.enabled[{index}].name"
            if self._is_known(one.name):
                self.warn(f"{place}: {one.name} is listed for nothing: {_WITHIN[point]}")
            else:
                self._name_lacking(place, point, one.name)
        if given.disabled:
            self.warn(f"{where}.disabled: is ignored: {_WITHIN[point]}")

    def _arguments(self, given: KubeProfile, listed: Container[str]) -> Iterator[PluginArgs]:
        """The arguments of plugins that are enabled."""
        for index, entry in enumerate(given.plugin_config):
            idle = _WITHOUT_EFFECT.get(entry.name, {})
            for name in sorted(idle.keys() & entry.args.keys()):
                path = f"{self.path}.pluginConfig[{index}].args.{name}"
                self.warn(f"{path}: is ignored: {idle[name]}")
            if entry.name in listed:
                dropped = idle if entry.name in _NOT_PASSED_TO else {}
                args = {name: one for name, one in entry.args.items() if name not in dropped}
                yield PluginArgs(entry.name, {**_DEFAULT_ARGS.get(entry.name, {}), **args})
            else:
                where = f"{self.path}.pluginConfig[{index}]"
                why = "is not enabled" if self._is_known(entry.name) else "does not exist here"
                meant = "" if self._is_known(entry.name) else _meant(entry.name)
                self.warn(f"{where}: {entry.name} {why}: its args are ignored{meant}")
        configured = {entry.name for entry in given.plugin_config}
        if _BIN_PACK.name in listed and _BIN_PACK.name not in configured:
            yield _BIN_PACK_ARGS
        for name in _DEFAULT_ARGS.keys() - configured:
            if name in listed:
                yield PluginArgs(name, dict(_DEFAULT_ARGS[name]))

    def _is_known(self, name: str) -> bool:
        return name not in _BUILT_IN if self.known is None else name in self.known


def _meant(name: str) -> str:
    """The plugin of kube-scheduler that an unknown name may stand for, as a question; else ""."""
    alike = get_close_matches(name, (one.name for one in KUBE_DEFAULTS), n=1, cutoff=_ALIKE)
    return f"; did you mean {alike[0]}?" if alike else ""


def _weighed(one: KubePlugin) -> EnabledPlugin:
    return EnabledPlugin(one.name, one.weight or 1)


def _disabled(names: Iterable[str]) -> tuple[EnabledPlugin, ...]:
    return tuple(EnabledPlugin(name) for name in names)


def _listed(plugins: Points) -> frozenset[str]:
    """The names of all plugins of a profile."""
    names: set[str] = set()
    for point in Points.__struct_fields__:
        changes: Point = getattr(plugins, point)
        gone = {one.name for one in changes.disabled}
        kept = () if point == "multi_point" or _ALL in gone else default_plugins(point)
        names |= {one.name for one in kept} - gone
        names |= {one.name for one in changes.enabled}
    return frozenset(names)


#: The schedulerName of pods that name none, and kube-scheduler's own Lease.
DEFAULT_SCHEDULER, KUBE_LEASE = "default-scheduler", "kube-scheduler"
Warn = Callable[[str], object]


def is_kube_scheduler(document: object) -> bool:
    """Whether a parsed YAML document is a KubeSchedulerConfiguration, of any version."""
    return isinstance(document, dict) and document.get("kind") == KUBE_KIND


def read_kube_scheduler(
    document: object, known: KnownPlugins, warn: Warn
) -> SchedulerConfiguration:
    """The configuration that a KubeSchedulerConfiguration describes.

    `known` has the names of the plugins that profiles may enable. `warn` is called with a sentence
    for each field that has no counterpart.

    Raises ConfigurationError naming the path of the first bad field.
    """
    given = _converted(_without_nulls(document))
    for index, extender in enumerate(given.extenders):
        _check_extender(f"extenders[{index}]", extender, warn)
    for warning in _ignored(given):
        warn(warning)
    return checked(
        SchedulerConfiguration(
            profiles=tuple(_profiles(given.profiles or (KubeProfile(),), known, warn)),
            leader_election=_leader_election(given.leader_election, warn),
            client_connection=ClientConnection(given.client_connection.kubeconfig),
            pod_initial_backoff_seconds=float(given.pod_initial_backoff_seconds),
            pod_max_backoff_seconds=float(given.pod_max_backoff_seconds),
        )
    )


def _converted(document: object) -> KubeSchedulerFile:
    if isinstance(document, dict) and document.get("apiVersion") != KUBE_API_VERSION:
        raise ConfigurationError(f"apiVersion: must be {KUBE_API_VERSION}")
    try:
        return msgspec.convert(document, KubeSchedulerFile)
    except msgspec.ValidationError as error:
        text = explained(str(error), document, KubeSchedulerFile)
        raise ConfigurationError(text) from error


def _without_nulls(value: Any) -> Any:
    """The document without null values, which mean that a field is left out."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def _check_extender(path: str, extender: KubeExtender, warn: Warn) -> None:
    for field in extender.decides():
        raise ConfigurationError(
            f"{path}.{field}: extenders are not called, and this one decides where pods may go;"
            " a plugin can do so"
        )
    warn(f"{path}: extenders are not called: its scores are ignored")


def _ignored(given: KubeSchedulerFile) -> Iterator[str]:
    """What has no counterpart outside of profiles."""
    if given.parallelism is not UNSET:
        yield "parallelism: is ignored: decisions are made by one thread, for all nodes at once"
    if given.percentage_of_nodes_to_score is not UNSET:
        yield "percentageOfNodesToScore: is ignored: all nodes are looked at"
    for field, wanted in (
        ("enableProfiling", given.enable_profiling),
        ("enableContentionProfiling", given.enable_contention_profiling),
    ):
        if wanted:
            yield f"{field}: is ignored: there is no profiling endpoint"
    if given.delay_cache_until_active:
        yield "delayCacheUntilActive: is ignored: replicas that stand by read the cluster too"
    yield from _ignored_of_connection(given.client_connection)


def _ignored_of_connection(given: KubeClientConnection) -> Iterator[str]:
    path = "clientConnection"
    if given.accept_content_types or given.content_type:
        field = "acceptContentTypes" if given.accept_content_types else "contentType"
        yield f"{path}.{field}: is ignored: the API is read and written as JSON"
    if given.qps is not UNSET or given.burst is not UNSET:
        field = "qps" if given.qps is not UNSET else "burst"
        yield f"{path}.{field}: is ignored: requests in flight are limited, not their rate"


def _leader_election(given: KubeLeaderElection, warn: Warn) -> LeaderElection:
    """The election; its Lease has our name unless the file names another."""
    if given.resource_lock != "leases":
        raise ConfigurationError("leaderElection.resourceLock: must be leases")
    if given.resource_name == KUBE_LEASE:
        warn(
            f"leaderElection.resourceName: {KUBE_LEASE} is kube-scheduler's own Lease: while a"
            " kube-scheduler holds it, this scheduler stands by"
        )
    settings = {
        field: value
        for field in LeaderElection.__struct_fields__
        if (value := getattr(given, field)) is not UNSET
    }
    return LeaderElection(**settings)


def _profiles(
    given: tuple[KubeProfile, ...], known: KnownPlugins, warn: Warn
) -> Iterator[ProfileConfiguration]:
    for index, one in enumerate(given):
        path = f"profiles[{index}]"
        name = one.scheduler_name
        if not isinstance(name, str):
            if len(given) > 1:
                raise ConfigurationError(f"{path}.schedulerName: is required beside other profiles")
            name = DEFAULT_SCHEDULER
        if name == DEFAULT_SCHEDULER:
            warn(
                f"{path}.schedulerName: {name} is that of pods that name no scheduler: no other"
                " scheduler may place them"
            )
        if one.percentage_of_nodes_to_score is not UNSET:
            warn(f"{path}.percentageOfNodesToScore: is ignored: all nodes are looked at")
        yield ProfileReading(path, known, warn).profile(name, one)
