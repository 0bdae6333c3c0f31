"""The demo's screen: the live view on a terminal, or a line per change."""

import asyncio
import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from kubeshare_py.embedded_cluster.programs.change_lines import change_lines
from kubeshare_py.scheduling.explain.explanation import whole_view
from kubeshare_py.terminal.live_view import live_view
from kubeshare_py.views.view import ClusterView

REFRESH_S = 0.25
#: How many times as long as it took to take and draw a view no other is taken.
RESTS = 4


async def show(
    view: Callable[[], Iterable[ClusterView]],
    *,
    footer: str,
    plain: bool = False,
    seconds: float | None = None,
) -> None:
    """Show until cancelled, or for `seconds`; `footer` is below the view, or before the lines.

    `view` gives the cluster in portions: the scheduler and the API server are on the same event
    loop, which must not be kept for long, or a Lease of the scheduler runs out. The view also ends
    when the lines are no longer read, as behind `| head`.
    """
    console = Console()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            if plain or not console.is_terminal or console.is_dumb_terminal:
                with _to_the_end():
                    await _lines(view, footer)
            else:
                await _screen(view, footer, console)


async def _screen(view: Callable[[], Iterable[ClusterView]], footer: str, console: Console) -> None:
    last = Text()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:

            def draw(portions: Sequence[ClusterView]) -> None:
                nonlocal last
                width, height = console.size
                shown = whole_view(portions)
                last = live_view(shown, width=width, height=height - footer.count("\n") - 2)
                live.update(last + f"\n\n{footer}", refresh=True)

            while True:
                await _in_turns(view, draw)
    finally:
        # The terminal goes back to what was there before; the footer's commands reach nothing now.
        if last:
            console.print(last)


async def _in_turns(
    view: Callable[[], Iterable[ClusterView]], draw: Callable[[Sequence[ClusterView]], None]
) -> None:
    """Take a view with turns for others between its portions, draw it, and rest.

    It is drawn on a thread, so that the loop goes on; the rest is a multiple of the time that all
    that took.
    """
    loop = asyncio.get_running_loop()
    began_s, portions = loop.time(), list[ClusterView]()
    for portion in view():
        portions.append(portion)
        await asyncio.sleep(0)
    await asyncio.to_thread(draw, portions)
    await asyncio.sleep(max(REFRESH_S, RESTS * (loop.time() - began_s)))


@contextlib.contextmanager
def _to_the_end() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered output must go somewhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _lines(view: Callable[[], Iterable[ClusterView]], footer: str) -> None:
    print(footer, flush=True)
    before: ClusterView | None = None

    def draw(portions: Sequence[ClusterView]) -> None:
        nonlocal before
        after = whole_view(portions)
        for line in change_lines(before, after):
            print(line, flush=True)
        before = after

    # Without changes nothing is written, and a closed pipe would not be noticed.
    unread = select.poll()
    unread.register(sys.stdout.fileno(), 0)
    while not unread.poll(0):
        await _in_turns(view, draw)
