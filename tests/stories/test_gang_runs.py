"""Gangs whose members are done, gone or another run's: which of them count."""

from collections.abc import Callable

import pytest

from tests.stories.conftest import EVENTS, JOBS, PODS, Json, Stage, bound, scheduled_condition
from tests.stories.gang_pods import gang, job

SUCCEEDS = {"kubeshare.sim/run-seconds": "0.1"}
FAILS = {**SUCCEEDS, "kubeshare.sim/exit-code": "1"}
INDEX = "batch.kubernetes.io/job-completion-index"
REASON = "PodGroupRunsAgain"
#: A real Job controller waits 10 s before it replaces a pod, and longer after further failures.
REPLACED_S = 90
CLUSTER = 'nodes: [{name: "n{n}", count: 3, gpus: [{model: A100, count: 2, memory: 40GiB}]}]'


async def plan(stage: Stage, pods: list[Json], annotations: dict[str, str]) -> None:
    """Let these running pods end so."""
    for pod in pods:
        body = {"metadata": {"annotations": annotations}}
        await stage.client.merge_patch(f"{PODS}/{pod['metadata']['name']}", body)


def of(pods: list[Json], name: str, phase: str = "Running") -> list[Json]:
    """The pods of a Job in this phase."""
    return [
        pod
        for pod in pods
        if pod["metadata"]["name"].startswith(f"{name}-") and pod["status"].get("phase") == phase
    ]


def has(name: str, count: int, phase: str = "Running") -> Callable[[list[Json]], bool]:
    return lambda pods: len(of(pods, name, phase)) == count


async def two_jobs(stage: Stage) -> None:
    """Two workers that succeed, then a driver that fails: one gang of two Jobs."""
    await stage.cluster.apply(job("workers", 2, gang("set", 3), backoffLimit=6))
    await stage.cluster.apply(job("driver", 1, gang("set", 3), backoffLimit=6))
    pods = await stage.expect_all(lambda pods: has("workers", 2)(pods) and has("driver", 1)(pods))
    await plan(stage, of(pods, "workers"), SUCCEEDS)
    await stage.expect_all(has("workers", 2, "Succeeded"))
    await plan(stage, of(pods, "driver"), FAILS)
    await stage.expect_all(has("driver", 1, "Failed"))


@pytest.mark.slow
async def test_the_last_job_of_a_gang_goes_on_when_the_others_are_done(stage: Stage) -> None:
    await two_jobs(stage)
    await stage.expect_all(has("driver", 1), timeout_s=REPLACED_S)


@pytest.mark.slow
async def test_a_new_scheduler_knows_which_jobs_ran_a_gang_together(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler():
        await two_jobs(stage)
    async with stage.scheduler():
        await stage.expect_all(has("driver", 1), timeout_s=REPLACED_S)


@pytest.mark.slow
async def test_indexes_that_are_done_count_when_their_pods_are_deleted(stage: Stage) -> None:
    labels = gang("gone", 3)
    await stage.cluster.apply(job("gone", 3, labels, completionMode="Indexed", backoffLimit=6))
    pods = of(await stage.expect_all(has("gone", 3)), "gone")
    await plan(stage, pods[:2], SUCCEEDS)
    await stage.expect_in(JOBS, "gone", lambda found: found["status"].get("succeeded") == 2)
    for pod in pods[:2]:
        await stage.expect_deleted(pod["metadata"]["name"])
    await plan(stage, pods[2:], FAILS)
    await stage.expect_in(JOBS, "gone", lambda found: found["status"].get("failed") == 1)
    await stage.expect_all(has("gone", 1), timeout_s=REPLACED_S)


@pytest.mark.slow
async def test_two_runs_of_one_group_start_whole_each(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler():
        await stage.cluster.apply(job("night-1", 4, gang("night", 4)))
        await stage.expect_all(has("night-1", 4))
        await stage.cluster.apply(job("night-2", 4, gang("night", 4)))
        pods = await stage.expect_all(is_told("night-2", 4))
        assert len(bound(pods)) == 4
        told = {scheduled_condition(pod)["message"] for pod in of(pods, "night-2", "Pending")}
        assert all(
            text.startswith('pod group "night" of job night-2 needs 4 pods to start together')
            for text in told
        )
        events = [one for one in await stage.client.list_all(EVENTS) if one["reason"] == REASON]
        assert len(events) <= 1
    async with stage.scheduler():
        await stage.create("other", {})
        await stage.expect_running("other")
        assert len(bound(await stage.all_pods())) == 5
        background = {"propagationPolicy": "Background"}
        await stage.client.request("DELETE", f"{JOBS}/night-1", query=background)
        await stage.expect_all(has("night-2", 4))


def is_told(name: str, count: int) -> Callable[[list[Json]], bool]:
    """Whether so many pods of a Job have a reason why they wait."""
    return lambda pods: sum(map(bool, map(scheduled_condition, of(pods, name, "Pending")))) == count


@pytest.mark.real_only("the embedded Job controller has no limit for each index")
async def test_an_index_that_failed_for_good_is_not_waited_for(stage: Stage) -> None:
    spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 3}
    await stage.cluster.apply(job("sweep", 3, gang("sweep", 3), **spec))
    pods = of(await stage.expect_all(has("sweep", 3)), "sweep")
    index = {pod["metadata"]["annotations"][INDEX]: pod for pod in pods}
    await plan(stage, [index["0"]], FAILS)
    await stage.expect_all(has("sweep", 1, "Failed"))
    pods = await stage.expect_all(has("sweep", 3), timeout_s=REPLACED_S)
    [again] = [pod for pod in of(pods, "sweep") if pod["metadata"]["annotations"][INDEX] == "0"]
    await plan(stage, [again], FAILS)
    await plan(stage, [index["1"]], SUCCEEDS)
    await stage.expect_in(
        JOBS,
        "sweep",
        lambda found: (
            found["status"].get("failedIndexes") == "0"
            and found["status"].get("completedIndexes") == "1"
        ),
    )
    drained = index["2"]["metadata"]["name"]
    await stage.expect_deleted(drained)
    await stage.expect_all(has("sweep", 1), timeout_s=REPLACED_S)
