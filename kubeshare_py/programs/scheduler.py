"""kubeshare-scheduler: watch, decide, perform."""

import asyncio
from collections.abc import Callable, Mapping

from kubeshare_py.edges import decision_log
from kubeshare_py.edges.decision_loop import DecisionLoop
from kubeshare_py.edges.kube_api import KubeApi
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_config import load
from kubeshare_py.edges.process import own_name
from kubeshare_py.edges.published_lease import publish
from kubeshare_py.edges.report_lane import ReportLane
from kubeshare_py.edges.state_server import serve
from kubeshare_py.edges.watched_events import node_events, pod_events
from kubeshare_py.framework.configuration import PluginFactory, SchedulerConfiguration, profiles
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec
from kubeshare_py.scheduling.explanation import cluster_portions, why
from kubeshare_py.scheduling.machine import Machine


def machine(configuration: SchedulerConfiguration, in_tree: Mapping[str, PluginFactory]) -> Machine:
    """A machine with the configured profiles; raises ConfigurationError for unusable ones."""
    return Machine(profiles(configuration, in_tree), own_name())


async def main(
    configuration: SchedulerConfiguration, machine: Machine, kubeconfig: str | None
) -> None:
    """Schedule until cancelled, with the credentials of a kubeconfig or of the pod."""
    credentials = load(kubeconfig)
    async with KubeClient(credentials, concurrency=configuration.parallel_binds) as client:
        await run(configuration, client, machine)


async def run(
    configuration: SchedulerConfiguration,
    client: KubeClient,
    machine: Machine,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Schedule until cancelled, then finish the binds under way; cancelled again, end at once.

    `on_ready` is told the state endpoint's URL.
    """
    reports = ReportLane(client, instance=machine.name)
    server = serve(
        configuration.server,
        ready=lambda: machine.ready,
        cluster=lambda: cluster_portions(machine),
        why=lambda key: why(machine, key),
    )
    async with server as url, asyncio.TaskGroup() as binds:
        on_ready(url)
        loop = DecisionLoop(machine, KubeApi(client, reports), binds, asyncio.Event())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(reports.run())
                group.create_task(_publish(configuration, client, url))
                group.create_task(loop.watch(client, "/api/v1/pods", Codec(PodFields), pod_events))
                group.create_task(
                    loop.watch(client, "/api/v1/nodes", Codec(NodeFields), node_events)
                )
                group.create_task(loop.read_inventory(configuration.inventory))
                group.create_task(loop.decide())
        finally:
            await loop.drain()


async def _publish(configuration: SchedulerConfiguration, client: KubeClient, url: str) -> None:
    service, port = configuration.server.service, url.rpartition(":")[2]
    problem = await publish(
        client,
        configuration.lease_namespace,
        configuration.lease_name,
        f"https:{service}:{port}",
    )
    if problem:
        decision_log.warn("lease", message=problem)
