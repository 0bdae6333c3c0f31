"""kubeshare-mps as it runs on a node: a fake driver's cards, a stand-in for NVIDIA's daemon."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from kubeshare_py.edges.process.liveness import alive
from tests.collector.conftest import NewBoard
from tests.deploy.container import can_mount
from tests.programs.commands import PIPE, expect_said

pytestmark = pytest.mark.skipif(not can_mount(), reason="it needs the right to make mounts")

CONTROL = Path(__file__).parents[1] / "edges/node/mps_control.sh"
#: Eight cards: one divided into three instances, one into none yet.
BOARD, CARDS = "hgx-h100-mig", 6 + 3


async def cards_of(process: asyncio.subprocess.Process, event: str) -> set[str]:
    """Those of the next so many events."""
    lines = [await expect_said(process.stderr, f'"{event}"') for _ in range(CARDS)]
    return {json.loads(line)["card"] for line in lines}


@pytest.mark.slow
async def test_each_card_and_instance_that_pods_may_get_has_a_daemon(
    new_board: NewBoard, tmp_path: Path
) -> None:
    board = new_board(BOARD)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubeshare_cmd.mps", "--interval", "0.2", "--node-name", "n1"),
        *("--folder", str(tmp_path / "mps"), "--program", str(CONTROL)),
        env=board.environment,
        stderr=PIPE,
    )
    try:
        started = await cards_of(process, "mps-started")
        assert await cards_of(process, "mps-answers") == started
        assert {*(alive(tmp_path / "mps-alive") or ())} == started
        assert len(started) == CARDS
        assert {*(board.uuid(index) for index in range(2, 8)), board.part(0, 1)} <= started
        process.send_signal(signal.SIGTERM)
        assert await cards_of(process, "mps-ended") == started
        assert await process.wait() == 0
        assert alive(tmp_path / "mps-alive") == ()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
