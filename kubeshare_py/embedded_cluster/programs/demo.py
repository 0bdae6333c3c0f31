"""kubeshare-demo: the embedded cluster, the scheduler, sample workloads, and a live view."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kubeshare_py.configuration.leader_election import LeaderElection
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, SchedulerConfiguration
from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.programs.demo_cluster import demo_cluster
from kubeshare_py.embedded_cluster.programs.live_screen import show
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster
from kubeshare_py.embedded_cluster.serving.demo_files import find, read_nodes, read_workloads
from kubeshare_py.embedded_cluster.serving.demo_folder import own_folder
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.scheduling.explain.explanation import cluster_portions
from kubeshare_py.scheduling.machine import Machine

LANDING = """In another terminal:  export KUBECONFIG={kubeconfig}
  kubectl get pods -o wide -w       (your own kubectl, if you have one)
  {plugin} {question:<24} (also: {others}; also as `kubectl kubeshare`)
Ctrl-C ends everything."""

PAUSE_S = 0.05
PAUSES_FOR_INVENTORY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The command line's options; None means the files of the package. `seconds` ends the demo.

    `directory` None is the first of .demo, .demo-2, ... that no other demo uses.
    """

    directory: Path | None = None
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
    configuration = patient(configuration)
    nodes = read_nodes(options.cluster)
    workloads = _workloads(options, configuration)
    with own_folder(options.directory) as directory:
        async with demo_cluster(directory, nodes, configuration, in_tree, port=options.port) as (
            cluster,
            machine,
        ):
            await _until_inventory(machine)
            for workload in workloads:
                await _apply(workload, cluster, options.workloads or "demo-workloads.yaml")
            await show(
                lambda: cluster_portions(machine),
                footer=landing(options, cluster.kubeconfig),
                plain=options.plain,
                seconds=options.seconds,
            )


async def _until_inventory(machine: Machine) -> None:
    for _ in range(PAUSES_FOR_INVENTORY):
        if machine.inventory_read:
            break
        await asyncio.sleep(PAUSE_S)


async def _apply(workload: dict[str, Any], cluster: EmbeddedCluster, file: str) -> None:
    try:
        await cluster.apply(workload)
    except KubeError as error:
        name = workload.get("metadata", {}).get("name", "")
        raise DocumentProblem(file, f"{workload['kind']} {name}", error.message) from error
    # One after the other, as typed: each is placed before the next comes.
    await asyncio.sleep(PAUSE_S)


def patient(configuration: SchedulerConfiguration) -> SchedulerConfiguration:
    """The same with a Lease that outlasts pauses of the process, unless the file sets another.

    The API server is in the same process: when the process gets no CPU for ten seconds, or a laptop
    sleeps, no other scheduler could have taken the Lease over, and ending would end the cluster.
    """
    if configuration.leader_election != LeaderElection():
        return configuration
    election = LeaderElection(lease_duration="10m", renew_deadline="9m")
    return msgspec.structs.replace(configuration, leader_election=election)


def landing(options: DemoOptions, kubeconfig: Path) -> str:
    """What to try in another terminal."""
    samples = not options.without_workloads and options.workloads is None
    question, others = ("why preview", "gpus, pods") if samples else ("gpus", "pods, why POD")
    return LANDING.format(
        kubeconfig=kubeconfig, plugin=options.plugin, question=question, others=others
    )


def _workloads(
    options: DemoOptions, configuration: SchedulerConfiguration
) -> Sequence[dict[str, Any]]:
    """The objects to create; samples ask for a scheduler that the configuration has."""
    if options.without_workloads:
        return ()
    workloads = read_workloads(options.workloads)
    names = [profile.scheduler_name for profile in configuration.profiles]
    if options.workloads is not None or SCHEDULER_NAME in names:
        return workloads
    return [_scheduled_by(names[0], workload) for workload in workloads]


def _scheduled_by(name: str, part: Any) -> Any:
    """The same object with another name for the scheduler, in templates of pods as well."""
    if isinstance(part, list):
        return [_scheduled_by(name, one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: name
        if (key, value) == ("schedulerName", SCHEDULER_NAME)
        else _scheduled_by(name, value)
        for key, value in part.items()
    }
