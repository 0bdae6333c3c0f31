"""How long nothing is bound when the leader ends: two schedulers, one of them stopped or killed.

    python benchmarks/failover.py [--stops N] [--kills N] [-o json]

Schedulers are processes of their own with the default times of leader election (lease duration
15 s, renew deadline 10 s, retry period 2 s); the embedded API server and its nodes run here. Pods
are created all the time. `stopped`: SIGTERM, counted from the end of the process; `killed`:
SIGKILL, counted from the signal. Until the API server is sent the first Binding of the other one.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import yaml

from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster, embedded_cluster
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER

NODES = 'nodes: [{name: "n{n}", count: 20, gpus: [{model: A100, count: 8, memory: 80GiB}]}]'
PODS = "/api/v1/namespaces/default/pods"
PERIOD_S = 0.05
RETRY_PERIOD_S = 2.0


class Binds:
    """Who binds, as the API server hears it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.last_holder = ""
        self.changed_at = 0.0
        self._changed = asyncio.Event()
        cluster.server.audit = self._asked

    def _asked(self, request: ApiRequest) -> None:
        if request.method == "POST" and request.path.endswith("/binding"):
            fence = json.loads(request.body)["metadata"]["annotations"]["sharedgpu/fence"]
            holder = fence.partition("/")[0]
            if holder != self.last_holder:
                self.last_holder, self.changed_at = holder, time.monotonic()
                self._changed.set()

    async def by_another(self) -> float:
        """Wait for a Binding of somebody else than until now; when it came."""
        self._changed.clear()
        await self._changed.wait()
        return self.changed_at


async def scheduler(cluster: EmbeddedCluster, folder: Path) -> asyncio.subprocess.Process:
    """Start one more; returns once it leads or stands by."""
    settings = {"server": {"bindAddress": "127.0.0.1", "port": 0}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    kubeconfig = cluster.server.write_kubeconfig(folder / "of-scheduler", SCHEDULER)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubeshare_cmd.scheduler",
        "--config", str(folder / "settings.yaml"),
        "--kubeconfig", str(kubeconfig),
        "--prometheus-url", cluster.collectors.url,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    while line := await process.stderr.readline():
        if json.loads(line)["event"] in ("leads", "stands by"):
            return process
    raise RuntimeError("kubeshare-scheduler ended at its start")


async def forget(stream: asyncio.StreamReader | None) -> None:
    """Read a log so that its writer is never held up."""
    while stream is not None and await stream.readline():
        pass


async def users(cluster: EmbeddedCluster) -> None:
    """Create pods all the time; each ends soon after it was bound."""
    labels = {"sharedgpu/gpu_request": "0.1", "sharedgpu/gpu_limit": "1.0"}
    plan = {"kubeshare.sim/run-seconds": "0.1"}
    containers = [{"name": "main", "image": "busybox"}]
    spec = {
        "schedulerName": "kubeshare-scheduler", "containers": containers, "restartPolicy": "Never"
    }  # fmt: skip
    number = 0
    while True:
        number += 1
        metadata = {"name": f"pod-{number}", "labels": labels, "annotations": plan}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await cluster.client.create(PODS, pod)
        await asyncio.sleep(PERIOD_S)


@asynccontextmanager
async def busy_cluster(folder: Path) -> AsyncIterator[EmbeddedCluster]:
    """A cluster with users."""
    async with (
        embedded_cluster(folder, read_cluster(NODES)) as cluster,
        asyncio.TaskGroup() as group,
    ):
        creating = group.create_task(users(cluster))
        yield cluster
        creating.cancel()


async def measure(ends: Iterable[str], folder: Path) -> AsyncIterator[tuple[str, float]]:
    """The leader ends, again and again; how, and after how many seconds the other binds."""
    rng = random.Random(1)
    async with (
        busy_cluster(folder) as cluster,
        asyncio.TaskGroup() as group,
        AsyncExitStack() as stack,
    ):

        async def start() -> asyncio.subprocess.Process:
            process = await scheduler(cluster, folder)
            stack.push_async_callback(ended, process)
            group.create_task(forget(process.stderr))
            return process

        binds = Binds(cluster)
        leader = await start()
        await binds.by_another()
        for end in ends:
            standby = await start()
            # Any moment between two renewals, and the cache is warm.
            await asyncio.sleep(2.0 + RETRY_PERIOD_S * rng.random())
            waiting = group.create_task(binds.by_another())
            ended_at = time.monotonic()
            if end == "killed":
                leader.kill()
            else:
                leader.terminate()
                await leader.wait()
                ended_at = time.monotonic()
            yield end, await waiting - ended_at
            leader = standby


async def ended(process: asyncio.subprocess.Process) -> None:
    """Kill what still runs."""
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def report(stops: int, kills: int, output: str) -> None:
    """Measure and print."""
    found: dict[str, list[float]] = {"stopped": [], "killed": []}
    ends = ["stopped"] * stops + ["killed"] * kills
    with tempfile.TemporaryDirectory() as folder:
        async for end, seconds in measure(ends, Path(folder)):
            found[end].append(seconds)
    for end, all_s in found.items():
        if all_s:
            row = {
                "leader": end,
                "runs": len(all_s),
                "least_s": round(min(all_s), 2),
                "median_s": round(statistics.median(all_s), 2),
                "most_s": round(max(all_s), 2),
            }
            plain = "  ".join(f"{name} {value}" for name, value in row.items())
            print(json.dumps(row) if output == "json" else plain, flush=True)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stops", type=int, default=10, metavar="N")
    parser.add_argument("--kills", type=int, default=5, metavar="N")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    asyncio.run(report(arguments.stops, arguments.kills, arguments.output))


if __name__ == "__main__":
    main()
