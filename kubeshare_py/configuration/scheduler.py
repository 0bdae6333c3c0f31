"""Configuration files: shaped like KubeSchedulerConfiguration, typed; every error has its path.

`plugins.<point>` lists the plugins of that point, in order. A point that is left out has the
default profile's plugins; `disabled: [{name: "*"}]` removes them first, as in kube-scheduler.
`multiPoint` stands for every point that a plugin implements.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kubeshare_py.configuration.fields import explained, label_problem
from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.configuration.leader_election import LeaderElection
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.printable import MAX_SAID, beginning
from kubeshare_py.domain.quota import name_problem

API_VERSION = "kubeshare.io/v1"
KIND = "KubeShareSchedulerConfiguration"
SCHEDULER_NAME = "kubeshare-scheduler"

#: Scores are 0…100 and card ranks up to some thousands: with this bound their sums stay far below
#: 2**63.
MAX_WEIGHT = 10_000


#: Keys of earlier versions, and what they are called now.
FORMER_KEYS: Mapping[str, str] = {
    "earmarkSeconds": "reservationSeconds",
    "earmarkPatienceSeconds": "reservationPatienceSeconds",
}


class ConfigurationError(Exception):
    """A configuration cannot be used; the text begins with the path of the field."""

    def __init__(self, text: str) -> None:
        """A long text, which repeats what the file says, is cut."""
        super().__init__(beginning(text, 2 * MAX_SAID))


class ConfigurationStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping of the file; it refuses unknown fields, so that a typo is an error."""


class EnabledPlugin(ConfigurationStruct, frozen=True):
    """A plugin at a point; only scores have weights."""

    name: Annotated[str, Meta(min_length=1)]
    weight: Annotated[int, Meta(ge=1, le=MAX_WEIGHT)] = 1


