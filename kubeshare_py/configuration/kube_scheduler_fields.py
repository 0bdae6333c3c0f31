"""The fields of a KubeSchedulerConfiguration, kubescheduler.config.k8s.io/v1.

https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/ lists them; a field that
is not there is an error, as in kube-scheduler's strict decoding.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kubeshare_py.configuration.leader_election import Duration
from kubeshare_py.configuration.scheduler import MAX_WEIGHT, ConfigurationStruct, PluginArgs

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
