"""What others do past the scheduler is charged as pods say it, told, counted, and ends."""

import json
from typing import Any

import pytest

from tests.stories.conftest import PODS, Json, Stage, annotations, gpu
from tests.stories.scheduler_port import port_of
from tests.stories.test_operations import scraped

HERE: Json = {"nodeName": "n1"}
TROUBLES = "kubeshare_allocation_warnings_total"
CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


def allocation(stage: Stage, milli: int, port: int = 50500) -> dict[str, str]:
    """Result annotations as the scheduler would write them, for a share of the one card."""
    [uuid] = [card.uuid for node in stage.nodes for card in node.cards]
    memory = (16 << 30) * milli // 1000
    claim = {"uuid": uuid, "milli": milli, "bytes": memory, "model": "T4"}
    placed = {"v": 1, "token": "forged-1", "dialect": "sharedgpu", "claims": [claim], "port": port}
    text = json.dumps(placed)
    results = {"allocation": text, "gpu_uuid": uuid, "gpu_mem": str(memory)}
    more = {"gpu_manager_port": str(port)}
    return {f"sharedgpu/{name}": value for name, value in {**results, **more}.items()}


async def intruder(stage: Stage, name: str, milli: int, **spec: Any) -> Json:
    """A pod that is created on the node, with an allocation of its own."""
    labels = gpu(f"0.{milli}")
    return await stage.create(name, labels, annotations=allocation(stage, milli), **HERE, **spec)


@pytest.mark.slow
async def test_more_than_a_card_has_is_told_until_it_is_right_again(stage: Stage) -> None:
    await stage.create("ours", gpu("0.6"))
    await stage.expect_running("ours")
    await intruder(stage, "theirs", 700)
    told = await stage.expect_event("theirs", "AllocationNotOurs")
    assert (told["type"], told["action"]) == ("Warning", "Charging")
    over = await stage.expect_event("n1", "GPUOvercommitted")
    assert (over["type"], over["regarding"]["kind"]) == ("Warning", "Node")
    assert "default/ours, default/theirs hold 1300 of 1000 thousandths" in over["note"]
    shown = await scraped(await port_of(stage))
    assert shown["kubeshare_overcommitted_cards",] == 1
    assert shown[TROUBLES, "AllocationNotOurs"] == 1
    await stage.create("small", gpu("0.1"))
    assert "Insufficient GPU" in await stage.expect_waiting("small")
    assert stage.observer.problems
    await stage.expect_deleted("theirs")
    await stage.expect_running("small")
    ended = await stage.expect_event("n1", "GPUOvercommitEnded")
    assert ended["type"] == "Normal"
    stage.observer.problems.clear()
    shown = await scraped(await port_of(stage))
    assert shown["kubeshare_overcommitted_cards",] == 0


@pytest.mark.slow
async def test_a_card_that_a_pod_has_for_itself_and_a_port_that_a_pod_has_are_guarded(
    stage: Stage,
) -> None:
    await stage.create("holder", gpu("0.1"))
    port = int(annotations(await stage.expect_running("holder"))["sharedgpu/gpu_manager_port"])
    taken = allocation(stage, 0, port)
    await stage.create("thief", gpu("0.1"), annotations=taken, **HERE)
    shared = await stage.expect_event("n1", "PodManagerPortShared")
    assert (shared["type"], shared["regarding"]["kind"]) == ("Warning", "Node")
    assert f"port {port} is held by default/holder, default/thief at once" in shared["note"]
    alone = allocation(stage, 500, port + 1)
    forged = json.loads(alone["sharedgpu/allocation"]) | {"exclusive": True}
    alone["sharedgpu/allocation"] = json.dumps(forged)
    await stage.create("alone", gpu("0.5"), annotations=alone, **HERE)
    broken = await stage.expect_event("n1", "GPUExclusivityBroken")
    assert (
        "exclusively by default/alone, but also by default/holder, default/thief"
        in (broken["note"])
    )
    shown = await scraped(await port_of(stage))
    assert shown["kubeshare_unexclusive_cards",] == 1
    assert shown["kubeshare_shared_ports",] == 1
    for name in ("thief", "holder"):
        await stage.expect_deleted(name)
    for reason in ("PodManagerPortFreed", "GPUExclusivityRestored"):
        assert (await stage.expect_event("n1", reason))["type"] == "Normal"
    shown = await scraped(await port_of(stage))
    assert shown["kubeshare_unexclusive_cards",] == shown["kubeshare_shared_ports",] == 0
    stage.observer.problems.clear()


