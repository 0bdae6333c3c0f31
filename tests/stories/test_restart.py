"""The scheduler may end at any moment: the next one knows all from the pods and goes on."""

from pathlib import Path

import pytest

from tests.stories.conftest import Stage, annotations, bound, gpu
from tests.stories.own_process import scheduler_process


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [*(pytest.param(sent, marks=pytest.mark.long) for sent in (1, 6, 8)), 3]
)
async def test_stopped_in_the_middle_of_a_burst_and_started_again(
    empty_stage: Stage, sent: int
) -> None:
    stage = empty_stage
    async with stage.scheduler():
        await stage.warm_up()
        before = len(stage.bindings())
        for number in range(10):
            await stage.create(f"half-{number}", gpu("0.5"))
        await stage.expect_sent(lambda: len(stage.bindings()) >= before + sent)
    async with stage.scheduler():
        await stage.expect_bound(8)


@pytest.mark.slow
async def test_ports_are_kept_and_not_given_twice(empty_stage: Stage) -> None:
    stage = empty_stage
    ports = []
    for number in range(3):
        async with stage.scheduler():
            await stage.create(f"pod-{number}", gpu("0.1"))
            pod = await stage.expect_running(f"pod-{number}")
            ports.append(annotations(pod)["sharedgpu/gpu_manager_port"])
    assert ports == ["50051", "50052", "50053"]


@pytest.mark.slow
async def test_pods_made_and_ended_while_no_scheduler_runs(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler():
        await stage.create("old", gpu("2", "2"))
        await stage.create("stays", gpu("2", "2"))
        await stage.expect_running("old")
        await stage.expect_running("stays")
        await stage.create("waits", gpu("1.0"))
        await stage.expect_waiting("waits")
    await stage.expect_deleted("old")
    await stage.create("new", gpu("0.7"))
    async with stage.scheduler():
        await stage.expect_running("waits")
        await stage.expect_running("new")


async def test_a_waiting_pod_is_not_told_the_same_again_by_a_new_scheduler(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    async with stage.scheduler():
        await stage.create("big", requests={"cpu": "1000"})
        await stage.expect_waiting("big", "2 Insufficient cpu")
    version = (await stage.pod("big"))["metadata"]["resourceVersion"]
    async with stage.scheduler():
        await stage.create("bigger", requests={"cpu": "1001"})
        await stage.expect_waiting("bigger", "2 Insufficient cpu")
    assert (await stage.pod("big"))["metadata"]["resourceVersion"] == version


@pytest.mark.slow
async def test_killed_between_sending_binds_and_hearing_the_answers(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage = empty_stage
    await stage.create("first", gpu("0.1"))
    async with scheduler_process(stage, tmp_path):
        await stage.expect_running("first")
        stage.spoil_binds(applies_first=True, delay_s=60, times=4)
        stage.spoil_binds(delay_s=60, times=20)
        before = len(stage.bindings())
        for number in range(9):
            await stage.create(f"half-{number}", gpu("0.5"))
        await stage.expect_sent(lambda: len(stage.bindings()) >= before + 7)
    assert len(bound(await stage.all_pods())) == 5
    stage.faults.clear()
    async with stage.scheduler():
        await stage.expect_bound(1 + 7)  # beside "first" there is room for one half, not two


async def test_told_to_end_it_waits_for_the_answers_to_its_binds(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler():
        await stage.warm_up()
        stage.spoil_binds(only_slow=True, delay_s=0.3)
        await stage.create("a", gpu("0.5"))
        await stage.expect_sent(lambda: bool(stage.bindings("a")))
    assert (await stage.pod("a"))["spec"]["nodeName"]
