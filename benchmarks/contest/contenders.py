"""Who binds in a contest: kube-scheduler or kubeshare-scheduler as processes, or bare requests."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from benchmarks.contest.cluster import CARD_MEMORY, CARDS, MODEL, PODS, Ask, Cluster, node_names
from kubeshare_py.domain.values import replace
from kubeshare_py.embedded_cluster.serving.server import ADMIN, SCHEDULER
from tests.controlplane.processes import process

QPS = 5000
KUBE_SCHEDULER, OURS = "kube-scheduler", "kubeshare-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A scheduler, and the pods that it is given: how they ask, how many a card holds."""

    name: str
    ask: Ask
    per_card: int = 1
    #: Changes of kubeshare-scheduler's configuration.
    settings: Mapping[str, object] = field(default_factory=dict)


WHOLE_NATIVE = Ask(scheduler="default-scheduler", limits={"nvidia.com/gpu": "1"})
BARE = Contender(name="bare", ask=Ask(scheduler="nobody", limits={"nvidia.com/gpu": "1"}))
KUBE = Contender(name=KUBE_SCHEDULER, ask=WHOLE_NATIVE)
OURS_WHOLE = Contender(
    name=f"{OURS} whole",
    ask=Ask(scheduler=OURS, labels={"sharedgpu/gpu_request": "1.0", "sharedgpu/gpu_limit": "1.0"}),
)
OURS_HALF = Contender(
    name=f"{OURS} half",
    ask=Ask(scheduler=OURS, labels={"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}),
    per_card=2,
)

OURS_UNLIMITED = replace(
    OURS_WHOLE, name=f"{OURS} whole, no limit", settings={"maxWaitingPodsPerNamespace": 0}
)


@contextmanager
def running(contender: Contender, cluster: Cluster) -> Iterator[int]:
    """Run its process; its pid, or 0 for bare requests: they are made here."""
    if contender is BARE:
        yield 0
        return
    command = _kube(cluster) if contender is KUBE else _ours(cluster, contender.settings)
    log = cluster.folder / f"{contender.name.replace(' ', '-')}.log"
    with process(command, log) as started:
        yield started.pid


async def bare_binds(cluster: Cluster, pods: Iterable[str], nodes: int) -> None:
    """Bind each pod to a node chosen beforehand, 32 requests in flight.

    As an administrator, as kube-scheduler here: no flow of API priority and fairness is ahead, and
    the scheduler's account may not bind without saying what the pod gets.
    """
    targets = node_names(nodes)
    left = iter(enumerate(pods))

    async def work() -> None:
        for number, name in left:
            target = {"apiVersion": "v1", "kind": "Node", "name": targets[number % nodes]}
            body = {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target,
            }  # fmt: skip
            await cluster.client.request("POST", f"{PODS}/{name}/binding", body=body)

    async with asyncio.TaskGroup() as group:
        for _ in range(32):
            group.create_task(work())


def _kube(cluster: Cluster) -> list[str | Path]:
    """With an administrator's credentials: priority and fairness does not hold it back."""
    kubeconfig = str(cluster.kubeconfig_of(ADMIN))
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": QPS, "burst": QPS},
        "leaderElection": {"leaderElect": True},
    }
    config = _write(cluster.folder / "kube-scheduler.yaml", settings)
    return [cluster.plane.kubectl.with_name(KUBE_SCHEDULER), "--config", config,
            "--secure-port", "0", "--v", "1"]  # fmt: skip


def _ours(cluster: Cluster, changes: Mapping[str, object]) -> list[str | Path]:
    """With its ServiceAccount and the role that is shipped; cards from a file."""
    cards = [{"model": MODEL, "count": CARDS, "memory": CARD_MEMORY}]
    inventory = _write(
        cluster.folder / "cards.yaml", {"nodes": [{"names": ["n*"], "cards": cards}]}
    )
    settings: dict[str, object] = {
        "inventory": {"source": "file", "path": str(inventory)},
        "server": {"bindAddress": "127.0.0.1", "port": 0},
        # There are no kubelets, so that pods only go by force.
        "forcedDeleteHoldSeconds": 0,
        **changes,
    }
    config = _write(cluster.folder / "kubeshare.yaml", settings)
    return [sys.executable, "-m", "kubeshare_cmd.scheduler", "--config", config,
            "--kubeconfig", cluster.kubeconfig_of(SCHEDULER)]  # fmt: skip


def _write(path: Path, document: object) -> Path:
    path.write_text(yaml.safe_dump(document))
    return path
