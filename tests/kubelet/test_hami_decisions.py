"""From a HAMi pod to its containers: the scheduler decides, kubelet asks, our agent gives.

What test_hami_pods writes by hand is written here by kubeshare-scheduler itself. It is compared
with what containers get by HAMi's own annotations, as its tools read them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from tests.dialects import vendor_formats
from tests.embedded_cluster.embedded import PODS
from tests.fake_nvml.board import Board
from tests.kubelet.device_managers import Json, pod
from tests.kubelet.nodes import NODE, NVIDIA, VISIBLE, KubeletNode, kubelet_node
from tests.kubelet.test_hami_pods import HAMI, with_library
from tests.patience import PATIENCE_S
from tests.programs.commands import running

pytestmark = pytest.mark.real_only("asks kubelet's device manager, which is built with Go")
NewBoard = Callable[[str], Board]
MEM, PERCENT = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
CORES, PRIORITY = "nvidia.com/gpucores", "nvidia.com/priority"
CARD_MIB, CARDS = 15109, 4
CACHE, FOLDER = "CUDA_DEVICE_MEMORY_SHARED_CACHE", "/usr/local/vgpu"
Devices = list[tuple[str, int, int]]


def settings(folder: Path, board: Board) -> Json:
    """Cards are those of the board, HAMi's pods are held to their share by HAMi-core."""
    cards = [
        {"uuid": str(board.uuid(index)), "model": "Tesla-T4", "memory": f"{CARD_MIB}MiB"}
        for index in range(CARDS)
    ]
    file = folder / "cards.yaml"
    file.write_text(yaml.safe_dump({"nodes": [{"names": ["n1"], "cards": cards}]}))
    dialects = [{"name": "sharedgpu"}, {"name": "hami"}]
    return {
        "profiles": [{"dialects": dialects, "isolation": ["hami-core"]}],
        "inventory": {"source": "file", "path": str(file)},
        "server": {"bindAddress": "127.0.0.1", "port": 0, "apiService": False},
        "leaderElection": {"leaderElect": False},
    }


@asynccontextmanager
async def scheduled(folder: Path, board: Board) -> AsyncIterator[KubeletNode]:
    """The node n1 with HAMi-core, and a scheduler that knows its cards."""
    async with kubelet_node(folder, board, NVIDIA, **HAMI) as node:
        with_library(node)
        await node.expect_enforced("hami-core")
        _, free = await node.manager.capacity()
        offered = {"cpu": "8", "memory": "32Gi", "pods": "110", NVIDIA: str(free[NVIDIA])}
        status = {"status": {"allocatable": offered, "capacity": offered}}
        await node.client.merge_patch(f"{NODE}/status", status)
        (folder / "scheduler.yaml").write_text(yaml.safe_dump(settings(folder, board)))
        options = ("--config", "scheduler.yaml", "--kubeconfig", str(folder / "kubeconfig"))
        async with running(folder, "scheduler", *options):
            yield node


async def create(node: KubeletNode, name: str, **containers: Mapping[str, int]) -> None:
    """A pod as HAMi's users write it."""
    asking = pod(name, containers)
    spec = {**asking["spec"], "schedulerName": "kubeshare-scheduler"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await node.client.create(PODS, body)


async def placed(node: KubeletNode, name: str) -> tuple[Json, list[Devices]]:
    """The pod once it is bound, and the devices of each container."""
    last_look = asyncio.get_running_loop().time() + PATIENCE_S
    while not (stored := await node.client.get(f"{PODS}/{name}"))["spec"].get("nodeName"):
        assert asyncio.get_running_loop().time() < last_look, stored["status"]
        await asyncio.sleep(0.05)
    return stored, vendor_formats.hami_done(stored["metadata"]["annotations"], "n1")


def told(board: Board, devices: Devices) -> dict[str, str]:
    """What HAMi-core reads of limits: memory by the cards' order on the bus, cores of all."""
    order = [str(board.uuid(index)) for index in range(CARDS)]
    limits = sorted((order.index(uuid), mib) for uuid, mib, _ in devices)
    memory = {f"CUDA_DEVICE_MEMORY_LIMIT_{at}": f"{mib}m" for at, (_, mib) in enumerate(limits)}
    return {**memory, "CUDA_DEVICE_SM_LIMIT": str(devices[0][2])}


async def test_each_container_gets_what_the_scheduler_decided(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """Limits of each card, cores, priority, region and library; a card alone."""
    board = new_board("t4-box")
    async with scheduled(tmp_path, board) as node:
        two, half = {NVIDIA: 2, MEM: 2000, CORES: 30, PRIORITY: 1}, {NVIDIA: 1, PERCENT: 50}
        await create(node, "a", one=two, plain={}, other={**half, CORES: 40})
        stored, (first, nothing, second) = await placed(node, "a")
        assert [(mib, cores) for _, mib, cores in first] == [(2000, 30)] * 2
        assert (nothing, second[0][1:]) == ([], (CARD_MIB // 2, 40))
        await node.admit(stored)
        for name, devices in (("one", first), ("other", second)):
            seen = await node.sees(stored, name)
            assert {*seen[VISIBLE].split(",")} == {uuid for uuid, *_ in devices}
            limits = {key: text for key, text in seen.items() if "_LIMIT" in key}
            assert limits == told(board, devices)
            assert seen.get("CUDA_TASK_PRIORITY") == ("1" if name == "one" else None)
            assert (Path(seen[CACHE]).parent, Path(seen[CACHE]).suffix) == (Path(FOLDER), ".cache")
            mounts = await node.mounts(stored, name)
            own = f"{FOLDER}/containers/{stored['metadata']['uid']}_{name}"
            assert mounts[FOLDER] == (own, True)
            assert mounts["/etc/ld.so.preload"] == (f"{FOLDER}/ld.so.preload", False)
        await create(node, "whole", main={NVIDIA: 1})
        stored, [[(uuid, *amounts)]] = await placed(node, "whole")
        assert amounts == [CARD_MIB, 100]
        assert uuid not in {taken for taken, *_ in (*first, *second)}
        await node.admit(stored)
        assert (await node.sees(stored), await node.mounts(stored)) == ({VISIBLE: uuid}, {})


async def test_a_burst_of_one_size_gets_its_own_cards_without_a_lock(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board, names = new_board("t4-box"), [f"half-{number}" for number in range(2 * CARDS)]
    async with scheduled(tmp_path, board) as node:
        for name in names:
            await create(node, name, main={NVIDIA: 1, PERCENT: 50, CORES: 50})
        found = [await placed(node, name) for name in names]
        given = sorted(devices[0][0] for _, [devices] in found)
        assert given == sorted(2 * [str(board.uuid(index)) for index in range(CARDS)])
        # kubelet admits them in another order than that in which they were bound.
        for stored, _ in reversed(found):
            await node.admit(stored)
        for stored, [devices] in found:
            seen = await node.sees(stored)
            assert (seen[VISIBLE], seen["CUDA_DEVICE_SM_LIMIT"]) == (devices[0][0], "50")
            assert seen["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{CARD_MIB // 2}m"
        assert "hami.io/mutex.lock" not in (await node.client.get(NODE))["metadata"]["annotations"]
