"""When a pod waits, its owner is told exactly why, and it goes on as soon as it can."""

import pytest

from tests.stories.conftest import EVENTS, Stage, gpu

CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


async def test_a_freed_card_goes_to_the_pod_that_waits(stage: Stage) -> None:
    await stage.create("first", gpu("0.7"))
    await stage.expect_running("first")
    await stage.create("second", gpu("0.6"))
    assert await stage.expect_waiting("second") == ("0/1 nodes are available: 1 Insufficient GPU.")
    await stage.delete("first")
    await stage.expect_running("second")


async def test_a_finished_pod_frees_its_card(stage: Stage) -> None:
    brief = {"kubeshare.sim/run-seconds": "0.2"}
    await stage.create("first", gpu("1"), annotations=brief, restartPolicy="Never")
    await stage.expect_running("first")
    await stage.create("second", gpu("1"))
    await stage.expect_running("second")


async def test_memory_is_checked_and_named(stage: Stage) -> None:
    await stage.create("first", gpu("0.1", gpu_mem=str(12 << 30)))
    await stage.expect_running("first")
    await stage.create("second", gpu("0.5"))
    message = await stage.expect_reasons("second")
    assert message == "0/1 nodes are available: 1 Insufficient GPU memory."


async def test_a_request_and_memory_with_a_unit_are_enough(stage: Stage) -> None:
    await stage.create("first", {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_mem": "8Gi"})
    running = await stage.expect_running("first")
    assert running["metadata"]["annotations"]["sharedgpu/gpu_mem"] == str(8 << 30)


async def test_a_malformed_label_is_named_with_its_value_and_rule(stage: Stage) -> None:
    await stage.create("typo", gpu("0.5", "half"))
    message = await stage.expect_waiting("typo")
    assert 'sharedgpu/gpu_limit="half"' in message
    await stage.create("other", gpu("0.5"))
    await stage.expect_running("other")


async def test_a_misspelt_label_holds_the_pod_until_it_is_mended(stage: Stage) -> None:
    misspelt = {"sharedgpu/gpu_limit": "1.0", "sharedgpu/gpu_requset": "0.5"}
    await stage.create("typo", misspelt)
    message = await stage.expect_waiting("typo")
    known = "label sharedgpu/gpu_requset is not known; did you mean sharedgpu/gpu_request?"
    assert message == known
    labels = {"sharedgpu/gpu_requset": None, "sharedgpu/gpu_request": "0.5"}
    pod = "/api/v1/namespaces/default/pods/typo"
    await stage.client.merge_patch(pod, {"metadata": {"labels": labels}})
    await stage.expect_running("typo")


async def test_an_edited_label_is_seen(stage: Stage) -> None:
    await stage.create("typo", gpu("0.5", "half"))
    await stage.expect_waiting("typo")
    labels = {"metadata": {"labels": {"sharedgpu/gpu_limit": "1.0"}}}
    await stage.client.merge_patch("/api/v1/namespaces/default/pods/typo", labels)
    await stage.expect_running("typo")


async def test_an_event_says_it_too(stage: Stage) -> None:
    await stage.create("big", gpu("4", "4"))
    message = await stage.expect_waiting("big")
    assert message == (
        "impossible: no node has 4 GPUs: the largest has 1 (node n1). "
        "0/1 nodes are available: 1 too few GPUs."
    )
    events = await stage.client.get(EVENTS)
    found = [e for e in events["items"] if e["regarding"]["name"] == "big"]
    assert [(e["reason"], e["note"]) for e in found] == [("FailedScheduling", message)]


async def test_gates_are_honoured_until_they_are_gone(stage: Stage) -> None:
    await stage.create("gated", gpu("0.5"), schedulingGates=[{"name": "example.com/wait"}])
    await stage.create("other", gpu("0.5"))
    await stage.expect_running("other")
    assert not (await stage.pod("gated"))["spec"].get("nodeName")
    gates: dict[str, object] = {"spec": {"schedulingGates": []}}
    await stage.client.merge_patch("/api/v1/namespaces/default/pods/gated", gates)
    await stage.expect_running("gated")


async def test_what_is_not_supported_is_not_ignored(stage: Stage) -> None:
    limits = {"aliyun.com/gpu-mem": "3"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    await stage.create("special", gpu("0.5"), containers=[container])
    assert "resources[aliyun.com/gpu-mem]" in await stage.expect_waiting("special")


@pytest.mark.slow
async def test_a_group_that_must_start_together_waits_and_says_so(stage: Stage) -> None:
    group = {"group_name": "g", "group_headcount": "3", "group_threshold": "1"}
    await stage.create("member", gpu("0.1", "1.0", **group))
    assert "needs 3 pods to start together; there is 1" in await stage.expect_waiting("member")
    one = {"group_name": "h", "group_headcount": "5", "group_threshold": "0.2"}
    await stage.create("single", gpu("0.1", "1.0", **one))
    await stage.expect_running("single")
