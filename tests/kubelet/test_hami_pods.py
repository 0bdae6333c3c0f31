"""Pods as written for HAMi, with our agent, HAMi-core and kubelet's own device manager."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef
from tests.fake_nvml.board import Board
from tests.kubelet.device_managers import DeviceManagerRefused, Json, pod
from tests.kubelet.nodes import NVIDIA, VISIBLE, KubeletNode, kubelet_node

pytestmark = pytest.mark.real_only("asks kubelet's device manager, which is built with Go")
NewBoard = Callable[[str], Board]
MIB = 2**20
HAMI = {"gpu_slices": "10", "hami_core": ""}
Claim = tuple[GpuUuid, int]


def held(*containers: tuple[Claim, ...], cores: int = 30, exclusive: bool = False) -> Allocation:
    """What containers have of their cards, in MiB, and of their time, in hundredths."""
    claims = tuple(
        ClaimCharge(
            container=ContainerRef(init=False, index=at),
            cards=tuple(
                CardCharge(card, cores * 10, mib * MIB, exclusive=exclusive) for card, mib in each
            ),
            limit_milli=cores * 10,
        )
        for at, each in enumerate(containers)
        if each
    )
    return Allocation(
        token=DecisionToken("t"),
        dialect="hami",
        cards=summed(card for one in claims for card in one.cards),
        claims=claims,
        isolation=Isolation(IsolationBackend.HAMI_CORE, cores * 10),
    )


def with_library(node: KubeletNode) -> Path:
    folder = node.manager.root / "usr/local/vgpu"
    folder.mkdir(parents=True)
    (folder / "libvgpu.so").write_bytes(b"\x7fELF")
    return folder


def with_env(asking: Json, **variables: str) -> Json:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    asking["spec"]["containers"][0]["env"] = env
    return asking


async def test_cards_are_advertised_as_slices_and_the_node_says_so_c1(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, gpu_slices="10") as node:
        capacity, _ = await node.manager.capacity()
        await node.expect_held()
        report = await node.report()
    assert capacity[NVIDIA] % 10 == 0
    assert capacity[NVIDIA] > 10
    assert report["plugins"] == [f"{NVIDIA} as slices"]


async def test_each_container_gets_its_own_limits_and_region_c3(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """Two cards in the scheduler's order; the limits are in the order of the bus."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        vgpu = with_library(node)
        two = ((board.uuid(2), 2000), (board.uuid(0), 1000))
        asking = pod("a", {"one": {NVIDIA: 2, "nvidia.com/priority": 0}, "two": {NVIDIA: 1}})
        stored = await node.bind(asking, allocation=held(two, ((board.uuid(1), 500),)))
        await node.admit(stored)
        one, other = await node.sees(stored, "one"), await node.sees(stored, "two")
        mounts = await node.mounts(stored, "one")
        uid = stored["metadata"]["uid"]
        assert one[VISIBLE] == f"{board.uuid(2)},{board.uuid(0)}"
        assert one["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1000m"
        assert one["CUDA_DEVICE_MEMORY_LIMIT_1"] == "2000m"
        assert (one["CUDA_DEVICE_SM_LIMIT"], one["CUDA_TASK_PRIORITY"]) == ("30", "0")
        assert (other[VISIBLE], other["CUDA_DEVICE_MEMORY_LIMIT_0"]) == (board.uuid(1), "500m")
        assert "CUDA_TASK_PRIORITY" not in other
        assert {key: mounts[key] for key in ("/usr/local/vgpu", "/etc/ld.so.preload")} == {
            "/usr/local/vgpu": (f"/usr/local/vgpu/containers/{uid}_one", True),
            "/etc/ld.so.preload": ("/usr/local/vgpu/ld.so.preload", False),
        }
        await node.expect_names([f"{uid}_one", f"{uid}_two"], vgpu / "containers", "*")
        await node.expect_enforced("hami-core")


async def test_pods_of_one_size_that_start_at_once_are_not_confused_and_wait_for_no_lock(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """HAMi lets one pod at a time between its binding and Allocate, by a lock of the node."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        with_library(node)
        stored = []
        for number in range(8):
            asking = pod(f"p{number}", {"main": {NVIDIA: 1}})
            claim = ((board.uuid(number % 4), 100 + number),)
            stored.append(await node.bind(asking, allocation=held(claim)))
        for one in reversed(stored):
            await node.admit(one)
        for number, one in enumerate(stored):
            seen = await node.sees(one)
            assert seen[VISIBLE] == board.uuid(number % 4)
            assert seen["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{100 + number}m"


async def test_a_region_is_new_at_each_start_and_others_stay(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        vgpu = with_library(node)
        stored = await node.bind(
            pod("a", {"one": {NVIDIA: 1}, "two": {NVIDIA: 1}}),
            allocation=held(((board.uuid(0), 1),), ((board.uuid(0), 1),)),
        )
        await node.admit(stored)
        for name in ("one", "two"):
            await node.sees(stored, name)
            (vgpu / f"containers/{stored['metadata']['uid']}_{name}/x.cache").write_bytes(b"old")
        await node.kill_agent()
        await node.start_agent()
        await node.sees_at_last(stored, "one")
        old = f"{stored['metadata']['uid']}_two/x.cache"
        await node.expect_names([old], vgpu / "containers", "*/*.cache")


async def test_a_container_without_the_library_is_refused_until_it_is_there(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        stored = await node.bind(
            pod("a", {"main": {NVIDIA: 1}}), allocation=held(((board.uuid(0), 1),))
        )
        await node.admit(stored)
        with pytest.raises(DeviceManagerRefused, match=r"needs HAMi-core: .*no libvgpu\.so"):
            await node.sees(stored)
        with_library(node)
        assert (await node.sees(stored))[VISIBLE] == board.uuid(0)


async def test_an_agent_without_hami_core_starts_no_container_that_needs_it(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, gpu_slices="10") as node:
        stored = await node.bind(
            pod("a", {"main": {NVIDIA: 1}}), allocation=held(((board.uuid(0), 1),))
        )
        await node.admit(stored)
        with pytest.raises(DeviceManagerRefused, match="which this node's agent does not use"):
            await node.sees(stored)


async def test_a_container_may_do_without_the_library_and_whole_cards_have_none_h8_83(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        with_library(node)
        asking = with_env(pod("a", {"main": {NVIDIA: 1}}), CUDA_DISABLE_CONTROL="true")
        free = await node.bind(asking, allocation=held(((board.uuid(0), 1),)))
        whole = await node.bind(
            pod("b", {"main": {NVIDIA: 1}}),
            allocation=held(((board.uuid(1), 16000),), cores=100, exclusive=True),
        )
        for one in (free, whole):
            await node.admit(one)
        assert "/etc/ld.so.preload" not in await node.mounts(free)
        assert "/usr/local/vgpu/libvgpu.so" in await node.mounts(free)
        assert await node.mounts(whole) == {}
        assert await node.sees(whole) == {VISIBLE: board.uuid(1)}


async def test_a_container_has_as_many_devices_as_cards_h8_82(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """HAMi marks the pod as failed and releases the node; here it is refused in words."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        with_library(node)
        stored = await node.bind(
            pod("a", {"main": {NVIDIA: 2}}), allocation=held(((board.uuid(0), 1),))
        )
        await node.admit(stored)
        with pytest.raises(
            DeviceManagerRefused, match=r"has 2 devices of nvidia.com/gpu, and 1 card"
        ):
            await node.sees(stored)


async def test_a_pod_that_nobody_placed_gets_no_slice(tmp_path: Path, new_board: NewBoard) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        stored = await node.bind(pod("a", {"main": {NVIDIA: 1}}))
        await node.admit(stored)
        with pytest.raises(DeviceManagerRefused, match="needs a placement"):
            await node.sees(stored)
        await node.expect_held()
