"""Pods of other schedulers take what they take: cpu, memory, extended resources, whole GPUs."""

import json

import pytest

from kubeshare_py.inventory.card_file import synthetic_uuid
from tests.stories.conftest import Stage, gpu

N1 = {"kubernetes.io/hostname": "n1"}
CLUSTER = """
nodes:
  - name: n1
    gpus: [{model: T4, count: 2, memory: 16GiB}]
    allocatable: {cpu: 8, memory: 16Gi, example.com/nic: 2, nvidia.com/gpu: 2}
  - name: n2
    allocatable: {cpu: 8, memory: 16Gi, example.com/nic: 2}
"""


async def theirs(stage: Stage, name: str, **amounts: str) -> None:
    """A pod that another scheduler has put on n1."""
    requests = {name.replace("_", "/"): amount for name, amount in amounts.items()}
    resources = {"requests": requests, "limits": {k: v for k, v in requests.items() if "/" in k}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    await stage.create(
        name, schedulerName="default-scheduler", nodeName="n1", containers=[container]
    )
    await stage.expect_running(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("resource", "taken", "asked", "reason"),
    [
        ("cpu", "5", "4", "Insufficient cpu"),
        pytest.param("memory", "10Gi", "7Gi", "Insufficient memory", marks=pytest.mark.long),
        ("example.com_nic", "2", "1", "Insufficient example.com/nic"),
    ],
)
async def test_what_they_hold_of_a_node_is_charged_until_they_are_gone(
    stage: Stage, resource: str, taken: str, asked: str, reason: str
) -> None:
    await theirs(stage, "theirs", **{resource: taken})
    requests = {resource.replace("_", "/"): asked}
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    container = {
        "name": "main", "image": "busybox", "resources": {"requests": requests, "limits": limits}
    }  # fmt: skip
    await stage.create("ours", gpu("0.5"), nodeSelector=N1, containers=[container])
    assert f"1 {reason}" in await stage.expect_waiting("ours")
    await stage.expect_deleted("theirs")
    await stage.expect_running("ours")


async def test_those_that_were_there_before_the_scheduler_are_charged_too(
    empty_stage: Stage,
) -> None:
    await theirs(empty_stage, "theirs", cpu="5")
    async with empty_stage.scheduler():
        await empty_stage.create("ours", gpu("0.5"), nodeSelector=N1, requests={"cpu": "4"})
        assert "1 Insufficient cpu" in await empty_stage.expect_waiting("ours")


async def test_a_pod_that_finished_holds_nothing(stage: Stage) -> None:
    once = {"kubeshare.sim/run-seconds": "0.1"}
    await stage.create(
        "done", annotations=once, schedulerName="default-scheduler", nodeName="n1",
        restartPolicy="Never", requests={"cpu": "8"},
    )  # fmt: skip
    await stage.create("ours", gpu("0.5"), nodeSelector=N1, requests={"cpu": "4"})
    await stage.expect_running("ours")


async def test_as_many_idle_cards_as_they_hold_are_held_back(stage: Stage) -> None:
    await theirs(stage, "theirs", **{"nvidia.com_gpu": "1"})
    await stage.create("pair", gpu("2", "2"))
    assert "1 GPU held back for nvidia.com/gpu pods" in await stage.expect_waiting("pair")
    await stage.create("first", gpu("0.5"))
    await stage.create("second", gpu("0.5"))
    assert await stage.place("first") == await stage.place("second")
    await stage.create("third", gpu("0.5"))
    await stage.expect_waiting("third")
    await stage.expect_deleted("theirs")
    await stage.expect_running("third")


async def test_the_card_that_the_nodes_agent_names_is_theirs_and_no_other_is_held_back(
    stage: Stage,
) -> None:
    await theirs(stage, "theirs", **{"nvidia.com_gpu": "1"})
    uid = (await stage.pod("theirs"))["metadata"]["uid"]
    named, other = synthetic_uuid("n1", 1), synthetic_uuid("n1", 0)
    words = {"v": 1, "held": [{"uid": uid, "ns": "default", "pod": "theirs", "cards": [named]}]}
    annotated = {"metadata": {"annotations": {"kubeshare.io/node-agent": json.dumps(words)}}}
    await stage.patch_node("n1", annotated)
    await stage.create("alone", gpu("1", "1.0"))
    assert await stage.place("alone") == ("n1", other)
    await stage.create("second", gpu("0.5"))
    await stage.expect_waiting("second")
    await stage.expect_deleted("theirs")
    assert await stage.place("second") == ("n1", named)


async def test_more_of_them_than_idle_cards_close_the_node_and_it_says_so(stage: Stage) -> None:
    for number in range(2):
        await stage.create(f"share-{number}", gpu("0.6"))
        await stage.expect_running(f"share-{number}")
    await theirs(stage, "theirs", **{"nvidia.com_gpu": "1"})
    told = await stage.expect_event("n1", "GPUOvercommitted")
    assert "default/theirs hold 1 nvidia.com/gpu, but only 0 cards are without" in told["note"]
    await stage.create("small", gpu("0.1"))
    await stage.expect_waiting("small")
    await stage.expect_deleted("theirs")
    await stage.expect_running("small")
