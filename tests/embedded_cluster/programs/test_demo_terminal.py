"""kubeshare-demo on a terminal: its picture, and what is left of it."""

import asyncio
import os
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ALTERNATE, NORMAL = "\x1b[?1049h", "\x1b[?1049l"
ROWS, COLUMNS = 40, 160


class Terminal:
    """A process on a pseudo-terminal, and all that it wrote there."""

    def __init__(self, process: asyncio.subprocess.Process, leader: int) -> None:
        self.process = process
        self.text = ""
        self._leader = leader
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(leader, self._read)

    def _read(self) -> None:
        try:
            read = os.read(self._leader, 65536)
        except OSError:  # the other side is closed
            read = b""
        if not read:
            asyncio.get_running_loop().remove_reader(self._leader)
        self.text += read.decode(errors="replace")
        self._news.set()

    async def expect_shown(self, wanted: Callable[[str], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not wanted(self.text):
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def demo_on_a_terminal(folder: Path, kind: str, *arguments: str) -> AsyncIterator[Terminal]:
    leader, follower = os.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubeshare_cmd.demo", *arguments),
        stdin=follower, stdout=follower, stderr=follower, cwd=folder,
        env={**os.environ, "TERM": kind},
    )  # fmt: skip
    os.close(follower)
    terminal = Terminal(process, leader)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        asyncio.get_running_loop().remove_reader(leader)
        os.close(leader)


@pytest.mark.slow
async def test_control_c_leaves_the_last_picture(tmp_path: Path) -> None:
    async with demo_on_a_terminal(tmp_path, "xterm-256color") as terminal:
        await terminal.expect_shown(lambda text: "default/preview" in text)
        terminal.process.send_signal(signal.SIGINT)
        await terminal.expect_shown(lambda text: "default/preview" in text.partition(NORMAL)[2])
        assert await terminal.process.wait() == 0
    live, _, left = terminal.text.partition(NORMAL)
    assert ALTERNATE in live
    assert "export KUBECONFIG" in live
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", left)
    assert re.search(r"^\S+: 6 nodes; pods: \d+ bound", plain, re.MULTILINE)
    assert re.search(r"^a100-2 .*training", plain, re.MULTILINE)
    assert "export KUBECONFIG" not in plain


@pytest.mark.slow
async def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    async with demo_on_a_terminal(tmp_path, "dumb", "--no-workloads") as terminal:
        await terminal.expect_shown(lambda text: "node a100-1 appeared" in text)
        terminal.process.send_signal(signal.SIGINT)
        assert await terminal.process.wait() == 0
    assert "\x1b" not in terminal.text
