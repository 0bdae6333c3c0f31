"""From the driver to the scheduler: nothing is simulated but driver, kubelets and network.

Fake boards are read by the real collector, started as the DaemonSet's pods say; a real Prometheus
scrapes it as deploy/prometheus.yaml says; the scheduler asks that, by the installed configuration,
and binds on a real API server.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import pytest

from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.container_runtime import pod_environment
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.collector.collectors import Collector, start
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.prometheus import NOT_HERE, find
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.shipped import Json
from tests.deploy.conftest import NAME, PODS, Release, expect_eventually
from tests.deploy.scraping import SELECTORS, Scraper, discovered, scraper
from tests.deploy.test_collector import available
from tests.fake_nvml.board import Board
from tests.fake_nvml.build import NO_COMPILER, build, compiler
from tests.programs.commands import expect_said, running
from tests.stories.conftest import Stage, annotations, gpu

#: The board of each node.
BOARDS = {"dgx": "dgx-a100", "hgx": "hgx-h100-mig", "old": "broken-card"}
#: All their cards and instances.
CARDS = 8 + 9 + 3
COLLECTORS = "kubeshare-collector"
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def described() -> str:
    """A cluster file of nodes for the boards, and one without any."""
    labelled = 'labels: {nvidia.com/gpu.present: "true"}'
    nodes = "\n".join(f"  - {{name: {node}, {labelled}}}" for node in BOARDS)
    return f"nodes:\n{nodes}\n  - {{name: plain}}\n"


def made(folder: Path) -> dict[str, Board]:
    """The boards, by their nodes; skips where nothing can be compiled."""
    program = compiler()
    if program is None:
        pytest.skip(NO_COMPILER)
    library = build(folder, program)
    return {node: Board(board, folder, library) for node, board in BOARDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """All of it: what people do, the drivers of the nodes, their collectors, Prometheus."""

    stage: Stage
    boards: dict[str, Board]
    collectors: dict[str, Collector]
    prometheus: Scraper

    def cards(self, node: str) -> set[str]:
        """The uuids of a board's whole cards."""
        count = self.boards[node].lines["count"]
        return {self.boards[node].uuid(index) for index in range(int(str(count)))}

    async def ask(self, name: str, cards: str, model: str) -> None:
        """Create a pod that wants so many cards of this model."""
        await self.stage.create(name, gpu(cards, cards, gpu_model=model))

    async def got(self, name: str) -> tuple[str, set[str]]:
        """Node and cards of a pod, once it runs."""
        pod = await self.stage.expect_running(name)
        return pod["spec"]["nodeName"], {*annotations(pod)["sharedgpu/gpu_uuid"].split(",")}


@asynccontextmanager
async def assembled(
    stage: Stage, release: Release, boards: dict[str, Board], tmp_path: Path, *settings: str
) -> AsyncIterator[Whole]:
    """Everything runs while entered, and the scheduler knows all cards; `settings` of the chart."""
    program = find()
    if program is None:
        pytest.skip(NOT_HERE)
    await stage.client.create(ACCOUNTS, {"metadata": {"name": "prometheus"}})
    token = await asyncio.to_thread(release.plane.token_of, "default", "prometheus")
    async with AsyncExitStack() as entered:
        enter = entered.enter_async_context
        session = await enter(aiohttp.ClientSession())
        asked = await enter(scraper(program, tmp_path, token))
        port = await configured(release, asked.url, *settings)
        await available(stage.client, len(BOARDS))
        agents = await pods_of(stage, COLLECTORS)
        collectors = {
            pod["spec"]["nodeName"]: await enter(
                collector_of(pod, boards, session, root_of(tmp_path, pod))
            )
            for pod in agents
        }
        addresses = {
            pod["metadata"]["name"]: collectors[pod["spec"]["nodeName"]].url.split("/")[2]
            for pod in agents
        }
        asked.scrape(COLLECTORS, discovered(agents, addresses))
        await enter(scheduler(stage, release.plane, tmp_path))
        [pod] = await pods_of(stage, NAME)
        name = pod["metadata"]["name"]
        asked.scrape(NAME, discovered([pod], {name: f"127.0.0.1:{port}"}))
        found = Whole(stage=stage, boards=boards, collectors=collectors, prometheus=asked)
        await asked.expect_eventually("kubeshare_cards", lambda values: values == {"": CARDS})
        yield found
        await stage.client.delete(f"{ACCOUNTS}/prometheus")


