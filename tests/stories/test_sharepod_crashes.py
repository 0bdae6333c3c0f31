"""Controller and scheduler killed at any point of SharePods' lives: no orphan, no lost card."""

import asyncio
from pathlib import Path

import pytest

from tests.scale import scaled, seeds
from tests.stories.conftest import Stage
from tests.stories.crash_history import CrashHistory, expect_all_cards_free
from tests.stories.crashing import CrashingProgram, KilledCommand
from tests.stories.own_process import scheduler_options
from tests.stories.share_pods import (
    controller_of,
    controller_options,
    create,
    define,
    expect_garbage_collection,
    expect_running,
)
from tests.stories.test_sharepods import HALF, IN_BOTH

#: Of each history of programs in this process; there are 20 at full scale.
FAULTS = 25
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 1, memory: 16GiB}]}]'


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20))
async def test_kills_at_any_point_leave_no_orphan_and_lose_no_card(
    empty_stage: Stage, seed: int
) -> None:
    """500 faults at full scale, at any await of both programs."""
    stage = empty_stage
    await define(stage)
    await expect_garbage_collection(stage)

    async def control() -> None:
        async with controller_of(stage):
            await asyncio.Event().wait()

    async def schedule() -> None:
        async with stage.scheduler(dialects=IN_BOTH):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        programs = [CrashingProgram(group, control), CrashingProgram(group, schedule)]
        history = CrashHistory(stage, programs, seed)
        await history.run(FAULTS)
        await history.expect_right()
        await expect_all_cards_free(stage, history)
        await history.end()
    assert history.kills == FAULTS + 2


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(10))
async def test_processes_killed_at_any_point_leave_no_orphan_and_lose_no_card(
    empty_stage: Stage, tmp_path: Path, seed: int
) -> None:
    """500 times SIGKILL at full scale; the controller has a Lease, as installed."""
    stage, faults = empty_stage, scaled(50)
    await define(stage)
    await expect_garbage_collection(stage)
    alone = scheduler_options(stage, tmp_path, leaderElection={"leaderElect": False})
    async with (
        KilledCommand(tmp_path, "controller", *controller_options(stage, "pod-1")) as controller,
        KilledCommand(tmp_path, "scheduler", *alone) as scheduler,
    ):
        history = CrashHistory(stage, [controller, scheduler], seed, longest_s=4.0)
        await history.run(faults)
        await create(stage, "sign-of-life")
        await expect_running(stage, "sign-of-life")
        await history.expect_right()
        await expect_all_cards_free(stage, history)
    assert history.kills == faults


@pytest.mark.slow
async def test_a_controller_that_is_killed_goes_on_at_once_where_it_was(
    empty_stage: Stage, tmp_path: Path
) -> None:
    """The command itself, by SIGKILL, with a Lease that has long to go."""
    stage = empty_stage
    await define(stage)
    lasting = ("--lease-duration", "600s", "--renew-deadline", "400s")
    options = (*controller_options(stage, "pod-1"), *lasting)
    async with (
        stage.scheduler(dialects=IN_BOTH),
        KilledCommand(tmp_path, "controller", *options) as controller,
    ):
        for number in range(2):
            await controller.start()
            await create(stage, f"one-{number}", HALF)
            await expect_running(stage, f"one-{number}")
            await controller.kill()
    assert len(await stage.all_pods()) == 2
