"""The aggregator against an embedded API server: which pods it exports, and when."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.dialects.results import ALLOCATION
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.edges.aggregator import AggregatorPage, RequirementWatch
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.programs.aggregator import AggregatorSettings, aggregate
from tests.edges.served_app import asking
from tests.embedded_cluster.embedded import PODS, cluster, create_pod
from tests.patience import PATIENCE_S

LABELS = {"sharedgpu/gpu_limit": "1.0", "sharedgpu/gpu_request": "0.9"}


class Served:
    """An aggregator, and what Prometheus would read."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def series(self) -> list[str]:
        async with self._session.get(self.url) as answer:
            text = await answer.text()
        return [line for line in text.splitlines() if line.startswith("gpu_requirement{")]

    async def expect_eventually(self, wanted: Callable[[list[str]], bool]) -> list[str]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if wanted(found := await self.series()):
                    return found
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[KubeClient, Served]]:
    settings = AggregatorSettings(
        address="127.0.0.1",
        port=0,
        path="/kubeshare-aggregator",
        scheduler="kubeshare-scheduler",
        kubeconfig=str(folder / "kubeconfig"),
    )
    async with cluster(folder) as (_, client), asyncio.TaskGroup() as group:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = group.create_task(aggregate(settings, ready.set_result))
        async with aiohttp.ClientSession() as session:
            yield client, Served(await ready, session)
        task.cancel()


async def bind(
    client: KubeClient, name: str, labels: dict[str, str] = LABELS, **spec: object
) -> None:
    await create_pod(client, name, **spec)
    await client.merge_patch(f"{PODS}/{name}", {"metadata": {"labels": labels}})
    charge = CardCharge(GpuUuid("GPU-1"), 500, 2**30)
    allocation = Allocation(token=DecisionToken(name), cards=(charge,), port=50051)
    metadata = {"name": name, "annotations": {ALLOCATION: write_allocation(allocation)}}
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    await client.create(f"{PODS}/{name}/binding", binding)


async def phase(client: KubeClient, name: str, phase: str) -> None:
    await client.merge_patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})


async def expect_listed(watch: RequirementWatch) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if watch.pods is not None:
                return
            await asyncio.sleep(0.01)


async def test_59_running_pods_of_the_scheduler_with_a_limit_are_exported(tmp_path: Path) -> None:
    """What they hold comes from the allocation, not from the labels."""
    async with serving(tmp_path) as (client, served):
        await bind(client, "pending")
        await bind(client, "no-limit", {"app": "x"})
        await bind(client, "of-another", schedulerName="other")
        await bind(client, "a")
        for name in ("no-limit", "of-another", "a"):
            await phase(client, name, "Running")
        [found] = await served.expect_eventually(bool)
        assert found.startswith('gpu_requirement{namespace="default",pod="a",')
        assert 'limit="1.0",request="0.5",memory="1073741824"' in found
        assert 'uuid="GPU-1",port="50051"' in found
        await phase(client, "pending", "Running")
        await served.expect_eventually(lambda found: len(found) == 2)
        await phase(client, "a", "Succeeded")
        await client.delete(f"{PODS}/pending", grace_period_s=0)
        await served.expect_eventually(lambda found: found == [])


async def test_a_scrape_asks_the_api_server_nothing_and_outlives_it(tmp_path: Path) -> None:
    """KubeShare's aggregator lists all pods at each scrape, and ends if that fails."""
    async with cluster(tmp_path) as (server, client):
        await bind(client, "a")
        await phase(client, "a", "Running")
        watch = RequirementWatch(client, "kubeshare-scheduler")
        page = AggregatorPage(watch, "/metrics", lambda: 1_700_000_000.0)
        async with asyncio.TaskGroup() as group, asking(page.routes()) as web:
            async with web.get("/metrics") as answer:
                assert (answer.status, await answer.text()) == (
                    503,
                    "the pods are not listed yet\n",
                )
            task = group.create_task(watch.run())
            await expect_listed(watch)
            await server.stop()
            async with web.get("/metrics") as answer:
                assert 'pod="a"' in await answer.text()
            async with web.get("/readyz") as answer:
                assert answer.status == 200
            task.cancel()
