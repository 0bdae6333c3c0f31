"""`kubectl kubeshare top`: the cluster on one screen, redrawn at intervals."""

from collections.abc import Callable
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.edges.cli.screen import Screen
from kubeshare_py.edges.cli.state_client import StateClient
from kubeshare_py.edges.cli.state_errors import StateRefused, StateUnreachable
from kubeshare_py.programs.kubectl_answers import chosen_nodes
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
        view = _view(question, client)
    except (StateRefused, StateUnreachable) as error:
        return fail(error, err)
    if question.once or not out.is_terminal:
        text = live_view(view, width=out.width, height=_MAX_LINES, sort=question.sort)
        out.print(text, soft_wrap=True)
        return OK
    usual = said = f"Every {question.interval_s:g} s; q or Ctrl-C ends. Arrows scroll."
    screen, skip = Screen(out), 0
    with screen.opened():
        while True:
            _draw(screen, question, view, said, skip, alarm=said != usual)
            if not (wait or screen.wait)(question.interval_s):
                return OK
            moved = screen.take_moves()
            if moved:
                skip = min(max(skip + moved, 0), max(len(view.nodes) - 1, 0))
                continue
            try:
                view, said = _view(question, client), usual
            except (StateRefused, StateUnreachable) as error:
                said = str(error)


def _view(question: Question, client: StateClient) -> ClusterView:
    view = client.cards()
    if not question.selector and not question.model:
        return view
    return replace(view, nodes=tuple(chosen_nodes(question, client, view.nodes)))


def _draw(
    screen: Screen, question: Question, view: ClusterView, said: str, skip: int, *, alarm: bool
) -> None:
    width, height = screen.size
    footer = Text(printable(said)[:width], style="red" if alarm else "dim")
    lines = max(1, height - _FOOTER_LINES)
    shown = live_view(view, width=width, height=lines, sort=question.sort, skip=skip)
    screen.draw(joined([shown, Text(), footer]))
