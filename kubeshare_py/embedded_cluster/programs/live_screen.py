"""The demo's screen: the live view on a terminal, or a line per change."""

import asyncio
import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator

from rich.console import Console, RenderableType
from rich.live import Live

from kubeshare_py.embedded_cluster.programs.change_lines import change_lines
from kubeshare_py.terminal.live_view import live_view
from kubeshare_py.views.view import ClusterView

REFRESH_S = 0.25


async def show(
    view: Callable[[], ClusterView],
    *,
    footer: str,
    plain: bool = False,
    seconds: float | None = None,
) -> None:
    """Show until cancelled, or for `seconds`; `footer` is below the view, or before the lines.

    It also ends when the lines are no longer read, as behind `| head`.
    """
    console = Console()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            if plain or not console.is_terminal:
                with _to_the_end():
                    await _lines(view, footer)
            else:
                await _screen(view, footer, console)


async def _screen(view: Callable[[], ClusterView], footer: str, console: Console) -> None:
    def render() -> RenderableType:
        width, height = console.size
        shown = live_view(view(), width=width, height=height - footer.count("\n") - 2)
        return shown + f"\n\n{footer}"

    with Live(get_renderable=render, console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.refresh()
            await asyncio.sleep(REFRESH_S)


@contextlib.contextmanager
def _to_the_end() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered output must go somewhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _lines(view: Callable[[], ClusterView], footer: str) -> None:
    print(footer, flush=True)
    before: ClusterView | None = None
    # Without changes nothing is written, and a closed pipe would not be noticed.
    unread = select.poll()
    unread.register(sys.stdout.fileno(), 0)
    while not unread.poll(0):
        after = view()
        for line in change_lines(before, after):
            print(line, flush=True)
        before = after
        await asyncio.sleep(REFRESH_S)