class Point(ConfigurationStruct, frozen=True):
    """Plugins to add to a point's default ones, and plugins to remove first."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[EnabledPlugin, ...] = ()


class Points(ConfigurationStruct, frozen=True):
    """The extension points that a profile may change.

    Plugins of `multi_point` are enabled at every point that they implement and that does not name
    them itself.
    """

    multi_point: Point = Point()
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
    pre_bind: Point = Point()


class PluginArgs(ConfigurationStruct, frozen=True):
    """Arguments of one plugin of a profile."""

    name: Annotated[str, Meta(min_length=1)]
    args: dict[str, Any] = {}


class EnabledDialect(ConfigurationStruct, frozen=True):
    """A dialect in which pods may ask for GPUs, with its arguments.

    With `require_node_label` its pods use only nodes that have the labels of its rules.
    """

    name: Annotated[str, Meta(min_length=1)]
    args: dict[str, Any] = {}
    require_node_label: bool = False


#: Those of a profile that names none.
DEFAULT_DIALECTS = (
    EnabledDialect("sharedgpu"),
    EnabledDialect("gpushare"),
    EnabledDialect("nano-gpu"),
    EnabledDialect("sharepod"),
)


#: What the name `all` in a profile stands for: everything for NVIDIA's cards.
ALL, ALL_DIALECTS = "all", (*DEFAULT_DIALECTS, EnabledDialect("hami"), EnabledDialect("nvidia"))


class ProfileConfiguration(ConfigurationStruct, frozen=True):
    """One profile: the plugins that decide for pods with this schedulerName."""

    scheduler_name: Annotated[str, Meta(min_length=1)] = SCHEDULER_NAME
    plugins: Points = Points()
    plugin_config: tuple[PluginArgs, ...] = ()
    #: Isolation back-ends; the first is the default for pods that choose none of the others.
    isolation: Annotated[tuple[IsolationBackend, ...], Meta(min_length=1)] = (
        IsolationBackend.NONE,
    )
    #: The dialects of its pods; `all` stands for those of `ALL_DIALECTS` that are not listed.
    dialects: Annotated[tuple[EnabledDialect, ...], Meta(min_length=1)] = DEFAULT_DIALECTS
    #: The capacities of models, in any unit; the first name that matches a model counts.
    gpu_capacities: dict[str, Annotated[int, Meta(ge=1, le=10**9)]] = {}
    #: kube-scheduler has these pods in its queue, and this scheduler is its extender.
    extender: bool = False


class Server(ConfigurationStruct, frozen=True):
    """The read-only state endpoint: address, certificate, and the file of accepted tokens.

    `0.0.0.0`, `::` and "" are all addresses, of IPv4 and IPv6 alike.
    With `api_service`, kube-apiserver may forward its users' requests to it, by the APIService
    v1.state.kubeshare.io.
    """

    bind_address: str = "0.0.0.0"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 10259
    service: str = "kubeshare-scheduler"
    certificate_file: str = ""
    key_file: str = ""
    token_file: str = ""
    api_service: bool = True

    def check(self) -> None:
        """Raises ValueError, whose text begins with the field, for unusable settings."""
        if problem := label_problem(self.service):
            raise ValueError(f"service: {problem}")
        if self.key_file and not self.certificate_file:
            raise ValueError(f"keyFile: {self.key_file}: needs certificateFile beside it")


class Extender(ConfigurationStruct, frozen=True):
    """The endpoint for kube-scheduler, served if a profile has `extender: true`.

    Without a certificate file it serves the certificate of `server`. With a client authority, only
    clients with a certificate of that authority are answered.
    """

    bind_address: str = "0.0.0.0"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 10270
    certificate_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""

    def check(self) -> None:
        """Raises ValueError, whose text begins with the field, for unusable settings."""
        if self.key_file and not self.certificate_file:
            raise ValueError(f"keyFile: {self.key_file}: needs certificateFile beside it")


class HamiMetrics(ConfigurationStruct, frozen=True):
    """HAMi's metrics, served over plain HTTP to every client; with port 0 they are not.

    With `legacy`, each series is there under its older names too.
    """

    bind_address: str = "0.0.0.0"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    legacy: bool = False


class ClientConnection(ConfigurationStruct, frozen=True):
    """The connection to the API server: a kubeconfig file, unless the command line names one."""

    kubeconfig: str = ""


class SchedulerConfiguration(ConfigurationStruct, frozen=True):
    """The whole file.

    If too few members of a gang could be bound, the others are tried for `gang_repair_seconds`;
    then `gang_repair` is to `release` the bound ones, or only to `report` it. The first gang or pod
    of whole cards that waits gets reservations after `reservation_seconds`; with 0 none does. They
    end if none of its places became free in `reservation_patience_seconds`; with 0 they do not. A
    plan waits `preemption_patience_seconds` for its victims. One pod or gang evicts others at most
    `preemptions_per_pod` times before it is bound. Cards of a pod that was deleted by force are
    held for the rest of its grace period, at most for `forced_delete_hold_seconds`; with 0 they are
    free at once. At most `max_waiting_pods_per_namespace` pods of one namespace wait in the queue;
    with 0 there is no limit. A pod that was refused is tried again after
    `pod_initial_backoff_seconds`, which double with each time up to `pod_max_backoff_seconds`.
    A pod that fits nowhere is tried again after `pod_max_in_unschedulable_pods_seconds` in any
    case. `native_resources` are names beside NVIDIA's of extended resources whose units are cards
    or parts of cards that the kubelet gives out; `*` at the end stands for any end.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    profiles: Annotated[tuple[ProfileConfiguration, ...], Meta(min_length=1)] = (
        ProfileConfiguration(),
    )
    inventory: Inventory = Inventory()
    server: Server = Server()
    extender: Extender = Extender()
    hami_metrics: HamiMetrics = HamiMetrics()
    parallel_binds: Annotated[int, Meta(ge=1)] = 32
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    pod_initial_backoff_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 1.0
    pod_max_backoff_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    pod_max_in_unschedulable_pods_seconds: Annotated[float, Meta(ge=1, le=604_800)] = 300.0
    gang_repair_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    gang_repair: Literal["release", "report"] = "release"
    reservation_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 60.0
    reservation_patience_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 3600.0
    preemption_patience_seconds: Annotated[float, Meta(ge=1, le=604_800)] = 120.0
    preemptions_per_pod: Annotated[int, Meta(ge=1, le=1_000_000)] = 5
    forced_delete_hold_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    max_waiting_pods_per_namespace: Annotated[int, Meta(ge=0, le=1_000_000)] = 5000
    native_resources: tuple[str, ...] = ()

    @property
    def extends(self) -> bool:
        """Whether kube-scheduler asks this scheduler about pods of some profile."""
        return any(profile.extender for profile in self.profiles)


