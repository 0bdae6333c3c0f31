"""kube-scheduler's configuration file as a configuration of this scheduler.

What has a counterpart is used. What has none is named with its path in a warning, and is an error
where ignoring it would change where pods may go. docs/from-kube-scheduler.md lists all of it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from kubeshare_py.configuration.field_errors import explained
from kubeshare_py.configuration.kube_scheduler_fields import (
    KUBE_API_VERSION,
    KUBE_KIND,
    KubeClientConnection,
    KubeExtender,
    KubeLeaderElection,
    KubeProfile,
    KubeSchedulerFile,
)
from kubeshare_py.configuration.kube_scheduler_profile import KnownPlugins, ProfileReading
from kubeshare_py.configuration.leader_election import LeaderElection
from kubeshare_py.configuration.scheduler import (
    ClientConnection,
    ConfigurationError,
    ProfileConfiguration,
    SchedulerConfiguration,
    checked,
)

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
