"""`kubectl kubeshare top`: the cluster on one screen, redrawn at intervals."""

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.edges.cli.screen import Screen
from kubeshare_py.edges.cli.state_client import StateClient
from kubeshare_py.edges.cli.state_errors import StateRefused, StateUnreachable
from kubeshare_py.programs.kubectl_failure import OK, fail
from kubeshare_py.programs.kubectl_question import Question
from kubeshare_py.terminal.grid import joined
from kubeshare_py.terminal.live_view import live_view
from kubeshare_py.views.view import ClusterView

#: More than any cluster needs: without a terminal nothing is left out.
_MAX_LINES = 100_000
_FOOTER_LINES = 2


def top(
    question: Question,
    client: StateClient,
    out: Console,
    err: Console,
    wait: Callable[[float], bool] | None = None,
) -> int:
    """Draw until the user quits, or once without a terminal; the exit code.

    While the scheduler cannot be reached, the last view stays, and the footer says so. `wait`
    stands for the user in tests.
    """
    try:
        view = client.cards()
    except (StateRefused, StateUnreachable) as error:
        return fail(error, err)
    if question.once or not out.is_terminal:
        out.print(live_view(view, width=out.width, height=_MAX_LINES), soft_wrap=True)
        return OK
    usual = said = f"Every {question.interval_s:g} s; q or Ctrl-C ends."
    screen = Screen(out)
    with screen.opened():
        while True:
            _draw(screen, view, said, alarm=said != usual)
            if not (wait or screen.wait)(question.interval_s):
                return OK
            try:
                view, said = client.cards(), usual
            except (StateRefused, StateUnreachable) as error:
                said = str(error)


def _draw(screen: Screen, view: ClusterView, said: str, *, alarm: bool) -> None:
    width, height = screen.size
    footer = Text(printable(said)[:width], style="red" if alarm else "dim")
    shown = live_view(view, width=width, height=max(1, height - _FOOTER_LINES))
    screen.draw(joined([shown, Text(), footer]))