#: A pod's preference of models weighs more than all policies for equally good ones.
_PREFERENCE = EnabledPlugin("ModelPreference", 2000)
#: Policies of pods that bring their own; the profile's have no say about these.
_POD_POLICY = EnabledPlugin("PodPolicy", 10)
#: A card that is ready for the pod's isolation weighs more than policies for the others.
_READY = EnabledPlugin("IsolationReady", 100)

#: Pods of one affinity tag share a card, whatever others say.
_TAGS = EnabledPlugin("GpuTags", MAX_WEIGHT)

_DEFAULTS: Mapping[str, tuple[EnabledPlugin, ...]] = {
    "pre_enqueue": (),
    "queue_sort": (EnabledPlugin("PrioritySort"),),
    "filter": (
        EnabledPlugin("NodeUnschedulable"),
        EnabledPlugin("TaintToleration"),
        EnabledPlugin("NodeAffinity"),
        EnabledPlugin("NodePorts"),
        EnabledPlugin("NodeResourcesFit"),
        EnabledPlugin("VolumeRestrictions"),
        EnabledPlugin("NodeVolumeLimits"),
        EnabledPlugin("VolumeBinding"),
        EnabledPlugin("VolumeZone"),
        EnabledPlugin("PodTopologySpread"),
        EnabledPlugin("InterPodAffinity"),
        EnabledPlugin("DynamicResources"),
        EnabledPlugin("NodeDeclaredFeatures"),
        EnabledPlugin("DialectNodes"),
        EnabledPlugin("GpuNames"),
    ),
    "card_filter": (
        EnabledPlugin("GpuFit"),
        EnabledPlugin("GpuModel"),
        EnabledPlugin("GpuUuids"),
        EnabledPlugin("GpuTags"),
        EnabledPlugin("OneModel"),
        EnabledPlugin("NumaBinding"),
        EnabledPlugin("PodPolicy"),
    ),
    "post_filter": (EnabledPlugin("DefaultPreemption"),),
    "score": (
        EnabledPlugin("BinPack"),
        EnabledPlugin("AvoidGpuNodes"),
        EnabledPlugin("TaintToleration", 3),
        EnabledPlugin("NodeAffinity", 2),
        EnabledPlugin("PodTopologySpread", 2),
        EnabledPlugin("InterPodAffinity", 2),
        EnabledPlugin("DynamicResources", 2),
        EnabledPlugin("Topology", 10),
        _POD_POLICY,
        _READY,
        _PREFERENCE,
        _TAGS,
    ),
    "card_score": (
        EnabledPlugin("BinPack"),
        EnabledPlugin("Topology"),
        _POD_POLICY,
        _READY,
        _PREFERENCE,
        _TAGS,
    ),
    "locality": (EnabledPlugin("Coscheduling"),),
    "permit": (),
    "reserve": (),
    "pre_bind": (EnabledPlugin("VolumeBinding"), EnabledPlugin("DynamicResources")),
}


