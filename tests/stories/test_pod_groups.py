"""Gangs of the coscheduling plugin: pods with its label, and its PodGroups, in any order."""

import logging

import pytest

from tests.stories.conftest import Json, Stage, bound, gpu
from tests.stories.gang_pods import (
    DEFINITION,
    DEFINITIONS,
    POD_GROUPS,
    define_pod_groups,
    described,
    job,
    pod_group,
)

MISSING = 'PodGroup "g" of scheduling.x-k8s.io is not there'
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: A100, count: 2, memory: 40GiB}]}]'


@pytest.mark.slow
async def test_pods_come_first_then_the_kind_and_then_the_group(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        await stage.create(f"m{number}", described("g"))
    assert (
        await stage.expect_waiting("m2") == f"{MISSING}: its API is not installed in this cluster"
    )
    # That a cluster has no such API is nothing to warn of.
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert [text for text in warned if "podgroups" in text] == []
    await define_pod_groups(stage)
    await stage.expect_eventually("m2", lambda pod: message_of(pod) == MISSING)
    await pod_group(stage, "g", 3)
    await stage.expect_bound(3)


@pytest.mark.slow
async def test_a_job_with_a_pod_group_starts_as_one(stage: Stage) -> None:
    await define_pod_groups(stage)
    await pod_group(stage, "train", 4)
    await stage.cluster.apply(job("train", 4, described("train")))
    await stage.expect_all(lambda pods: len(bound(pods)) == 4)
    sent = [one["metadata"]["annotations"]["sharedgpu/allocation"] for one in stage.bindings()]
    assert sum('"group":"scheduling.x-k8s.io/train","min":4' in one for one in sent) == 4


@pytest.mark.slow
async def test_a_minimum_that_is_changed_counts_at_once(stage: Stage) -> None:
    await define_pod_groups(stage)
    await pod_group(stage, "g", 3)
    for number in range(2):
        await stage.create(f"m{number}", described("g"))
    await stage.expect_waiting("m1", "needs 3 pods to start together; there are 2")
    await stage.client.merge_patch(f"{POD_GROUPS}/g", {"spec": {"minMember": 4}})
    await stage.create("m2", described("g"))
    await stage.expect_waiting("m2", "needs 4 pods to start together; there are 3")
    await stage.client.merge_patch(f"{POD_GROUPS}/g", {"spec": {"minMember": 3}})
    await stage.expect_bound(3)


@pytest.mark.slow
async def test_a_group_that_is_deleted_holds_back_who_waits_and_lets_others_run(
    stage: Stage,
) -> None:
    await define_pod_groups(stage)
    await pod_group(stage, "g", 2)
    for number in range(2):
        await stage.create(f"m{number}", described("g"))
    await stage.expect_bound(2)
    await stage.client.delete(f"{POD_GROUPS}/g")
    await stage.create("m2", described("g"))
    assert await stage.expect_waiting("m2") == MISSING
    await pod_group(stage, "g", 2)
    await stage.expect_running("m2")
    assert len(bound(await stage.all_pods())) == 3


@pytest.mark.slow
async def test_without_its_definition_a_cluster_has_no_groups_any_more(stage: Stage) -> None:
    await define_pod_groups(stage)
    await pod_group(stage, "g", 2)
    await stage.create("m0", described("g"))
    await stage.expect_waiting("m0", "needs 2 pods to start together")
    await stage.client.delete(f"{DEFINITIONS}/{DEFINITION['metadata']['name']}")
    await stage.expect_waiting("m0", MISSING)


@pytest.mark.slow
async def test_a_pod_that_comes_back_under_its_name_counts_once(stage: Stage) -> None:
    await define_pod_groups(stage)
    await pod_group(stage, "g", 2)
    await stage.create("m0", described("g"))
    await stage.expect_waiting("m0", "there is 1")
    await stage.expect_deleted("m0")
    await stage.create("m0", described("g"))
    await stage.expect_waiting("m0", "there is 1")
    await stage.create("m1", described("g"))
    await stage.expect_bound(2)


@pytest.mark.slow
async def test_a_scheduler_that_comes_later_finds_the_groups(empty_stage: Stage) -> None:
    stage = empty_stage
    await define_pod_groups(stage)
    await pod_group(stage, "g", 2)
    async with stage.scheduler():
        await stage.warm_up()
        stage.spoil_binds(status=503, times=2)
        for number in range(2):
            await stage.create(f"m{number}", described("g"))
        await stage.expect_sent(lambda: len(stage.bindings()) >= 3)
    async with stage.scheduler():
        await stage.expect_all(lambda pods: len(bound(pods)) == 2)


@pytest.mark.slow
async def test_groups_of_labels_and_of_objects_do_not_mix(stage: Stage) -> None:
    await define_pod_groups(stage)
    await pod_group(stage, "g", 2)
    await stage.create("m0", described("g"))
    label = {"group_name": "g", "group_headcount": "2", "group_threshold": "1.0"}
    await stage.create("l0", gpu("1.0", **label))
    for name in ("l0", "m0"):
        await stage.expect_waiting(name, 'pod group "g" needs 2 pods to start together; there is 1')
    assert bound(await stage.all_pods()) == []


@pytest.mark.slow
@pytest.mark.embedded_only("there no request of the scheduler may be forbidden")
async def test_groups_that_the_scheduler_may_not_read_are_named(empty_stage: Stage) -> None:
    stage = empty_stage
    path = "/apis/scheduling.x-k8s.io/"
    stage.spoil(method="GET", path=path, status=403, reason="Forbidden", times=2)
    await stage.create("m0", described("g"))
    async with stage.scheduler():
        await stage.expect_waiting("m0", f"{MISSING}: its API may not be read by the scheduler")
        await stage.expect_waiting("m0", f"{MISSING}: its API is not installed in this cluster")


def message_of(pod: Json) -> str:
    conditions = pod["status"].get("conditions", [])
    return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")