async def test_an_allocation_that_somebody_else_wrote_is_charged_as_it_says(stage: Stage) -> None:
    await intruder(stage, "theirs", 700)
    await stage.expect_event("theirs", "AllocationNotOurs")
    await stage.create("rest", gpu("0.3"))
    await stage.expect_running("rest")
    await stage.create("more", gpu("0.1"))
    assert "Insufficient GPU" in await stage.expect_waiting("more")


async def test_it_does_not_matter_who_is_said_to_schedule_it(stage: Stage) -> None:
    await intruder(stage, "theirs", 700, schedulerName="default-scheduler")
    await stage.expect_event("theirs", "AllocationNotOurs")
    await stage.create("big", gpu("0.4"))
    assert "Insufficient GPU" in await stage.expect_waiting("big")


async def test_an_allocation_that_nobody_understands_is_told(stage: Stage) -> None:
    await stage.create("odd", annotations={"sharedgpu/allocation": '{"v":9}'}, **HERE)
    told = await stage.expect_event("odd", "AllocationUnreadable")
    assert "version 9 is not known" in told["note"]
    shown = await scraped(await port_of(stage))
    assert shown["kubeshare_allocation_problems",] == 1


async def test_cards_of_a_version_that_nobody_understands_are_held_wholly(stage: Stage) -> None:
    [uuid] = [card.uuid for node in stage.nodes for card in node.cards]
    newer = json.dumps({"v": 9, "token": "t", "claims": [{"uuid": uuid, "part": "a bit"}]})
    await stage.create("newer", annotations={"sharedgpu/allocation": newer}, **HERE)
    told = await stage.expect_event("newer", "AllocationUnreadable")
    assert told["note"].startswith(f"all of {uuid} is charged")
    await stage.create("small", gpu("0.1"))
    await stage.expect_waiting("small")
    await stage.expect_deleted("newer")
    await stage.expect_running("small")


async def test_a_pod_that_was_put_on_a_node_without_its_cards_is_told(stage: Stage) -> None:
    await stage.create("bare", gpu("0.5"), **HERE)
    await stage.expect_event("bare", "GPUNotAllocated")
    await stage.create("whole", gpu("1"))
    await stage.expect_running("whole")


async def test_who_changes_what_a_pod_got_is_told_and_frees_nothing(stage: Stage) -> None:
    await stage.create("ours", gpu("0.8"))
    written = annotations(await stage.expect_running("ours"))
    smaller = allocation(stage, 100, int(written["sharedgpu/gpu_manager_port"]))
    change = {"sharedgpu/allocation": smaller["sharedgpu/allocation"]}
    await stage.client.merge_patch(f"{PODS}/ours", {"metadata": {"annotations": change}})
    await stage.expect_event("ours", "AllocationChanged")
    await stage.create("big", gpu("0.4"))
    assert "Insufficient GPU" in await stage.expect_waiting("big")
    back = {"sharedgpu/allocation": written["sharedgpu/allocation"]}
    blank = {"sharedgpu/gpu_uuid": ""}
    await stage.client.merge_patch(f"{PODS}/ours", {"metadata": {"annotations": back | blank}})
    told = await stage.expect_event("ours", "GPUMismatch")
    assert "sharedgpu/gpu_uuid says nothing, the allocation GPU-" in told["note"]
    await stage.expect_deleted("ours")
    assert stage.observer.problems  # it, too, saw a pod without the card that it holds
    stage.observer.problems.clear()


async def test_results_on_a_pod_that_waits_mean_nothing(stage: Stage) -> None:
    await stage.create("ours", gpu("0.4"))
    await stage.expect_running("ours")
    await stage.create("thief", gpu("0.7"), annotations=allocation(stage, 700))
    await stage.expect_waiting("thief", "Insufficient GPU")
    await stage.create("rest", gpu("0.6"))
    await stage.expect_running("rest")
    await stage.expect_deleted("ours")
    await stage.expect_deleted("rest")
    written = annotations(await stage.expect_running("thief"))
    assert "forged" not in written["sharedgpu/allocation"]


async def test_a_new_leader_tells_what_it_finds(empty_stage: Stage) -> None:
    stage = empty_stage
    for name in ("a", "b"):
        await intruder(stage, name, 700)
    await stage.create("odd", annotations={"sharedgpu/allocation": "{"}, **HERE)
    async with stage.scheduler():
        over = await stage.expect_event("n1", "GPUOvercommitted")
        assert "default/a, default/b hold 1400 of 1000 thousandths" in over["note"]
        await stage.expect_event("odd", "AllocationUnreadable")
    await stage.expect_deleted("b")
    stage.observer.problems.clear()
