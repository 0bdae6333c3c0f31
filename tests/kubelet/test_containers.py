"""What containers get of the device plugins, with kubelet's own device manager."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from kubeshare_py.edges.node.kubelet.container_starts import FILE, cdi_device
from kubeshare_py.edges.node.kubelet.device_plugins import RegisteredPlugin
from kubeshare_py.edges.node.kubelet.plugin_server import calling
from kubeshare_py.edges.node.kubelet.wire import deviceplugin_pb2 as wire
from kubeshare_py.node_agent.devices import KNOWN, CardDevices, DeviceList
from tests.fake_nvml.board import Board
from tests.kubelet.device_managers import DeviceManagerRefused, pod
from tests.kubelet.nodes import (
    CORE,
    GPU_COUNT,
    GPU_MEM,
    MEMORY,
    NVIDIA,
    VISIBLE,
    kubelet_node,
)
from tests.kubelet.test_registration import PlainAnswers

pytestmark = pytest.mark.real_only("asks kubelet's device manager, which is built with Go")
NewBoard = Callable[[str], Board]


class UuidDevices(DeviceList, frozen=True, gc=False):
    """Devices that are cards."""

    def devices(self) -> Iterator[tuple[str, bool]]:
        return ((one.card, one.healthy) for one in self.cards)


REFUSED = "has no GPU allocation: a pod with aliyun.com/gpu-mem needs a placement"


async def test_containers_of_a_placed_pod_see_its_card_g49(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, GPU_MEM, GPU_COUNT) as node:
        asking = pod("a", {"one": {GPU_MEM: 1, GPU_COUNT: 1}, "two": {GPU_MEM: 2}})
        told = {f"ALIYUN_COM_GPU_MEM_{name}": n for name, n in {"IDX": "1", "POD": "3"}.items()}
        stored = await node.bind(asking, [board.uuid(1)], annotations=told)
        await node.admit(stored)
        one, two = await node.sees(stored, "one"), await node.sees(stored, "two")
    assert one == {VISIBLE: board.uuid(1), "ALIYUN_COM_GPU_MEM_CONTAINER": "1", **told}
    assert two == {VISIBLE: board.uuid(1), "ALIYUN_COM_GPU_MEM_CONTAINER": "2", **told}


async def test_pods_of_one_size_are_not_confused_g50(tmp_path: Path, new_board: NewBoard) -> None:
    """Alibaba's plugin gives the older pod's card to whichever container kubelet starts first."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, GPU_MEM) as node:
        a = await node.bind(pod("a", {"one": {GPU_MEM: 3}, "two": {GPU_MEM: 3}}), [board.uuid(0)])
        b = await node.bind(pod("b", {"main": {GPU_MEM: 3}}), [board.uuid(1)])
        await node.admit(b)
        await node.admit(a)
        seen = [(await node.sees(a, name))[VISIBLE] for name in ("two", "one")]
        assert seen == [board.uuid(0)] * 2
        assert (await node.sees(b))[VISIBLE] == board.uuid(1)


