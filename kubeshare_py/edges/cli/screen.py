"""A terminal that a command redraws until its user quits, and the pauses between."""

import contextlib
import os
import re
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

_INTERRUPT = "\x03"
#: Arrows and page keys are sequences of several characters, and a paste may be any number.
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|.", re.DOTALL)
_MOST_READ = 256


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
        self._keys: list[str] = []

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
        """Wait `seconds`, or until a key: False when the user interrupts, or output ends.

        The keys are for `take_keys`.
        """
        if sys.platform == "win32" or not sys.stdin.isatty():
            return pause(seconds)
        readable, _, _ = select.select([sys.stdin], [], [], seconds)
        if not readable:
            return True
        # At once, past Python's buffer: an arrow begins as Escape does.
        read = os.read(sys.stdin.fileno(), _MOST_READ).decode(errors="replace")
        self._keys += _KEY.findall(read)
        return bool(read) and _INTERRUPT not in read

    def take_keys(self) -> list[str]:
        """The keys since the last call."""
        keys, self._keys = self._keys, []
        return keys


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
