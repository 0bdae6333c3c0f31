"""What owners read: events with their series, and a condition that is only written when new."""

import pytest

from tests.stories.conftest import PODS, Stage, gpu, scheduled_condition

CLUSTER = """
nodes:
  - {name: "n{n}", count: 2, gpus: [{model: T4, count: 1, memory: 16GiB}]}
  - {name: plain}
"""


async def test_a_bound_pod_has_one_event_that_says_where(stage: Stage) -> None:
    await stage.create("a", gpu("0.5"))
    pod = await stage.expect_running("a")
    found = await stage.expect_event("a", "Scheduled")
    where = f"default/a to {pod['spec']['nodeName']}: 0.5 of GPU 0 (T4)"
    assert found["note"] == f"Successfully assigned {where}"
    assert (found["type"], found["action"]) == ("Normal", "Binding")
    assert found["reportingController"] == "kubeshare-scheduler"
    assert found["regarding"]["uid"] == pod["metadata"]["uid"]
    assert "series" not in found


async def test_the_message_counts_nodes_by_reason(stage: Stage) -> None:
    await stage.create("a", gpu("0.6"))
    await stage.create("b", gpu("0.9"))
    await stage.expect_bound(2)
    await stage.create("c", gpu("0.7"))
    expected = "0/3 nodes are available: 1 no GPU, 2 Insufficient GPU."
    assert await stage.expect_waiting("c") == expected
    condition = scheduled_condition(await stage.pod("c"))
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    found = await stage.expect_event("c", "FailedScheduling")
    assert (found["note"], found["type"], found["action"]) == (expected, "Warning", "Scheduling")


async def test_a_reason_that_comes_again_makes_a_series_not_another_event(stage: Stage) -> None:
    await stage.create("big", gpu("2", "2"))
    await stage.expect_waiting("big", "too few GPUs")
    first = await stage.expect_event("big", "FailedScheduling")
    assert "series" not in first
    labels = {"metadata": {"labels": {"sharedgpu/priority": "7"}}}
    await stage.client.merge_patch(f"{PODS}/big", labels)
    again = await stage.expect_event("big", "FailedScheduling", lambda one: "series" in one)
    assert again["metadata"]["name"] == first["metadata"]["name"]
    assert again["series"]["count"] == 2
    assert again["series"]["lastObservedTime"] > again["eventTime"]
    assert len(stage.sent("PATCH", "/pods/big/status")) == 1


async def test_a_new_reason_is_told_at_once(stage: Stage) -> None:
    await stage.create("typo", gpu("0.5", "half"))
    await stage.expect_waiting("typo", "sharedgpu/gpu_limit")
    labels = {"metadata": {"labels": {"sharedgpu/gpu_limit": "2", "sharedgpu/gpu_request": "2"}}}
    await stage.client.merge_patch(f"{PODS}/typo", labels)
    await stage.expect_waiting("typo", "too few GPUs")


@pytest.mark.slow
async def test_nothing_is_written_to_a_waiting_pod_while_its_reasons_stay(stage: Stage) -> None:
    await stage.create("waits", gpu("2", "2"))
    await stage.expect_waiting("waits", "too few GPUs")
    before = await stage.pod("waits")
    for number in range(3):
        await stage.create(f"comes-{number}", gpu("0.5"))
        await stage.expect_running(f"comes-{number}")
        await stage.expect_deleted(f"comes-{number}")
        await stage.create(f"big-{number}", gpu("3", "3"))
        await stage.expect_waiting(f"big-{number}", "too few GPUs")
    assert await stage.pod("waits") == before


@pytest.mark.slow
async def test_a_placed_pods_condition_is_the_servers(stage: Stage) -> None:
    await stage.create("holder", gpu("0.6"), nodeSelector={"kubernetes.io/hostname": "n1"})
    await stage.expect_running("holder")
    await stage.create("waits", gpu("0.6"), nodeSelector={"kubernetes.io/hostname": "n1"})
    await stage.expect_waiting("waits")
    await stage.delete("holder")
    condition = scheduled_condition(await stage.expect_running("waits"))
    assert condition["status"] == "True"
    assert not {"reason", "message"} & condition.keys()
