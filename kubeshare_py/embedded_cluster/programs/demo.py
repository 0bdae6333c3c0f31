"""kubeshare-demo: the embedded cluster, the scheduler, sample workloads, and a live view."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.programs.demo_cluster import demo_cluster
from kubeshare_py.embedded_cluster.programs.live_screen import show
from kubeshare_py.embedded_cluster.serving.demo_files import find, read_nodes, read_workloads
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.scheduling.explain.explanation import cluster_portions

LANDING = """In another terminal:  export KUBECONFIG={kubeconfig}
  kubectl get pods -o wide -w       (your own kubectl, if you have one)
  {plugin} why preview              (also: gpus, pods; also as `kubectl kubeshare`)
Ctrl-C ends everything."""

PAUSE_S = 0.05
PAUSES_FOR_INVENTORY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The command line's options; None means the files of the package. `seconds` ends the demo."""

    directory: Path
    plugin: str = "kubectl-kubeshare"
    cluster: str | None = None
    workloads: str | None = None
    without_workloads: bool = False
    port: int = 0
    plain: bool = False
    seconds: float | None = None


def chosen(configuration: str | None) -> str:
    """The path of the scheduler's configuration: this one, or the demo's own."""
    return configuration or str(find("demo-scheduler.yaml"))


async def main(
    options: DemoOptions,
    configuration: SchedulerConfiguration,
    in_tree: Mapping[str, PluginFactory],
) -> None:
    """Run until cancelled, or for `seconds`.

    Raises DocumentProblem for files and workloads, ConfigurationError for other options.
    """
    nodes = read_nodes(options.cluster)
    workloads = () if options.without_workloads else read_workloads(options.workloads)
    async with demo_cluster(
        options.directory, nodes, configuration, in_tree, port=options.port
    ) as (cluster, machine):
        for _ in range(PAUSES_FOR_INVENTORY):
            if machine.inventory_read:
                break
            await asyncio.sleep(PAUSE_S)
        for workload in workloads:
            try:
                await cluster.apply(workload)
            except KubeError as error:
                file = options.workloads or "demo-workloads.yaml"
                name = workload.get("metadata", {}).get("name", "")
                raise DocumentProblem(file, f"{workload['kind']} {name}", error.message) from error
            # One after the other, as typed: each is placed before the next comes.
            await asyncio.sleep(PAUSE_S)
        await show(
            lambda: cluster_portions(machine),
            footer=LANDING.format(kubeconfig=cluster.kubeconfig, plugin=options.plugin),
            plain=options.plain,
            seconds=options.seconds,
        )