#: Default plugins that kube-scheduler has itself, by these names.
OF_KUBE_SCHEDULER = frozenset(
    (
        *("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
        *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
        *("PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
    )
)
#: Points of which kube-scheduler asks its extender nothing.
_NOT_OF_EXTENDERS = ("pre_enqueue", "post_filter", "locality", "pre_bind")


def former_keys(document: object) -> list[str]:
    """A warning for each key of an earlier version in a parsed YAML document."""
    keys = document if isinstance(document, dict) else {}
    return [f"{old} is called {new} now" for old, new in FORMER_KEYS.items() if old in keys]


def read(document: object) -> SchedulerConfiguration:
    """Check a parsed YAML document; keys of earlier versions are read as what they are called now.

    Raises ConfigurationError naming the path of the first bad field.
    """
    current = {} if document is None else _with_current_keys(document)
    try:
        configuration = msgspec.convert(current, SchedulerConfiguration)
    except msgspec.ValidationError as error:
        text = explained(str(error), current, SchedulerConfiguration)
        raise ConfigurationError(_with_written_key(text, document)) from error
    for field, wanted in (("api_version", API_VERSION), ("kind", KIND)):
        if getattr(configuration, field) != wanted:
            camel = "apiVersion" if field == "api_version" else field
            raise ConfigurationError(f"{camel}: must be {wanted}")
    return checked(configuration)


def checked(configuration: SchedulerConfiguration) -> SchedulerConfiguration:
    """The configuration, if its fields agree with each other.

    Raises ConfigurationError naming the path of the first bad field.
    """
    initial, longest = (
        configuration.pod_initial_backoff_seconds,
        configuration.pod_max_backoff_seconds,
    )
    if longest < initial:
        raise ConfigurationError(
            f"podMaxBackoffSeconds: must be at least podInitialBackoffSeconds, {initial:g}"
        )
    for section, settings in (
        ("inventory", configuration.inventory),
        ("server", configuration.server),
        ("extender", configuration.extender),
        ("leaderElection", configuration.leader_election),
    ):
        try:
            settings.check()
        except ValueError as error:
            raise ConfigurationError(f"{section}.{error}") from error
    for index, name in enumerate(configuration.native_resources):
        if problem := name_problem(name):
            raise ConfigurationError(f"nativeResources[{index}]: {problem}")
    names = [profile.scheduler_name for profile in configuration.profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigurationError(f"profiles[{index}].schedulerName: {name} is there twice")
    for index, profile in enumerate(configuration.profiles):
        _check_extender(f"profiles[{index}].plugins", profile)
        _check_all(f"profiles[{index}].dialects", profile)
    expanded = tuple(map(_with_all_dialects, configuration.profiles))
    return msgspec.structs.replace(configuration, profiles=expanded)


def _check_all(where: str, profile: ProfileConfiguration) -> None:
    """Raises ConfigurationError for `all` with settings, which are of one dialect."""
    for place, one in enumerate(profile.dialects):
        if one.name == ALL and one != EnabledDialect(ALL):
            raise ConfigurationError(
                f"{where}[{place}]: all has no args and no requireNodeLabel: "
                "list the dialect that has them beside it"
            )


def _with_all_dialects(profile: ProfileConfiguration) -> ProfileConfiguration:
    """The profile with the dialects that `all` stands for, in its place."""
    listed = {one.name for one in profile.dialects}
    if ALL not in listed:
        return profile
    meant = [one for one in ALL_DIALECTS if one.name not in listed]
    dialects: list[EnabledDialect] = []
    for one in profile.dialects:
        dialects += meant if one.name == ALL else [one]
    return msgspec.structs.replace(profile, dialects=tuple(dialects))


def _check_extender(where: str, profile: ProfileConfiguration) -> None:
    """Raises ConfigurationError for plugins that an extender of kube-scheduler never asks."""
    for point in _NOT_OF_EXTENDERS if profile.extender else ():
        changes: Point = getattr(profile.plugins, point)
        if changes.enabled:
            raise ConfigurationError(
                f"{where}.{camel(point)}: kube-scheduler decides about pods of a profile with "
                "extender: true, so that plugins of this point have no say"
            )


def _with_current_keys(document: object) -> object:
    """Raises ConfigurationError for a key that is there under both of its names."""
    if not isinstance(document, dict):
        return document
    for old, new in FORMER_KEYS.items():
        if old in document and new in document:
            raise ConfigurationError(f"{old}: is called {new} now, which is there too")
    return {FORMER_KEYS.get(key, key): value for key, value in document.items()}


def _with_written_key(text: str, document: object) -> str:
    """An error's text, beginning with a key as the document has it, not as it is called now."""
    path, colon, rule = text.partition(":")
    keys = document if isinstance(document, dict) else {}
    written = {new: old for old, new in FORMER_KEYS.items() if old in keys}
    return f"{written.get(path, path)}{colon}{rule}"


def isolation_choices(configuration: SchedulerConfiguration) -> dict[str, IsolationChoice]:
    """The isolation back-ends that each profile's pods choose from, by schedulerName."""
    return {one.scheduler_name: IsolationChoice(one.isolation) for one in configuration.profiles}


def effective(configuration: SchedulerConfiguration) -> dict[str, Any]:
    """The configuration with every default filled in, as plain data for printing.

    Read again it has the same meaning: each point clears the defaults and lists all its plugins.
    """
    plain = msgspec.to_builtins(configuration)
    assert isinstance(plain, dict)
    for listed, profile in zip(plain["profiles"], configuration.profiles, strict=True):
        everywhere = profile.plugins.multi_point.enabled
        listed["plugins"] = {
            camel(point): {
                "enabled": msgspec.to_builtins(enabled(profile, point)),
                "disabled": [{"name": "*"}, *_disabled_here(profile, point)],
            }
            for point in _DEFAULTS
        }
        if everywhere:
            listed["plugins"]["multiPoint"] = {"enabled": msgspec.to_builtins(everywhere)}
    return plain


def _disabled_here(profile: ProfileConfiguration, point: str) -> list[dict[str, str]]:
    """The plugins of `multiPoint` that a point disables."""
    everywhere = {one.name for one in profile.plugins.multi_point.enabled}
    changes: Point = getattr(profile.plugins, point)
    return [{"name": one.name} for one in changes.disabled if one.name in everywhere]


def enabled(profile: ProfileConfiguration, point: str) -> list[EnabledPlugin]:
    """A point's plugins: the defaults that stay, then those that the file enables, in its order.

    Those of `multiPoint` come after them.
    """
    changes: Point = getattr(profile.plugins, point)
    return [*kept_defaults(profile, point), *changes.enabled]


def kept_defaults(profile: ProfileConfiguration, point: str) -> list[EnabledPlugin]:
    """The default profile's plugins that a profile's file leaves at a point."""
    changes: Point = getattr(profile.plugins, point)
    everywhere = profile.plugins.multi_point
    gone = {
        named.name
        for named in (
            *(*changes.disabled, *changes.enabled),
            *(*everywhere.disabled, *everywhere.enabled),
        )
    }
    defaults = () if "*" in gone else _defaults(profile, point)
    return [named for named in defaults if named.name not in gone]


def _defaults(profile: ProfileConfiguration, point: str) -> tuple[EnabledPlugin, ...]:
    """For an extender, those about cards: kube-scheduler has the others itself."""
    if not profile.extender:
        return _DEFAULTS[point]
    if point in _NOT_OF_EXTENDERS:
        return ()
    return tuple(one for one in _DEFAULTS[point] if one.name not in OF_KUBE_SCHEDULER)


def default_plugins(point: str) -> tuple[EnabledPlugin, ...]:
    """The default profile's plugins at a point, in order; none for one that it does not have."""
    return _DEFAULTS.get(point, ())


def camel(name: str) -> str:
    """A field's name as the file has it."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
