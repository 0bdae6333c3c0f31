"""From the driver to the pod: nothing is simulated but driver, kubelets and network.

Fake boards are read by the real collector, started as the DaemonSet's pods say; a real Prometheus
scrapes it as deploy/prometheus.yaml says; the scheduler asks that, by the installed configuration,
and binds on a real API server.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import pytest

from kubeshare_py.edges.api_server import SCHEDULER
from kubeshare_py.simulation.environment import pod_environment
from kubeshare_py.simulation.loose_objects import LooseObject
from tests.collector.collectors import Collector, start
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.prometheus import NOT_HERE, find
from tests.controlplane.running import free_ports
from tests.controlplane.shipped import Json
from tests.deploy.conftest import NAME, PODS, Release, until
from tests.deploy.scraping import SELECTORS, Scraper, discovered, scraper
from tests.deploy.test_collector import available
from tests.fake_nvml.board import Board
from tests.fake_nvml.build import NO_COMPILER, build, compiler
from tests.programs.commands import running, until_said
from tests.stories.conftest import Stage, annotations, gpu

pytestmark = pytest.mark.real_only("it needs controllers, kube-scheduler, Helm and a Prometheus")

#: The board of each node.
BOARDS = {"dgx": "dgx-a100", "hgx": "hgx-h100-mig", "old": "broken-card"}
A100, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"
COLLECTORS = "kubeshare-collector"
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
def described() -> str:
    labelled = 'labels: {nvidia.com/gpu.present: "true"}'
    nodes = "\n".join(f"  - {{name: {node}, {labelled}}}" for node in BOARDS)
    return f"nodes:\n{nodes}\n  - {{name: plain}}\n"


@pytest.fixture
def boards(tmp_path: Path) -> dict[str, Board]:
    program = compiler()
    if program is None:
        pytest.skip(NO_COMPILER)
    library = build(tmp_path, program)
    return {node: Board(board, tmp_path, library) for node, board in BOARDS.items()}


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
        pod = await self.stage.running(name)
        return pod["spec"]["nodeName"], {*annotations(pod)["sharedgpu/gpu_uuid"].split(",")}


@pytest.fixture
async def whole(
    stage: Stage, release: Release, boards: dict[str, Board], tmp_path: Path
) -> AsyncIterator[Whole]:
    """Everything runs, and the scheduler knows all cards."""
    program = find()
    if program is None:
        pytest.skip(NOT_HERE)
    await stage.client.create(ACCOUNTS, {"metadata": {"name": "prometheus"}})
    token = await asyncio.to_thread(release.plane.token_of, "default", "prometheus")
    async with AsyncExitStack() as entered:
        enter = entered.enter_async_context
        session = await enter(aiohttp.ClientSession())
        asked = await enter(scraper(program, tmp_path, token))
        port = await configured(release, asked.url)
        await available(stage.client, len(BOARDS))
        agents = await pods_of(stage, COLLECTORS)
        collectors = {
            pod["spec"]["nodeName"]: await enter(collector_of(pod, boards, session))
            for pod in agents
        }
        addresses = {
            pod["metadata"]["name"]: collectors[pod["spec"]["nodeName"]].url.split("/")[2]
            for pod in agents
        }
        asked.scrape(COLLECTORS, discovered(agents, addresses))
        await enter(scheduler(stage, release, tmp_path))
        [pod] = await pods_of(stage, NAME)
        name = pod["metadata"]["name"]
        asked.scrape(NAME, discovered([pod], {name: f"127.0.0.1:{port}"}))
        found = Whole(stage=stage, boards=boards, collectors=collectors, prometheus=asked)
        await asked.until("kubeshare_cards", lambda values: values == {"": 8 + 9 + 3})
        yield found
        await stage.client.delete(f"{ACCOUNTS}/prometheus")


async def configured(release: Release, url: str) -> int:
    """Let the release know where Prometheus is and who it is; the port of its one scheduler."""
    [port] = free_ports(1)
    await release.upgrade(
        "replicas=1",
        f"config.server.port={port}",
        f'config.inventory={{"url": "{url}", "intervalSeconds": 0.5}}',
        'scrapers=[{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}]',
        # With it the API server may go on comparing with the Lease of the test before (install.md).
        "policies.fence=false",
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

    found: list[Json] = (await until(listed, settled))["pods"]
    return found


@asynccontextmanager
async def collector_of(
    pod: Json, boards: dict[str, Board], session: aiohttp.ClientSession
) -> AsyncIterator[Collector]:
    """The process in one pod of the DaemonSet, with the driver of its node; it reads often."""
    [container] = pod["spec"]["containers"]
    told = pod_environment(msgspec.convert(pod, LooseObject), "", "")[container["name"]]
    assert container["command"][1:] == ["-m", "kubeshare_cmd.collector"]
    process = await start(
        {**boards[pod["spec"]["nodeName"]].environment, **told},
        *container["args"],
        *("--address", "127.0.0.1", "--port", "0", "--interval", "0.2"),
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
async def scheduler(stage: Stage, release: Release, folder: Path) -> AsyncIterator[None]:
    """A scheduler with the installed configuration and rights, once it leads."""
    server = stage.cluster.server
    server.tokens[SCHEDULER] = await asyncio.to_thread(release.plane.token_of, NAMESPACE, NAME)
    kubeconfig = server.write_kubeconfig(folder / "of-scheduler", SCHEDULER)
    settings = (await stage.client.get(CONFIG))["data"]["scheduler.yaml"]
    (folder / "scheduler.yaml").write_text(settings)
    options = ("--config", "scheduler.yaml", "--kubeconfig", str(kubeconfig))
    async with running(folder, "scheduler", *options) as process:
        await until_said(process.stderr, '"event":"leads"')
        yield


def names(prefix: str, count: int) -> Iterator[str]:
    return (f"{prefix}-{number}" for number in range(count))


async def test_pods_get_the_cards_that_the_drivers_list(whole: Whole) -> None:
    await whole.ask("all-eight", "8", A100)
    assert await whole.got("all-eight") == ("dgx", whole.cards("dgx"))
    hgx = whole.boards["hgx"]
    # Two of its cards are divided: one into three instances, one into nothing yet.
    await whole.ask("undivided", "6", H100)
    undivided = whole.cards("hgx") - {hgx.uuid(0), hgx.uuid(1)}
    assert await whole.got("undivided") == ("hgx", undivided)
    for name in names("instance", 2):
        await whole.ask(name, "1", f"{H100}-MIG-1g.10gb")
    placed = [await whole.got(name) for name in names("instance", 2)]
    assert {node for node, _ in placed} == {"hgx"}
    assert sorted(uuid for _, [uuid] in placed) == sorted([hgx.part(0, 1), hgx.part(0, 3)])
    for name, model in zip(names("late", 3), (A100, H100, f"{H100}-MIG-1g.10gb"), strict=True):
        await whole.ask(name, "1", model)
        await whole.stage.waiting(name, "Insufficient GPU")
    # One of four cannot even tell how much memory it has.
    await whole.ask("four", "4", "NVIDIA-A100-PCIE-40GB")
    await whole.stage.waiting("four", "too few GPUs")


async def test_a_card_that_falls_off_the_bus_gets_nobody(whole: Whole) -> None:
    dgx = whole.boards["dgx"]
    await whole.ask("stays", "1", A100)
    _, [lost] = await whole.got("stays")
    [index] = [index for index in range(8) if dgx.uuid(index) == lost]
    dgx.lose(index)
    alert = 'ALERTS{alertname="KubeShareCardLost", node="dgx"}'
    await whole.prometheus.until(alert, lambda values: values == {lost: 1})
    await whole.prometheus.until("kubeshare_cards", lambda values: values == {"": 19})
    for name in names("next", 7):
        await whole.ask(name, "1", A100)
    given = [uuid for name in names("next", 7) for uuid in (await whole.got(name))[1]]
    assert {*given} == whole.cards("dgx") - {lost}
    await whole.ask("eighth", "1", A100)
    await whole.stage.waiting("eighth", "Insufficient GPU")
    assert (await whole.stage.pod("stays"))["status"]["phase"] == "Running"


async def test_the_cards_of_a_node_whose_collector_is_killed_are_kept(whole: Whole) -> None:
    await whole.collectors["dgx"].end(by_force=True)
    up = f'up{{job="{COLLECTORS}"}}'
    await whole.prometheus.until(up, lambda values: values == {"dgx": 0, "hgx": 1, "old": 1})
    alert = 'ALERTS{alertname="KubeShareCollectorDown"}'
    await whole.prometheus.until(alert, lambda values: values == {"dgx": 1})
    await whole.prometheus.until("kubeshare_silent_nodes", lambda values: values == {"": 1})
    await whole.ask("all-eight", "8", A100)
    assert await whole.got("all-eight") == ("dgx", whole.cards("dgx"))
