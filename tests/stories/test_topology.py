"""Pods of several cards on boards of a fake driver, told by collectors as they run on nodes."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kubeshare_py.domain.values import replace
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode, read_cluster
from kubeshare_py.programs.kubectl_kubeshare import UNREACHABLE
from tests.collector.collectors import collector
from tests.conftest import NewCluster
from tests.controlplane.prometheus import NOT_HERE, find, prometheus
from tests.controlplane.running import free_ports
from tests.fake_nvml.board import Board
from tests.fake_nvml.build import NO_COMPILER, build, compiler
from tests.patience import PATIENCE_S
from tests.stories.command import kubectl_kubeshare
from tests.stories.conftest import Json, Stage, card, gpu
from tests.stories.gang_pods import gang
from tests.stories.observer import Observer
from tests.stories.scraping import start_collector

CLUSTER = """
nodes:
  - {name: dgx, gpus: [{model: Tesla-V100-SXM2-16GB, count: 8, memory: 16384MiB}]}
  - {name: hgx, gpus: [{model: NVIDIA-H100-80GB-HBM3, count: 8, memory: 81559MiB}]}
"""
NAMES = {"dgx": "dgx-1v", "hgx": "hgx-h100"}
HOSTS = {"dgx": "127.0.0.2", "hgx": "127.0.0.3"}
QUADS = ((0, 1, 2, 3), (4, 5, 6, 7))
#: The double links of a DGX-1V.
DOUBLES = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
TOPOLOGY = {"command": "gpus", "topology": True}
ON_DGX = {"nodeSelector": {"kubernetes.io/hostname": "dgx"}}


class Boards:
    """The cluster's boards, and the collectors on them."""

    def __init__(self, stage: Stage, boards: dict[str, Board], urls: dict[str, str]) -> None:
        self.stage, self.boards, self.urls = stage, boards, urls
        (port,) = {int(url.split(":")[2].split("/")[0]) for url in urls.values()}
        self.port = port

    async def cards(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Node and card indices of a pod, once it runs."""
        pod = await self.stage.expect_running(name)
        node = pod["spec"]["nodeName"]
        uuids = card(pod).split(",")
        return node, tuple(at for at in range(8) if self.boards[node].uuid(at) in uuids)

    async def placed(self, name: str, request: str, **spec: Any) -> tuple[str, tuple[int, ...]]:
        """A new pod's node and cards."""
        await self.stage.create(name, gpu(request, request if request >= "1" else "1.0"), **spec)
        return await self.cards(name)

    async def ask(self, **question: Any) -> str:
        """What kubectl kubeshare says."""
        kubeconfig = self.stage.cluster.server.write_kubeconfig(self.stage.folder / "asks", "admin")
        async with asyncio.timeout(PATIENCE_S):
            # The API server trusts a scheduler's certificate a moment after it has started.
            while (answer := await kubectl_kubeshare(kubeconfig, **question))[0] == UNREACHABLE:
                pass
        code, shown, said = answer
        assert code == 0, said
        return shown


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = compiler()
    if program is None:
        pytest.skip(NO_COMPILER)
    return build(tmp_path_factory.mktemp("nvml"), program)


@pytest.fixture
async def boards(tmp_path: Path, library: Path, new_cluster: NewCluster) -> AsyncIterator[Boards]:
    """A cluster of both boards without a scheduler; the observer knows their cards."""
    made = {node: Board(name, tmp_path, library) for node, name in NAMES.items()}
    nodes = [on_board(node, made[node.name]) for node in read_cluster(CLUSTER)]
    observer = Observer(nodes)
    (port,) = free_ports(1)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(new_cluster(tmp_path, nodes))
        urls = {}
        for node, board in made.items():
            where = ("--node-name", node, "--address", HOSTS[node], "--port", str(port))
            told = collector(board.environment, 0.5, 30.0, *where)
            urls[node] = (await stack.enter_async_context(told)).url
        stage = Stage(cluster, nodes, tmp_path, observer)
        for node, host in HOSTS.items():
            await start_collector(stage, node, host)
        yield Boards(stage, made, urls)
    assert not observer.problems


def on_board(node: SimulatedNode, board: Board) -> SimulatedNode:
    cards = tuple(replace(one, uuid=board.uuid(one.index)) for one in node.cards)
    return replace(node, cards=cards)


Scheduling = Callable[[Boards], Any]


@asynccontextmanager
async def scraping(boards: Boards) -> AsyncIterator[None]:
    inventory = {
        "source": "scrape",
        "namespace": "default",
        "port": boards.port,
        "intervalSeconds": 0.5,
    }
    async with boards.stage.scheduler(document(inventory)):
        yield


@asynccontextmanager
async def by_prometheus(boards: Boards) -> AsyncIterator[None]:
    program = find()
    if program is None:
        pytest.skip(NOT_HERE)
    async with prometheus(program, boards.urls, boards.stage.folder) as url:
        boards.stage.cluster.collectors.url = url
        async with boards.stage.scheduler():
            await boards.stage.warm_up()
            # Prometheus scrapes one of them before the other.
            async with asyncio.timeout(PATIENCE_S):
                while not {"NV2", "NV18"} <= {*(await boards.ask(**TOPOLOGY)).split()}:
                    pass
            yield


def document(inventory: Json) -> Json:
    return {"inventory": inventory, "leaderElection": {"leaderElect": False}}


SOURCES = [
    pytest.param(scraping, id="scrape"),
    pytest.param(
        by_prometheus,
        id="prometheus",
        marks=pytest.mark.real_only("it needs a Prometheus, which `make e2e` finds or fetches"),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("scheduling", SOURCES)
async def test_pods_get_the_cards_that_are_joined_best(
    boards: Boards, scheduling: Scheduling
) -> None:
    async with scheduling(boards):
        node, first = await boards.placed("share", "0.5", **ON_DGX)
        assert await boards.placed("more", "0.3", **ON_DGX) == (node, first)
        (whole,) = (quad for quad in QUADS if first[0] not in quad)
        (broken,) = (quad for quad in QUADS if first[0] in quad)
        # The other quad is still whole: shares left it alone.
        assert await boards.placed("four", "4", **ON_DGX) == ("dgx", whole)
        _, pair = await boards.placed("two", "2", **ON_DGX)
        assert pair in DOUBLES
        assert {*pair} <= {*broken} - {*first}
        shown = await boards.ask(names=("dgx",), **TOPOLOGY)
        assert "GPU0  X     NV1   NV1   NV2   NV2   SYS   SYS   SYS   0" in shown.splitlines()
        in_use = r"GPU0 GPU1 GPU2 GPU3 \(in use, .*\); GPU4 GPU5 GPU6 GPU7 \(in use, "
        assert re.search(in_use, shown)
        told = await boards.ask(command="why", names=("four",))
        assert "joined: 3 pairs by NV1, 3 pairs by NV2; the slowest hop" in told


@pytest.mark.slow
async def test_a_gang_gets_a_quad_and_who_replaces_a_dead_member_comes_back_to_it(
    boards: Boards,
) -> None:
    async with scraping(boards):
        stage = boards.stage
        _, first = await boards.placed("share", "0.5", **ON_DGX)
        (home,) = (quad for quad in QUADS if first[0] not in quad)
        names = [f"train-{number}" for number in range(4)]
        for name in names:
            await stage.create(name, gang("train", 4), **ON_DGX)
        found = {name: (await boards.cards(name))[1] for name in names}
        # Each for itself they would fill up the quad that is broken.
        assert sorted(card for cards in found.values() for card in cards) == [*home]
        others = [(await boards.placed(name, "1.0", **ON_DGX))[1] for name in ("one", "two")]
        assert not {*home} & {card for cards in others for card in cards}
        await stage.expect_deleted("train-2")
        # A card of each quad is idle; a pod of no gang gets the lower one.
        await stage.create("train-4", gang("train", 4), **ON_DGX)
        assert (await boards.cards("train-4"))[1] == found["train-2"]


@pytest.mark.slow
async def test_cards_behind_switches_are_all_alike_and_faster(boards: Boards) -> None:
    async with scraping(boards):
        assert (await boards.placed("four", "4"))[0] == "hgx"
        assert (await boards.placed("four-more", "4"))[0] == "hgx"
        assert await boards.placed("eight", "8") == ("dgx", tuple(range(8)))
        shown = await boards.ask(names=("hgx",), **TOPOLOGY)
        words = [line.split() for line in shown.splitlines()[2:10]]
        assert all(words[one][other + 1] == "NV18" for one, other in combinations(range(8), 2))
        assert "GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 (in use, none idle)" in shown


@pytest.mark.slow
async def test_pods_that_ask_for_it_stay_near_one_numa_node(boards: Boards) -> None:
    async with scraping(boards):
        here = {"nodeSelector": {"kubernetes.io/hostname": "hgx"}}
        await boards.stage.create("share", gpu("0.5"), **here)
        _, (used,) = await boards.cards("share")
        await boards.stage.create("two", gpu("2", "2", numa_bind="true"), **here)
        _, cards = await boards.cards("two")
        (near,) = (quad for quad in QUADS if used in quad)
        assert {*cards} <= {*near}
        # Five are idle, four of them near one NUMA node.
        await boards.stage.create("five", gpu("5", "5", numa_bind="true"), **here)
        assert "too few GPUs of one NUMA node" in await boards.stage.expect_waiting("five")
