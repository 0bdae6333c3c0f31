"""kubeshare-scheduler on an embedded cluster, in the same process: for the demo and stories."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.configuration.scheduler import SchedulerConfiguration, Server
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.edges.kube.certificates import write_private
from kubeshare_py.edges.scheduler.leadership import connected
from kubeshare_py.edges.scheduler.run_options import RunOptions
from kubeshare_py.edges.scheduler.writes.kube_api import HAND_OVER_S
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.programs import scheduler
from kubeshare_py.scheduling.machine import Machine

#: A short interval (s): cards are only simulated.
MAX_INTERVAL_S = 1.0


@asynccontextmanager
async def running_scheduler(
    cluster: EmbeddedCluster,
    directory: Path,
    configuration: SchedulerConfiguration,
    in_tree: Mapping[str, PluginFactory],
    hand_over_s: float = HAND_OVER_S,
    dialects: Dialects = SHAREDGPU_ALONE,
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
                options=RunOptions(dialects=dialects),
            )
        )
        try:
            await cluster.publish_scheduler(await url)
            yield machine
        finally:
            running.cancel()


def _inventory(configuration: SchedulerConfiguration, cluster: EmbeddedCluster) -> Inventory:
    """The embedded Prometheus, unless cards come from another source."""
    given = configuration.inventory
    if given.source != "prometheus":
        return given
    interval_s = min(MAX_INTERVAL_S, given.interval_seconds)
    return Inventory(
        url=cluster.collectors.url,
        interval_seconds=interval_s,
        cells_file=given.cells_file,
        unhealthy_config_maps=given.unhealthy_config_maps,
        scaling=given.scaling,
    )
