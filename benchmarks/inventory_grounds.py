"""What benchmarks/inventory.py measures on: collectors, Prometheus that scrapes them, a source."""

import asyncio
import json
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.collector_pages import address, node_name
from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.edges.inventory import collector_scrape, prometheus
from kubeshare_py.edges.inventory.collector_scrape import CollectorTargets
from kubeshare_py.edges.inventory.inventory_child import Heard
from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess
from kubeshare_py.exporters.collector_metrics import PATH
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.partial_objects import CollectorPod, PlaceSpec, PlaceStatus
from kubeshare_py.manifests.watch import ListResult
from tests.controlplane.prometheus import JOB, find
from tests.controlplane.running import free_ports

#: How often Prometheus scrapes (s): the machine is also there for what is measured.
SCRAPE_S = 15
Stream = AsyncGenerator[InventoryRead | InventoryFailed, None]


@dataclass(frozen=True, slots=True)
class Ground:
    """`port` is that of all collectors; `readings` begins to read, and is told of each success."""

    port: int
    readings: Callable[[Callable[[], None]], Stream]


async def turn(port: int) -> None:
    """Let the first card of every node fall ill, or be well again."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/turn"):
        pass


@asynccontextmanager
async def grounds(source: str, nodes: int, cards: int, interval_s: float) -> AsyncIterator[Ground]:
    """Everything that the scheduler asks, once it has all cards."""
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(_collectors(nodes, cards))
        if source == "scrape":
            targets = _targets(nodes)
            yield Ground(
                port,
                lambda on_reading: collector_scrape.readings(
                    targets,
                    scheme="http",
                    port=port,
                    interval_s=interval_s,
                    access=ScrapeAccess(),
                    heard=Heard(on_reading),
                ),
            )
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = await stack.enter_async_context(_prometheus(folder, port, nodes))
        await _until_scraped(url, nodes * cards)
        yield Ground(
            port,
            lambda on_reading: prometheus.readings(
                url, interval_s=interval_s, heard=Heard(on_reading)
            ),
        )


@asynccontextmanager
async def _collectors(nodes: int, cards: int) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.collector_pages", str(nodes), str(cards),
        stdin=PIPE, stdout=PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


def _targets(nodes: int) -> CollectorTargets:
    targets = CollectorTargets()
    pods = [
        CollectorPod(
            metadata=ObjectMeta(name=f"collector-{number}"),
            spec=PlaceSpec(node_name=node_name(number)),
            status=PlaceStatus(phase="Running", pod_ip=address(number)),
        )
        for number in range(nodes)
    ]
    targets.take(ListResult(items=pods, problems=[], asked_at=0.0))
    return targets


@asynccontextmanager
async def _prometheus(folder: Path, port: int, nodes: int) -> AsyncIterator[str]:
    program = find()
    if program is None:
        raise SystemExit("there is no prometheus on the PATH, nor apt-get to bring Debian's")
    scraped = {
        "job_name": JOB,
        "metrics_path": PATH,
        "static_configs": [{"targets": [f"{address(number)}:{port}" for number in range(nodes)]}],
    }
    given = {"global": {"scrape_interval": f"{SCRAPE_S}s"}, "scrape_configs": [scraped]}
    file = folder / "prometheus.yaml"
    file.write_text(json.dumps(given))
    (own,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{own}",
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{own}"
    finally:
        process.terminate()
        await process.wait()


async def _until_scraped(url: str, cards: int) -> None:
    query = {"query": f'count({{__name__="gpu_capacity",job="{JOB}"}})'}
    async with asyncio.timeout(300), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"{url}/api/v1/query", params=query) as answer:
                    result = (await answer.json())["data"]["result"]
                    if result and int(result[0]["value"][1]) == cards:
                        return
            except (aiohttp.ClientError, KeyError):
                pass
            await asyncio.sleep(0.5)
