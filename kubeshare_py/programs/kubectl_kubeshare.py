"""The command `kubectl kubeshare`: shows the scheduler's state. Every word about why is its own."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console
from rich.text import Text

from kubeshare_py.edges import decision_log, state_client
from kubeshare_py.edges.kube_context import default_namespace
from kubeshare_py.edges.state_errors import StateRefused, StateUnreachable
from kubeshare_py.edges.state_route import Access, find_route
from kubeshare_py.terminal import documents
from kubeshare_py.terminal.gpu_details import pod_details
from kubeshare_py.terminal.gpu_tables import card_tables, shown_nodes
from kubeshare_py.terminal.grid import printable
from kubeshare_py.terminal.pod_table import pod_table, shown_pods
from kubeshare_py.terminal.topology_tables import topology_tables
from kubeshare_py.terminal.why_report import why_report

OK, REFUSED, UNREACHABLE, INTERRUPTED = 0, 1, 3, 130
#: The table and the machine form, made when asked for.
_Forms = tuple[Callable[[], Text], Callable[[], documents.Document]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked on the command line. `command` is gpus, pods or why."""

    command: str
    output: str = "table"
    node: str = ""
    details: bool = False
    topology: bool = False
    pod: str = ""
    namespace: str | None = None
    all_namespaces: bool = False
    access: Access = field(default_factory=Access)


def run(question: Question) -> int:
    """Answer on stdout, failures on stderr; returns the exit code."""
    decision_log.set_up("critical")  # what goes wrong is said by the answer
    try:
        return asyncio.run(answer(question, Console(), Console(stderr=True)))
    except KeyboardInterrupt:
        return INTERRUPTED


async def answer(question: Question, out: Console, err: Console) -> int:
    """Show the answer on `out`, or what went wrong on `err`."""
    shows = {"gpus": _gpus, "pods": _pods, "why": _why}
    # Only a terminal's lines have an end.
    width = out.width if out.is_terminal else None
    try:
        table, document = await shows[question.command](question, width)
    except (StateRefused, StateUnreachable) as error:
        err.print(Text(f"Error: {printable(str(error))}", style="red"), soft_wrap=True)
        return REFUSED if isinstance(error, StateRefused) else UNREACHABLE
    if question.output == "table":
        out.print(table(), soft_wrap=True)
        return OK
    write = documents.as_json if question.output == "json" else documents.as_yaml
    try:
        # As it is: formatting for a terminal takes seconds for a large cluster.
        print(write(document()), file=out.file, flush=True)
    except BrokenPipeError:
        out.on_broken_pipe()
    return OK


async def _gpus(question: Question, width: int | None) -> _Forms:
    view = await state_client.cluster(await find_route(question.access), topology=question.topology)
    nodes = shown_nodes(view, question.node)
    if question.node and not nodes:
        raise StateRefused(f"the scheduler knows no node {question.node!r}")
    plain = topology_tables if question.topology else card_tables
    table = partial(pod_details if question.details else plain, view, nodes, width)
    return table, partial(documents.gpus_document, view, nodes)


async def _pods(question: Question, width: int | None) -> _Forms:
    view = await state_client.cluster(await find_route(question.access))
    pods = shown_pods(view, None if question.all_namespaces else _namespace(question))
    table = partial(pod_table, view, pods, width, with_namespace=question.all_namespaces)
    return table, partial(documents.pods_document, view, pods)


async def _why(question: Question, width: int | None) -> _Forms:
    route = await find_route(question.access)
    why = await state_client.why(route, _namespace(question), question.pod)
    return partial(why_report, why, width), partial(documents.why_document, why)


def _namespace(question: Question) -> str:
    access = question.access
    return question.namespace or default_namespace(access.kubeconfig, access.context)