async def configured(release: Release, url: str, *settings: str) -> int:
    """Let the release know where Prometheus is and who it is; the port of its one scheduler."""
    [port] = free_ports(1)
    await release.upgrade(
        "replicas=1",
        f"config.server.port={port}",
        f'config.inventory={{"url": "{url}", "intervalSeconds": 0.5}}',
        'scrapers=[{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}]',
        *settings,
        wait=True,
    )
    return port


async def pods_of(stage: Stage, job: str) -> list[Json]:
    """Those that a job's discovery finds, once all of them run."""

    async def listed() -> Json:
        return {"pods": await stage.client.list_all(PODS, {"labelSelector": SELECTORS[job]})}

    def settled(found: Json) -> bool:
        phases = {pod["status"].get("phase") for pod in found["pods"]}
        ending = [pod for pod in found["pods"] if "deletionTimestamp" in pod["metadata"]]
        return phases == {"Running"} and not ending

    found: list[Json] = (await expect_eventually(listed, settled))["pods"]
    return found


def root_of(folder: Path, pod: Json) -> Path:
    """The folders of the node that a pod sees, made where its kubelet makes them."""
    root = folder / "nodes" / str(pod["spec"]["nodeName"])
    for volume in pod["spec"].get("volumes", ()):
        if volume.get("hostPath", {}).get("type") == "DirectoryOrCreate":
            (root / volume["hostPath"]["path"][1:]).mkdir(parents=True, exist_ok=True)
    return root


@asynccontextmanager
async def collector_of(
    pod: Json, boards: dict[str, Board], session: aiohttp.ClientSession, root: Path
) -> AsyncIterator[Collector]:
    """The process in one pod of the DaemonSet, with the driver of its node; it reads often."""
    [container] = pod["spec"]["containers"]
    told = pod_environment(msgspec.convert(pod, UnstructuredObject), "", "")[container["name"]]
    assert container["command"][1:] == ["-m", "kubeshare_cmd.collector"]
    process = await start(
        {**boards[pod["spec"]["nodeName"]].environment, **told},
        *container["args"],
        *("--address", "127.0.0.1", "--port", "0", "--interval", "0.2", "--root", str(root)),
    )
    found = Collector(process, session)
    try:
        await found.listens()
        async with asyncio.TaskGroup() as group:
            log = group.create_task(read_to_the_end(found))
            yield found
            if process.returncode is None:
                await found.end()
            await log
    finally:
        if process.returncode is None:
            await found.end(by_force=True)
        await process.communicate()


async def read_to_the_end(found: Collector) -> None:
    while await found.logged():
        pass


@asynccontextmanager
async def scheduler(stage: Stage, plane: ControlPlane, folder: Path) -> AsyncIterator[None]:
    """A scheduler with the installed configuration and rights, once it leads."""
    server = stage.cluster.server
    server.tokens[SCHEDULER] = await asyncio.to_thread(plane.token_of, NAMESPACE, NAME)
    kubeconfig = server.write_kubeconfig(folder / "of-scheduler", SCHEDULER)
    settings = (await stage.client.get(CONFIG))["data"]["scheduler.yaml"]
    (folder / "scheduler.yaml").write_text(settings)
    options = ("--config", "scheduler.yaml", "--kubeconfig", str(kubeconfig))
    async with running(folder, "scheduler", *options) as process:
        await expect_said(process.stderr, '"event":"leads"')
        yield