async def test_devices_that_were_never_offered_are_refused_and_nothing_changes(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """Also where kubelet's checkpoint says that a container has them."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA) as node:
        stored = await node.bind(pod("a", {"main": {NVIDIA: 1}}))
        await node.admit(stored)
        assert (await node.sees(stored))[VISIBLE].startswith("GPU-")
        root = node.manager.root
        kept = [*(root / "var/run/cdi").iterdir(), root / "var/lib/kubeshare/device-plugins.json"]
        before = {path: path.stat().st_mtime_ns for path in kept}
        plugins = root / "var/lib/kubelet/device-plugins"
        [socket] = plugins.glob("kubeshare*.sock")
        checkpoint = plugins / FILE
        whole = checkpoint.read_bytes()
        stored_one = json.loads(whole)
        [entry] = stored_one["Data"]["PodDeviceEntries"]
        forged = wire.ContainerAllocateResponse(cdi_devices=[{"name": cdi_device("0" * 32)}])
        entry |= {
            "DeviceIDs": {"-1": ["77-0"]},
            "AllocResp": base64.b64encode(forged.SerializeToString()).decode(),
        }
        said = []
        async with calling(socket) as channel:
            for devices in ([], ["GPU-1"], ["77-0"], ["0-0", "0-0"]):
                said.append(await refusal(channel, "PreStartContainer", devices))
            said.append(await refusal(channel, "Allocate", ["77-0"]))
            checkpoint.write_text(json.dumps(stored_one))
            said.append(await refusal(channel, "PreStartContainer", ["77-0"]))
            checkpoint.write_bytes(whole)
        assert said[-1] == said[-2] == "this node offers no such devices of nvidia.com/gpu: 77-0"
        assert {path: path.stat().st_mtime_ns for path in kept} == before
        assert len([*(root / "var/run/cdi").iterdir()]) == 1


async def refusal(channel: grpc.aio.Channel, method: str, devices: list[str]) -> str:
    """Why the plugin refuses these devices."""
    request: Any = wire.PreStartContainerRequest(devices_ids=devices)
    if method == "Allocate":
        each = wire.ContainerAllocateRequest(devices_ids=devices)
        request = wire.AllocateRequest(container_requests=[each])
    call = channel.unary_unary(
        f"/v1beta1.DevicePlugin/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=lambda raw: raw,
    )
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call(request)
    return error.value.details() or ""


async def test_a_pod_without_a_placement_is_refused_until_it_has_one_g53(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, GPU_MEM) as node:
        stored = await node.bind(pod("a", {"main": {GPU_MEM: 3}}))
        await node.admit(stored)
        with pytest.raises(DeviceManagerRefused, match=REFUSED):
            await node.sees(stored)
        placed = await node.bind(pod("b", {"main": {GPU_MEM: 1}}), [board.uuid(0)])
        told = placed["metadata"]["annotations"]
        await node.client.merge_patch(
            "/api/v1/namespaces/default/pods/a", {"metadata": {"annotations": told}}
        )
        assert (await node.sees(stored))[VISIBLE] == board.uuid(0)


async def test_each_container_sees_its_own_cards_g65_g88(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """Core and memory together, which elastic-gpu-agent cannot serve in one container."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, CORE, MEMORY) as node:
        asking = pod("a", {"whole": {CORE: 200}, "part": {CORE: 20, MEMORY: 256}, "none": {}})
        claims = {0: [board.uuid(0), board.uuid(1)], 1: [board.uuid(2)]}
        stored = await node.bind(asking, claims=claims)
        await node.admit(stored)
        assert await node.sees(stored, "whole") == {VISIBLE: f"{board.uuid(0)},{board.uuid(1)}"}
        assert await node.sees(stored, "part") == {VISIBLE: board.uuid(2)}
        assert await node.sees(stored, "none") == {}


async def test_a_pod_that_the_old_scheduler_bound_sees_the_cards_of_its_indices(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """Nano GPU names a card by its index on the node, in an annotation of the container."""
    board = new_board("t4-box")
    nano = {"elasticgpu.io/assumed": "true", "elasticgpu.io/container-main": "1,2"}
    async with kubelet_node(tmp_path, board, CORE, NVIDIA) as node:
        b = await node.bind(pod("b", {"main": {CORE: 200}}), annotations=nano)
        c = await node.bind(pod("c", {"main": {NVIDIA: 3}}))
        for one in (b, c):
            await node.admit(one)
        assert (await node.sees(b))[VISIBLE] == f"{board.uuid(1)},{board.uuid(2)}"
        rest = {board.uuid(index) for index in (0, 3, 4, 5)}
        assert {*(await node.sees(c))[VISIBLE].split(",")} < rest


async def test_init_containers_see_their_pods_card(tmp_path: Path, new_board: NewBoard) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, GPU_MEM) as node:
        asking = pod("a", {"main": {GPU_MEM: 2}}, init={"first": {GPU_MEM: 4}})
        stored = await node.bind(asking, [board.uuid(1)])
        await node.admit(stored)
        assert (await node.sees(stored, "first"))[VISIBLE] == board.uuid(1)
        assert (await node.sees(stored))[VISIBLE] == board.uuid(1)


@pytest.mark.parametrize(("asked", "sidecars"), [(4, []), (2, []), (4, ["first"])])
async def test_an_init_container_of_gpushare_that_asks_starts_without_a_card(
    tmp_path: Path, new_board: NewBoard, asked: int, sidecars: list[str]
) -> None:
    """gpushare counts the others only, so an init container holds nothing."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, GPU_MEM) as node:
        init = {"first": {GPU_MEM: asked}}
        asking = pod("a", {"main": {GPU_MEM: 2}}, init=init, sidecars=sidecars)
        stored = await node.bind(asking, claims={0: [board.uuid(1)]})
        await node.admit(stored)
        assert (await node.sees(stored, "first"))[VISIBLE] == "void"
        assert (await node.sees(stored))[VISIBLE] == board.uuid(1)


async def test_a_pod_of_another_scheduler_gets_a_card_that_nobody_holds(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, GPU_MEM) as node:
        ours = await node.bind(pod("ours", {"main": {GPU_MEM: 1}}), [board.uuid(0)])
        await node.admit(ours)
        assert (await node.sees(ours))[VISIBLE] == board.uuid(0)
        native = await node.bind(pod("native", {"main": {NVIDIA: 2}}))
        await node.admit(native)
        seen = (await node.sees(native))[VISIBLE].split(",")
        # The last idle cards, which the scheduler holds back for it.
        assert seen == [board.uuid(4), board.uuid(5)]
        await node.expect_held(native=[*seen])
        await node.kill_agent()
        await node.start_agent()
        await node.expect_held(native=[*seen])
        assert (await node.sees_at_last(native))[VISIBLE].split(",") == seen
        await node.delete(native)
        await node.expect_held()


async def test_cards_that_another_plugin_gave_are_told(tmp_path: Path, new_board: NewBoard) -> None:
    """As NVIDIA's: its devices are the cards' uuids. The agent serves nothing here."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board) as node, asyncio.TaskGroup() as group:
        theirs = RegisteredPlugin(node.manager.plugins, NVIDIA, PlainAnswers(), look_s=0.05)
        task = group.create_task(theirs.run())
        cards = tuple(CardDevices(board.uuid(at), at, 0, 1, healthy=True) for at in range(4))
        theirs.board.show(UuidDevices(KNOWN[NVIDIA], cards))
        await node.manager.expect_capacity(lambda all_of, free: free.get(NVIDIA) == 4)
        stored = await node.bind(pod("native", {"main": {NVIDIA: 2}}))
        await node.admit(stored)
        given = (await node.manager.started(stored, "main")).variables["DEVICES"].split(",")
        await node.expect_held(native=given)
        await node.kill_agent()
        await node.start_agent()
        await node.delete(stored)
        await node.expect_held()
        task.cancel()


async def test_cards_with_shares_are_taken_until_the_last_share_ends(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """SharePods are beside native pods without dummy pods that hold their cards."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA) as node:
        count = 6
        shares = [
            await node.bind(pod(f"share-{at}", {"main": {}}), [board.uuid(0)]) for at in (1, 2)
        ]
        for share in shares:
            await node.admit(share)
        await node.manager.expect_capacity(lambda _, free: free[NVIDIA] == count - 1)
        native = await node.bind(pod("native", {"main": {NVIDIA: count - 1}}))
        await node.admit(native)
        seen = (await node.sees(native))[VISIBLE].split(",")
        assert board.uuid(0) not in seen
        with pytest.raises(DeviceManagerRefused):
            await node.admit(await node.bind(pod("early", {"main": {NVIDIA: 1}})))
        for share in shares:
            await node.delete(share)
        await node.manager.expect_capacity(lambda _, free: free[NVIDIA] == count)
        late = await node.bind(pod("late", {"main": {NVIDIA: 1}}))
        await node.admit(late)
        assert (await node.sees(late))[VISIBLE] == board.uuid(0)


async def test_a_placed_pod_gets_the_schedulers_card_by_the_native_name(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA) as node:
        stored = await node.bind(pod("a", {"main": {NVIDIA: 1}}), [board.uuid(2)])
        await node.admit(stored)
        assert (await node.sees(stored))[VISIBLE] == board.uuid(2)
        await node.expect_held()


async def test_instances_are_given_by_their_profile(tmp_path: Path, new_board: NewBoard) -> None:
    board = new_board("a100-mig")
    name = "nvidia.com/mig-1g.5gb"
    strategy = {"mig_strategy": "mixed", "awaits": name}
    async with kubelet_node(tmp_path, board, NVIDIA, **strategy) as node:
        stored = await node.bind(pod("a", {"main": {name: 1}}))
        await node.admit(stored)
        seen = (await node.sees(stored))[VISIBLE]
        assert seen.startswith("MIG-")
        await node.expect_held(a=[seen])


async def test_the_agent_says_what_it_serves_and_in_which_unit(
    tmp_path: Path, new_board: NewBoard
) -> None:
    async with kubelet_node(tmp_path, new_board("t4-box"), GPU_MEM, memory_unit="MiB") as node:
        await node.expect_held()
        report = await node.report()
    assert (report["plugins"], report["unit"]) == ([GPU_MEM], {GPU_MEM: "MiB"})
