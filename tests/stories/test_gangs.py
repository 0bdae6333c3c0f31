"""Gangs in a cluster: large ones, late ones, interleaved ones, and ones that never fit."""

from functools import partial

import pytest

from tests.stories.conftest import JOBS, PODS, Json, Stage, bound, card, gpu
from tests.stories.gang_pods import gang, job

CLUSTER = 'nodes: [{name: "n{n}", count: 8, gpus: [{model: A100, count: 8, memory: 40GiB}]}]'


def named(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


@pytest.mark.slow
async def test_a_job_of_64_pods_starts_as_one_on_8_nodes(stage: Stage) -> None:
    await stage.cluster.apply(job("train", 64, gang("train", 64)))
    pods = await stage.expect_all(lambda pods: len(bound(pods)) == 64)
    assert len({card(pod) for pod in pods}) == 64
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 8


@pytest.mark.slow
async def test_one_member_too_many_keeps_all_out_and_each_is_told(stage: Stage) -> None:
    await stage.cluster.apply(job("train", 65, gang("train", 65)))
    # The Job's pods come one by one: at first too few of them are there.
    text = 'pod group "train" needs 65 pods to start together; room for 64 of them; impossible: '

    def told(pods: list[Json]) -> bool:
        conditions = [c for pod in pods for c in pod["status"].get("conditions", [])]
        ours = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
        right = [c for c in ours if c["reason"] == "Unschedulable" and text in c["message"]]
        return len(pods) == 65 and len(right) == 65

    assert bound(await stage.expect_all(told)) == []


@pytest.mark.slow
async def test_members_that_are_created_late_are_waited_for(stage: Stage) -> None:
    for number in range(2):
        await stage.create(f"m{number}", gang("g", 3))
    waiting = await stage.expect_waiting("m1")
    assert waiting == 'pod group "g" needs 3 pods to start together; there are 2'
    await stage.create("m2", gang("g", 3))
    await stage.expect_bound(3)


@pytest.mark.slow
async def test_interleaved_gangs_start_one_after_the_other(stage: Stage) -> None:
    await stage.cluster.apply(job("filler", 62, gpu("1.0")))
    await stage.expect_all(lambda pods: len(bound(pods)) == 62)
    for name in ("a1", "b1", "a2", "b2"):
        await stage.create(name, gang(name[0], 2))
    await stage.expect_all(lambda pods: len(bound(pods)) == 64)
    [first] = {
        name[0] for name in bound(await stage.all_pods()) if name in ("a1", "a2", "b1", "b2")
    }
    for number in (1, 2):
        await stage.delete(f"{first}{number}")
    await stage.expect_all(lambda pods: len(pods) == len(bound(pods)) == 64)


@pytest.mark.slow
async def test_half_of_a_group_may_be_enough_and_the_rest_follows(stage: Stage) -> None:
    await stage.cluster.apply(job("filler", 62, gpu("1.0")))
    await stage.expect_all(lambda pods: len(bound(pods)) == 62)
    await stage.cluster.apply(job("elastic", 4, gang("elastic", 4, "0.5")))
    await stage.expect_all(lambda pods: len(bound(pods)) == 64)
    background = {"propagationPolicy": "Background"}
    await stage.client.request("DELETE", f"{JOBS}/filler", query=background)
    await stage.expect_all(lambda pods: len(pods) == len(bound(pods)) == 4)


@pytest.mark.slow
async def test_a_new_scheduler_binds_the_rest_of_what_the_last_one_began(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    async with stage.scheduler():
        await stage.warm_up()
        stage.spoil_binds(status=503, times=12)
        await stage.cluster.apply(job("train", 20, gang("train", 20)))
        await stage.expect_sent(lambda: len(stage.bindings()) >= 20)
    async with stage.scheduler():
        await stage.expect_all(lambda pods: len(bound(pods)) == 20)


@pytest.mark.slow
async def test_what_is_bound_of_a_gang_that_cannot_be_completed_is_deleted(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    stage.spoil(method="POST", path="/m1/binding$", status=400, reason="BadRequest", times=100)
    async with stage.scheduler({"gangRepairSeconds": 1}):
        await stage.create("m0", gang("g", 2))
        await stage.create("m1", gang("g", 2))
        event = await stage.expect_event("m0", "GangIncomplete")
        assert event["note"] == 'pod group "g" needs 2 pods together, only 1 could be bound'
        await stage.expect_all(lambda pods: [pod["metadata"]["name"] for pod in pods] == ["m1"])
    about = [one for one in stage.requests if "/pods/m0" in one.path]
    asked = [(one.method, one.path.rpartition("/")[2]) for one in about]
    assert asked.index(("PATCH", "status")) < asked.index(("DELETE", "m0"))


@pytest.mark.long
async def test_a_gang_is_not_starved_by_a_stream_of_small_pods(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler({"reservationSeconds": 0.2}):
        await stage.cluster.apply(job("filler", 60, gpu("1.0")))
        await stage.expect_all(lambda pods: len(bound(pods)) == 60)
        for number in range(8):
            await stage.create(f"old-{number}", gpu("0.5"))
        await stage.expect_all(lambda pods: len(bound(pods)) == 68)
        await stage.cluster.apply(job("train", 4, gang("train", 4)))
        number, names = 0, bound(await stage.all_pods())
        while small := [name for name in names if name.startswith(("old", "new"))]:
            # Each that ends is followed by another of its kind.
            await stage.create(f"new-{number}", gpu("0.5"))
            ends = small[number % len(small)]
            await stage.delete(ends)
            pods = await stage.expect_all(partial(_is_gone, ends))
            number, names = number + 1, bound(pods)
        await stage.expect_all(
            lambda pods: sum(name.startswith("train") for name in bound(pods)) == 4
        )


@pytest.mark.slow
async def test_a_dead_member_is_replaced_though_others_wait_in_front(stage: Stage) -> None:
    await stage.cluster.apply(job("train", 64, gang("train", 64)))
    pods = await stage.expect_all(lambda pods: len(bound(pods)) == 64)
    await stage.client.delete(f"{PODS}/{pods[0]['metadata']['name']}")
    before = {pod["metadata"]["uid"] for pod in pods}
    await stage.expect_all(
        lambda pods: len(bound(pods)) == 64 and {pod["metadata"]["uid"] for pod in pods} != before
    )


def _is_gone(name: str, pods: list[Json]) -> bool:
    return name not in named(pods)
