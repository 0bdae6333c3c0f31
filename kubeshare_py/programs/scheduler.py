"""kubeshare-scheduler: watch, decide, perform."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.process.run_until_signal import give_back_often
from kubeshare_py.edges.scheduler.decision_loop import DecisionLoop
from kubeshare_py.edges.scheduler.endpoints import endpoints
from kubeshare_py.edges.scheduler.event_logging import ALONE, RunOptions, logging_events
from kubeshare_py.edges.scheduler.extender_server import extend
from kubeshare_py.edges.scheduler.inventory_watch import InventoryWatch
from kubeshare_py.edges.scheduler.leadership import Leadership, connected, until_led
from kubeshare_py.edges.scheduler.object_watch import HoldersKnown, watch_objects, watch_pod_groups
from kubeshare_py.edges.scheduler.process import own_name
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.edges.scheduler.writes.kube_api import KubeApi
from kubeshare_py.edges.scheduler.writes.report_lane import ReportLane
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.manifests.events import pod_events
from kubeshare_py.scheduling.machine import Machine, configured_machine


def machine(configuration: SchedulerConfiguration, in_tree: Mapping[str, PluginFactory]) -> Machine:
    """A machine with the configured profiles. Raises ConfigurationError if one is unusable."""
    return configured_machine(configuration, in_tree, own_name())


async def main(
    configuration: SchedulerConfiguration,
    machine: Machine,
    kubeconfig: str | None,
    options: RunOptions = ALONE,
) -> None:
    """Schedule until cancelled, with the credentials of a kubeconfig or of the pod."""
    async with connected(configuration, load(kubeconfig), machine.name) as (client, leadership):
        await run(configuration, client, machine, leadership, options=options)


async def run(
    configuration: SchedulerConfiguration,
    client: KubeClient,
    machine: Machine,
    leadership: Leadership,
    on_ready: Callable[[str], None] = lambda url: None,
    options: RunOptions = ALONE,
) -> None:
    """Schedule until cancelled, then finish the binds under way; cancelled again, end at once.

    While another process leads, it only follows events. `on_ready` gets the endpoints' URL. Raises
    LeadershipLost, in groups, if it lost the leadership.
    """
    reports = ReportLane(client, instance=machine.name)
    process_health = ProcessHealth(machine, asyncio.get_running_loop().time)
    logging = logging_events(options.event_log, configuration, process_health)
    server = endpoints(configuration, client, process_health, reports, leadership, options.dialects)
    async with server as url, logging as log, asyncio.TaskGroup() as binds:
        on_ready(url)
        api = KubeApi(client, reports, fence=leadership.fence, dialects=options.dialects)
        inventory = configuration.inventory.within(configuration.leader_election.resource_namespace)
        loop = DecisionLoop(machine, api, binds, asyncio.Event(), process_health, log=log)
        nodes = InventoryWatch(loop, inventory, options.dialects, options.start)
        pods = partial(loop.watch_pods, client, pod_events(options.dialects))
        campaign = binds.create_task(loop.follow_election(leadership.campaign()))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(extend(configuration, loop, client, options.dialects))
                group.create_task(nodes.watch_nodes(client))
                group.create_task(loop.watch_budgets(client))
                group.create_task(nodes.follow(client))
                group.create_task(watch_pod_groups(client, machine, loop.deliver))
                holders = HoldersKnown(
                    spreads=machine.spreads_by_default, quotas=bool(options.dialects.quota_names)
                )
                group.create_task(watch_objects(client, machine, loop.deliver, holders))
                if options.updates is not None:
                    group.create_task(loop.follow_configuration(options.updates))
                group.create_task(process_health.run(loop.wakeup.set))
                group.create_task(give_back_often())
                await until_led(leadership, group, pods)
                # A list requested now includes the last leader's last writes.
                listed = asyncio.Event()
                group.create_task(pods(on_update=lambda _: listed.set()))
                await listed.wait()
                await holders.wait()
                loop.lead()
                group.create_task(reports.run())
                group.create_task(loop.decide())
        finally:
            in_order = leadership.may_send() and await loop.drain()
            campaign.cancel()
            if in_order:
                await leadership.release()
