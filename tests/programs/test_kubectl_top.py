"""The live view on a terminal of the test's own, and what it does where there is none."""

import asyncio
import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import tty
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from kubeshare_py.edges.cli.state_client import ApiAccess, StateClient
from kubeshare_py.programs.kubectl_kubeshare import Question, top
from tests.edges.served_state import Served, behind_api_server, served
from tests.terminal.views import a_why


def console(*, terminal: bool) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=60, height=12,
        _environ={"TERM": "xterm"},
    )  # fmt: skip


def printed(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


async def shown(
    access: ApiAccess, *, terminal: bool, wait: Callable[[float], bool], once: bool = False
) -> tuple[int, str, str]:
    out, err = console(terminal=terminal), console(terminal=False)
    client = StateClient(access, {"HOME": "/nonexistent"})
    question = Question(command="top", access=access, once=once)
    try:
        code = await asyncio.to_thread(top, question, client, out, err, wait)
    finally:
        client.close()
    return code, printed(out), printed(err)


def direct(state: Served) -> ApiAccess:
    return ApiAccess(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)


def never(_: float) -> bool:
    raise AssertionError("nobody waits here")


async def test_without_a_terminal_or_when_asked_it_is_printed_once(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        plain = await shown(direct(state), terminal=False, wait=never)
        once = await shown(direct(state), terminal=True, wait=never, once=True)
    assert plain[0] == once[0] == 0
    assert " default/one\n" in plain[1]
    assert "waiting:" in once[1]
    assert "\x1b[?1049h" not in once[1]


async def test_it_draws_until_the_user_quits_and_says_when_nothing_answers(tmp_path: Path) -> None:
    looks: list[str] = []
    async with behind_api_server(tmp_path) as (behind, state):

        def wait(seconds: float) -> bool:
            looks.append(f"{seconds}")
            behind.server.target = None if len(looks) == 1 else state
            return len(looks) < 3

        access = ApiAccess(kubeconfig=behind.kubeconfig)
        code, drawn, err = await shown(access, terminal=True, wait=wait)
    assert (code, err, looks) == (0, "", ["2.0"] * 3)
    screens = drawn.split("Every 2 s; arrows scroll, Tab: pods, s: by name, /: filter")
    # Two screens as usual; between them one with the same cards and another last line.
    assert len(screens) == 3
    assert "does not serve" in screens[1]
    assert screens[1].count("n1") == 2
    # The terminal is given back as it was.
    assert drawn.index("\x1b[?1049h") < drawn.index("n1") < drawn.index("\x1b[?1049l")


async def test_what_cannot_be_reached_at_all_is_a_failure(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        access = direct(state)
    code, out, err = await shown(access, terminal=True, wait=never)
    assert (code, out) == (3, "")
    assert err.startswith("Error: cannot reach the scheduler at")


async def test_only_the_asked_cards_are_shown_in_the_asked_order(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        for model, there in (("a100", True), ("T4", False)):
            out = console(terminal=False)
            client = StateClient(direct(state), {"HOME": "/nonexistent"})
            question = Question(command="top", access=direct(state), model=model, sort="free")
            await asyncio.to_thread(top, question, client, out, out, never)
            client.close()
            assert ("n1  " in printed(out)) == there


def test_keys_are_told_one_by_one() -> None:
    """On a pseudo-terminal in a process of its own, whose standard input it is."""
    program = (
        "from rich.console import Console\n"
        "from kubeshare_py.edges.cli.screen import Screen\n"
        "screen = Screen(Console(file=open('/dev/null', 'w')))\n"
        "print('ready', flush=True)\n"
        "for _ in range(5):\n"
        "    print(screen.wait(60), screen.take_keys(), flush=True)\n"
    )
    keyboard, terminal = pty.openpty()
    tty.setcbreak(terminal)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=terminal, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip()]
        for key in ("\x1b[B", "k\x1bOA", " ", "\x1b", "/ab\x7f"):
            os.write(keyboard, key.encode())
            said.append(process.stdout.readline().strip())
    os.close(keyboard)
    os.close(terminal)
    assert said == [
        "ready",
        "True ['\\x1b[B']",
        "True ['k', '\\x1bOA']",
        "True [' ']",
        "True ['\\x1b']",
        "True ['/', 'a', 'b', '\\x7f']",
    ]


async def test_a_user_finds_a_pod_and_why_it_is_there(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        state.whys["team", "big"] = a_why()
        typed = ["\t", "/big\r", "\r", "\x1b[B", "q", "q"]
        options = ["--scheduler", state.url, "--ca-file", state.ca_file]
        command = [sys.executable, "-m", "kubeshare_cmd.kubectl_kubeshare", "top", *options]
        command += ["--token-file", state.token_file]
        code, drawn = await asyncio.to_thread(driven, command, typed)
    assert code == 0
    assert "arrows choose, Enter: why" in drawn
    assert "filter: big" in drawn
    assert "It fits on n1 if it asks for at most 20.0 GiB." in drawn
    assert "goes back" in drawn


def driven(command: list[str], typed: list[str]) -> tuple[int, str]:
    """Run it on a pseudo-terminal; each text is typed once a screen is drawn after the last one."""
    keyboard, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    drawn = ""
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environ
    ) as process:
        os.close(terminal)
        for text in typed:
            while "Every 2 s" not in (part := os.read(keyboard, 65_536).decode(errors="replace")):
                drawn += part
            drawn += part
            os.write(keyboard, text.encode())
        with contextlib.suppress(OSError):  # the terminal is gone once the process has ended
            while part := os.read(keyboard, 65_536).decode(errors="replace"):
                drawn += part
        code = process.wait()
    os.close(keyboard)
    return code, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
