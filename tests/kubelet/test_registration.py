"""Device plugins and kubelet's own device manager: known, listed, and known again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.kubelet.device_plugins import RegisteredPlugin
from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.node_agent.devices import MemoryUnit, MigStrategy, chosen, device_lists
from tests.kubelet.device_managers import DeviceManager, Wanted, device_manager, pod

pytestmark = pytest.mark.real_only("asks kubelet's device manager, which is built with Go")
GPU_MEM = "aliyun.com/gpu-mem"


class PlainAnswers:
    """Gives every container the same."""

    asks_before_start = False

    def preferred(self, free: Sequence[str], chosen: Sequence[str], size: int) -> list[str]:
        return sorted(free)[:size]

    def allocate(self, devices: Sequence[str]) -> wire.ContainerAllocateResponse:
        return wire.ContainerAllocateResponse(envs={"DEVICES": ",".join(sorted(devices))})

    async def before_start(self, devices: Sequence[str]) -> None:
        raise AssertionError("kubelet was not to ask")


@pytest.fixture
async def manager() -> AsyncIterator[DeviceManager]:
    async with device_manager() as running:
        yield running


@asynccontextmanager
async def plugin(manager: DeviceManager) -> AsyncIterator[RegisteredPlugin]:
    made = RegisteredPlugin(manager.plugins, GPU_MEM, PlainAnswers(), look_s=0.05)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.run())
        yield made
        task.cancel()


def show(plugin: RegisteredPlugin, *sizes: int, sick: Sequence[int] = ()) -> None:
    """Advertise cards of so many GiB."""
    cards = [
        Gpu(
            uuid=GpuUuid(f"GPU-{index}"),
            index=index,
            model="T4",
            memory_bytes=size << 30,
            healthy=index not in sick,
        )
        for index, size in enumerate(sizes)
    ]
    lists = device_lists(chosen([GPU_MEM], MemoryUnit.GIB), cards, MigStrategy.NONE)
    plugin.board.show(lists[GPU_MEM])


def is_gib(capacity: int, allocatable: int | None = None) -> Wanted:
    wanted = capacity if allocatable is None else allocatable
    return lambda all_of, free: (all_of.get(GPU_MEM), free.get(GPU_MEM)) == (capacity, wanted)


async def test_the_node_has_the_sum_of_its_cards(manager: DeviceManager) -> None:
    async with plugin(manager) as ours:
        show(ours, 7, 15)
        await manager.expect_capacity(is_gib(22))


async def test_a_sick_card_is_not_allocatable_until_it_is_well_again_g47(
    manager: DeviceManager,
) -> None:
    async with plugin(manager) as ours:
        show(ours, 7, 15)
        await manager.expect_capacity(is_gib(22))
        show(ours, 7, 15, sick=[1])
        await manager.expect_capacity(is_gib(22, 7))
        show(ours, 7, 15)
        await manager.expect_capacity(is_gib(22))


async def test_a_container_gets_as_many_devices_as_it_asks_for(manager: DeviceManager) -> None:
    async with plugin(manager) as ours:
        show(ours, 4)
        await manager.expect_capacity(is_gib(4))
        asking = pod("a", {"main": {GPU_MEM: 3}})
        await manager.ask(op="admit", pod=asking)
        given = await manager.started(asking, "main")
    assert given.variables == {"DEVICES": "0-0,0-1,0-2"}


async def test_a_restarted_kubelet_knows_the_plugin_again(manager: DeviceManager) -> None:
    async with plugin(manager) as ours:
        show(ours, 4)
        await manager.expect_capacity(is_gib(4))
        await manager.ask(op="restart")
        await manager.expect_capacity(is_gib(4))


async def test_a_killed_kubelet_knows_the_plugin_and_its_pods_again(
    manager: DeviceManager,
) -> None:
    async with plugin(manager) as ours:
        show(ours, 4)
        await manager.expect_capacity(is_gib(4))
        asking = pod("a", {"main": {GPU_MEM: 3}})
        await manager.ask(op="admit", pod=asking)
        before = await manager.started(asking, "main")
        await manager.kill()
        await manager.start([asking])
        await manager.expect_capacity(is_gib(4))
        assert await manager.started(asking, "main") == before


async def test_a_socket_that_is_gone_is_made_again(manager: DeviceManager) -> None:
    async with plugin(manager) as ours:
        show(ours, 4)
        await manager.expect_capacity(is_gib(4))
        [own] = manager.plugins.glob("kubeshare-*.sock")
        own.unlink()
        # Until it is registered again, kubelet hears of changes by the stream that it has.
        await manager.expect_capacity(lambda *_: ours.registrations == 2)
        show(ours, 5)
        await manager.expect_capacity(is_gib(5))


async def test_a_plugin_that_comes_before_kubelet_waits_for_it(manager: DeviceManager) -> None:
    await manager.kill()
    async with plugin(manager) as ours:
        show(ours, 4)
        await manager.start()
        await manager.expect_capacity(is_gib(4))
