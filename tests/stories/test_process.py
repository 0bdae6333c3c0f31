"""kubeshare-scheduler as operators run it: a process that is told to end, reconfigured, read."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.module_forks import Fork
from tests.programs.commands import expect_said
from tests.stories.conftest import Stage, bound, gpu
from tests.stories.own_process import configure, scheduler_process
from tests.stories.test_leaders import lease

ANY_NODE = {"plugins": {"filter": {"disabled": [{"name": "NodeAffinity"}]}}}
CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 2, memory: 16GiB}]}]"


@asynccontextmanager
async def scheduler(stage: Stage, folder: Path) -> AsyncIterator[Fork]:
    """The process, once it leads; killed at the end if it still runs."""
    async with scheduler_process(stage, folder) as process:
        await expect_said(process.stderr, '"event":"leads"')
        yield process


@pytest.mark.slow
async def test_told_to_end_it_finishes_its_binds_and_lets_the_next_lead(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage = empty_stage
    async with scheduler(stage, tmp_path) as process:
        await stage.warm_up()
        stage.spoil_binds(only_slow=True, delay_s=0.3, times=4)
        before = len(stage.bindings())
        for number in range(4):
            await stage.create(f"half-{number}", gpu("0.5"))
        await stage.expect_sent(lambda: len(stage.bindings()) == before + 4)
        process.terminate()
        await expect_said(process.stderr, '"event":"released"')
        _, rest = await process.communicate()
        assert (process.returncode, rest) == (0, b"")
    assert len(bound(await stage.all_pods())) == 4
    assert not (await lease(stage)).get("holderIdentity")


@pytest.mark.slow
async def test_a_new_configuration_changes_what_is_decided_and_not_what_is_known(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage = empty_stage
    async with scheduler(stage, tmp_path) as process:
        await stage.create("holds", gpu("2", "2"))
        await stage.expect_running("holds")
        await stage.create("choosy", nodeSelector={"disk": "fast"})
        await stage.create("waits", gpu("0.5"))
        await stage.expect_waiting("choosy", "node affinity/selector")
        await stage.expect_waiting("waits", "Insufficient GPU")
        lists = len(stage.sent("GET", "/api/v1/pods"))
        configure(tmp_path, profiles=[ANY_NODE])
        await expect_said(process.stderr, '"event":"configuration"')
        await stage.expect_running("choosy")
        assert "Insufficient GPU" in await stage.expect_waiting("waits")
        await stage.expect_deleted("holds")
        await stage.expect_running("waits")
        assert process.returncode is None
        assert len(stage.sent("GET", "/api/v1/pods")) == lists


@pytest.mark.slow
async def test_its_log_has_one_line_for_each_decision(empty_stage: Stage, tmp_path: Path) -> None:
    stage = empty_stage
    async with scheduler(stage, tmp_path) as process:
        for name, share in (("a", "0.5"), ("b", "0.5"), ("c", "1.0"), ("d", "0.3")):
            await stage.create(name, gpu(share))
            await stage.expect_bound(ord(name) - ord("a") + 1 if name != "d" else 3)
        process.terminate()
        _, log = await process.communicate()
    lines = [json.loads(line) for line in log.decode().splitlines()]
    decisions = [(one["event"], one["pod"]) for one in lines if "pod" in one]
    placed = [("bind", f"default/{name}") for name in "abc"]
    assert decisions == [*placed, ("waiting", "default/d")]
    for line in lines:
        assert {"time", "level", "event"} <= line.keys()
        if "pod" in line:
            assert {"uid", "profile", "iteration", "ms"} <= line.keys()
