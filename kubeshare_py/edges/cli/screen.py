"""A terminal that a command redraws until its user quits, and the pauses between."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

if sys.platform != "win32":
    import termios
    import tty

_QUIT = ("q", "Q", "\x03", "\x1b")
#: By how many nodes keys scroll; arrows and page keys are sequences of several characters.
_MOVES = {
    **dict.fromkeys(("j", "\x1b[B", "\x1bOB"), 1),
    **dict.fromkeys(("k", "\x1b[A", "\x1bOA"), -1),
    **dict.fromkeys((" ", "\x1b[6~"), 10),
    **dict.fromkeys(("b", "\x1b[5~"), -10),
    **dict.fromkeys(("g", "\x1b[H", "\x1b[1~"), -1_000_000),
}
_LONGEST_KEY = 8


def wall_clock() -> float:
    """The Unix time (s)."""
    return time.time()


def pause(seconds: float) -> bool:
    """Wait `seconds`; False if the output is no longer read, as behind `| head`."""
    time.sleep(seconds)
    if sys.platform == "win32":
        return True
    left = select.poll()
    left.register(sys.stdout.fileno(), 0)
    return not left.poll(0)


class Screen:
    """Draws on the alternate screen, which leaves the terminal as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._moves = 0

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, which a user may change at any time."""
        return self._console.size.width, self._console.size.height

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Take the terminal over while entered: typed characters are not shown."""
        with self._live, _unechoed():
            yield

    def draw(self, text: Text) -> None:
        """Show this in place of what is there."""
        self._live.update(text, refresh=True)

    def wait(self, seconds: float) -> bool:
        """Wait `seconds`, or until a key: False when the user types q or Escape.

        What other keys scroll is for `take_moves`.
        """
        if sys.platform == "win32" or not sys.stdin.isatty():
            return pause(seconds)
        readable, _, _ = select.select([sys.stdin], [], [], seconds)
        if not readable:
            return True
        # At once, past Python's buffer: an arrow begins as Escape does.
        key = os.read(sys.stdin.fileno(), _LONGEST_KEY).decode(errors="replace")
        self._moves += _MOVES.get(key, 0)
        return key not in _QUIT

    def take_moves(self) -> int:
        """By how many nodes the user scrolled since the last call."""
        moves, self._moves = self._moves, 0
        return moves


@contextlib.contextmanager
def _unechoed() -> Iterator[None]:
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
