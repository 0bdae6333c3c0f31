"""A plugin of another distribution in a scheduler process, on a cluster where it cannot cope."""

import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.module_forks import Fork
from tests.programs.commands import expect_said
from tests.stories.conftest import Stage, gpu
from tests.stories.own_process import scheduler_process

PRICE = "example.com/price"
PLUGIN = """
    from kubeshare_py.plugin import NodeState, PerNodeScore
    from kubeshare_py.domain.pod import Shape


    class CheapNodes(PerNodeScore):
        def __init__(self, label: str = "example.com/price") -> None:
            def points(shape: Shape, node: NodeState) -> int:
                return 0 if shape.claim is None else 100 - int(node.label(label) or 100)

            super().__init__("CheapNodes", points)
"""
PROFILE = {"plugins": {"score": {"enabled": [{"name": "CheapNodes"}]}}}
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 2, memory: 16GiB}]}]'


@asynccontextmanager
async def scheduler(stage: Stage, folder: Path) -> AsyncIterator[Fork]:
    """The process, with the plugin installed in its folder."""
    metadata = folder / "cheap_nodes-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cheap-nodes\nVersion: 0.1\n")
    entry = "[kubeshare.plugins]\nCheapNodes = cheap_nodes:CheapNodes\n"
    (metadata / "entry_points.txt").write_text(entry)
    (folder / "cheap_nodes.py").write_text(textwrap.dedent(PLUGIN))
    async with scheduler_process(stage, folder, profiles=[PROFILE]) as process:
        await expect_said(process.stderr, '"event":"leads"')
        yield process


@pytest.mark.slow
async def test_a_label_that_it_cannot_read_ends_nothing_and_is_said(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage = empty_stage
    async with scheduler(stage, tmp_path) as process:
        await stage.patch_node("n1", {"metadata": {"labels": {PRICE: "30"}}})
        await stage.create("before", gpu("0.5"))
        assert (await stage.place("before"))[0] == "n1"
        await stage.patch_node("n2", {"metadata": {"labels": {PRICE: "abc"}}})
        await stage.create("shares", gpu("0.25"))
        message = await stage.expect_waiting("shares", "plugin CheapNodes failed on node n2")
        assert "ValueError: invalid literal for int() with base 10: 'abc'" in message
        event = await stage.expect_event("shares", "FailedScheduling")
        assert event["note"] == message
        line = await expect_said(process.stderr, '"event":"plugin failed"')
        assert '"extension_point":"Score"' in line
        await stage.create("no-gpu", requests={"cpu": "1"})
        await stage.expect_running("no-gpu")
        assert process.returncode is None
        await stage.patch_node("n2", {"metadata": {"labels": {PRICE: "10"}}})
        await stage.expect_running("shares")
