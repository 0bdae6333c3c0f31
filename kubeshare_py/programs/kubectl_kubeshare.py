"""The command `kubectl kubeshare`: shows the scheduler's state and the scheduler's own reasons."""

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.edges.cli.screen import pause, wall_clock
from kubeshare_py.edges.cli.state_client import StateClient
from kubeshare_py.edges.cli.state_errors import HasEnded, StateRefused, StateUnreachable
from kubeshare_py.manifests.json_templates import template
from kubeshare_py.programs.kubectl_answers import gpus, pods
from kubeshare_py.programs.kubectl_failure import OK, fail
from kubeshare_py.programs.kubectl_question import (
    JSON,
    JSONPATH,
    NAME,
    TABLE,
    WIDE,
    YAML,
    Question,
    Shown,
)
from kubeshare_py.programs.kubectl_top import top
from kubeshare_py.programs.kubectl_why import why
from kubeshare_py.terminal import documents
from kubeshare_py.terminal.table import changed_lines

INTERRUPTED = 130
#: Waits this long (s); False when it is enough.
Pause = Callable[[float], bool]
_ANSWERS = {"gpus": gpus, "pods": pods, "why": why}


def run(question: Question) -> int:
    """Answer on stdout, failures and warnings on stderr; returns the exit code."""
    out, err = Console(), Console(stderr=True)
    client = StateClient(question.access)
    try:
        if question.command == "top":
            return top(question, client, out, err)
        return answer(question, client, out, err)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        client.close()


def answer(
    question: Question, client: StateClient, out: Console, err: Console, wait: Pause = pause
) -> int:
    """Show the answer on `out`; with `watch` also what changes, until `wait` says no."""
    try:
        shown = _ANSWERS[question.command](question, client, wall_clock())
        _say(shown, err)
        _print(question, shown, out)
        while question.watch and wait(question.interval_s):
            shown = _again(question, client, shown, out, err)
    except HasEnded as ended:
        if question.output not in (TABLE, WIDE):
            return fail(ended, err)
        out.print(Text(printable(str(ended))), soft_wrap=True)
    except (StateRefused, StateUnreachable) as error:
        return fail(error, err)
    except BrokenPipeError:
        out.on_broken_pipe()
    return OK


def _again(
    question: Question, client: StateClient, before: Shown, out: Console, err: Console
) -> Shown:
    """Show what changed; while the scheduler cannot be reached, report that and do nothing else."""
    try:
        shown = _ANSWERS[question.command](question, client, wall_clock())
    except StateUnreachable as error:
        fail(error, err)
        return before
    assert before.table is not None
    assert shown.table is not None
    for line in changed_lines(before.table, shown.table, _width(out, question)):
        out.print(line, soft_wrap=True)
    out.file.flush()
    return shown


def _say(shown: Shown, err: Console) -> None:
    for sentence in shown.warnings:
        err.print(Text(f"Warning: {printable(sentence)}", style="yellow"), soft_wrap=True)
    if shown.empty:
        err.print(Text(shown.empty), soft_wrap=True)


def _width(out: Console, question: Question) -> int | None:
    """The width of a terminal; None for other outputs, whose lines are not cut."""
    return out.width if out.is_terminal and not question.wide else None


def _print(question: Question, shown: Shown, out: Console) -> None:
    # Unformatted: formatting for a terminal takes seconds for a large cluster.
    if question.output == JSON:
        out.file.write(documents.as_json(shown.document()) + "\n")
    elif question.output == YAML:
        out.file.write(documents.as_yaml(shown.document()) + "\n")
    elif question.output == NAME:
        out.file.writelines(f"{name}\n" for name in shown.names)
    elif question.output.startswith(JSONPATH):
        out.file.write(template(question.output.removeprefix(JSONPATH))(shown.document()))
    elif not shown.empty:
        out.print(shown.text(_width(out, question)), soft_wrap=True)
    out.file.flush()
