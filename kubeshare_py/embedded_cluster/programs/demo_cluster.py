"""The demo's cluster: a scheduler, and what pods of its predecessors find in a cluster besides it.

Definitions of SharePods and PodGroups, the controller of SharePods, admission that gives pods of
every dialect their scheduler, and a default-scheduler for pods that ask for no GPU.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from kubeshare_py.admission.dialect_pods import OptIn
from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.configuration.kube_scheduler import DEFAULT_SCHEDULER
from kubeshare_py.configuration.scheduler import (
    EnabledDialect,
    Points,
    ProfileConfiguration,
    SchedulerConfiguration,
    Server,
    isolation_choices,
)
from kubeshare_py.edges.event_log.event_log import LogLimits
from kubeshare_py.edges.kube.certificates import write_private
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.process.plugin_entry_points import configured
from kubeshare_py.edges.scheduler.event_logging import ALONE, LogSettings, RunOptions
from kubeshare_py.edges.scheduler.leadership import OnlyScheduler, connected
from kubeshare_py.edges.scheduler.writes.kube_api import HAND_OVER_S
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.embedded_cluster.protocol.mutation import environment
from kubeshare_py.embedded_cluster.serving.cluster import (
    PAUSE_S,
    EmbeddedCluster,
    embedded_cluster,
)
from kubeshare_py.embedded_cluster.serving.demo_files import find, read_workloads
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.programs import controller, scheduler
from kubeshare_py.scheduling.machine import Machine

# kubeshare-scheduler on an embedded cluster, in the same process: for the demo and stories.


#: A short interval (s): cards are only simulated.
MAX_INTERVAL_S = 1.0


@asynccontextmanager
async def running_scheduler(
    cluster: EmbeddedCluster,
    directory: Path,
    configuration: SchedulerConfiguration,
    in_tree: Mapping[str, PluginFactory],
    hand_over_s: float = HAND_OVER_S,
    options: RunOptions = ALONE,
) -> AsyncIterator[Machine]:
    """A scheduler with its own credentials on an embedded cluster, while entered.

    `hand_over_s`: how long (s) it waits if its predecessor did not release the Lease.
    """
    server = Server(
        bind_address="127.0.0.1",
        port=0,
        token_file=str(write_private(directory / "state-token", cluster.admin_token())),
    )
    configuration = msgspec.structs.replace(
        configuration, server=server, inventory=_inventory(configuration, cluster)
    )
    machine = scheduler.machine(configuration, in_tree)
    credentials = cluster.server.credentials(SCHEDULER)
    async with (
        connected(configuration, credentials, machine.name, hand_over_s) as (
            client,
            leadership,
        ),
        asyncio.TaskGroup() as group,
    ):
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        running = group.create_task(
            scheduler.run(
                configuration,
                client,
                machine,
                leadership,
                on_ready=url.set_result,
                options=options,
            )
        )
        try:
            await cluster.publish_scheduler(await url)
            yield machine
        finally:
            running.cancel()


def _inventory(configuration: SchedulerConfiguration, cluster: EmbeddedCluster) -> Inventory:
    """The embedded Prometheus, unless cards come from another source.

    It scrapes collectors that have no pods: `auto` looks for pods only if it names a namespace.
    """
    given = configuration.inventory
    if given.source not in ("auto", "prometheus") or (given.source == "auto" and given.namespace):
        return given
    interval_s = min(MAX_INTERVAL_S, given.interval_seconds)
    return Inventory(
        source="prometheus",
        url=cluster.collectors.url,
        interval_seconds=interval_s,
        cells_file=given.cells_file,
        unhealthy_config_maps=given.unhealthy_config_maps,
        scaling=given.scaling,
    )


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FILES = ("sharepod-crd.yaml", "demo-pod-groups.yaml")


#: Bytes: about a day of a busy demo.
_MOST_LOGGED = 256 << 20


def events_folder(directory: Path) -> Path:
    """Where the scheduler's event log is, which begins anew with each demo."""
    return directory / "events"


@asynccontextmanager
async def demo_cluster(
    directory: Path,
    nodes: Sequence[SimulatedNode],
    configuration: SchedulerConfiguration,
    in_tree: Mapping[str, PluginFactory],
    *,
    port: int = 0,
) -> AsyncIterator[tuple[EmbeddedCluster, Machine]]:
    """The cluster and its scheduler, while entered.

    Raises ConfigurationError if the directory, the port or a dialect cannot be used.
    """
    choices, scheduler = isolation_choices(configuration), configuration.profiles[0].scheduler_name
    configuration = with_default_scheduler(configuration)
    dialects = configured(configuration)
    mutation = environment(choices, dialects, OptIn.ALL, contested=True)
    events = events_folder(directory)
    shutil.rmtree(events, ignore_errors=True)
    log = LogSettings(events, LogLimits(total_bytes=_MOST_LOGGED))
    options = RunOptions(dialects=dialects, event_log=log)
    async with (
        embedded_cluster(directory, nodes, port=port, mutation=mutation) as cluster,
        running_scheduler(cluster, directory, configuration, in_tree, options=options) as machine,
        share_pod_controller(cluster, scheduler),
    ):
        await define(cluster)
        yield cluster, machine


def with_default_scheduler(configuration: SchedulerConfiguration) -> SchedulerConfiguration:
    """The configuration with a profile `default-scheduler`, unless it has one.

    It stands in for kube-scheduler, as a profile of the same process: two schedulers that know
    nothing of each other would give away the same processors twice.
    """
    profiles = configuration.profiles
    if any(one.scheduler_name == DEFAULT_SCHEDULER for one in profiles):
        return configuration
    # All profiles share one queue, so that its order is theirs too.
    default = ProfileConfiguration(
        scheduler_name=DEFAULT_SCHEDULER,
        plugins=Points(queue_sort=profiles[0].plugins.queue_sort),
        dialects=(EnabledDialect("sharedgpu"),),
    )
    return msgspec.structs.replace(configuration, profiles=(*profiles, default))


async def define(cluster: EmbeddedCluster) -> None:
    """Make the definitions; return when their kinds are served."""
    for file in _FILES:
        for definition in read_workloads(str(find(file))):
            await cluster.apply(definition)
            await _established(cluster, definition["metadata"]["name"])


@asynccontextmanager
async def share_pod_controller(cluster: EmbeddedCluster, scheduler: str) -> AsyncIterator[None]:
    """The controller of SharePods, while entered; `scheduler` is for those that name none."""
    settings = controller.ControllerSettings(address="127.0.0.1", port=0, scheduler=scheduler)
    async with (
        KubeClient(cluster.server.credentials()) as client,
        asyncio.TaskGroup() as group,
    ):
        running = group.create_task(
            controller.run(settings, client, OnlyScheduler(), controller.ELECTION.resource_name)
        )
        try:
            yield
        finally:
            running.cancel()


async def _established(cluster: EmbeddedCluster, name: str) -> None:
    while True:
        found = await cluster.client.get(f"{DEFINITIONS}/{name}")
        conditions = found.get("status", {}).get("conditions") or []
        if any((one["type"], one["status"]) == ("Established", "True") for one in conditions):
            return
        await asyncio.sleep(PAUSE_S)
