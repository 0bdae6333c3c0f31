"""The command `kubectl kubeshare`: shows the scheduler's state and the scheduler's own reasons."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console
from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.cli.https_client import (
    HasEnded,
    NotFound,
    StateError,
    StateRefused,
    StateUnreachable,
)
from kubeshare_py.edges.cli.screen import Screen, pause, wall_clock
from kubeshare_py.edges.cli.state_client import (
    ApiAccess,
    StateClient,
    find_pod,
    find_sharepod,
    matching_nodes,
    matching_pods,
    pods_of,
)
from kubeshare_py.manifests.json_paths import template
from kubeshare_py.manifests.workloads import POD, SHAREPOD, NamedWorkload, named
from kubeshare_py.terminal import documents
from kubeshare_py.terminal.cards import NAME_ORDER, of_model, sorted_nodes, warnings
from kubeshare_py.terminal.documents import ViewDocument
from kubeshare_py.terminal.gpu_tables import (
    card_table,
    pod_details,
    shown_nodes,
    summary,
    topology_tables,
)
from kubeshare_py.terminal.grid import Table, changed_lines, joined, table_lines
from kubeshare_py.terminal.live_view import live_view
from kubeshare_py.terminal.pod_table import (
    ENDED,
    SchedulerNames,
    foreign_sentence,
    most_telling,
    pod_table,
    shown_pods,
)
from kubeshare_py.terminal.top_screen import KeyRequest, TopScreen, last_line
from kubeshare_py.terminal.why_report import why_report
from kubeshare_py.views.view import ClusterView, NodeView, PodView, WhyView

# The message and exit code of `kubectl kubeshare` when it cannot answer.


OK, REFUSED, UNREACHABLE = 0, 1, 3


def fail(error: Exception, err: Console) -> int:
    """Print the error, in kubectl's words where it has some; the exit code."""
    head = "Error from server (NotFound)" if isinstance(error, NotFound) else "Error"
    documents.complain(err, str(error), head)
    return UNREACHABLE if isinstance(error, StateUnreachable) else REFUSED


# A question on the command line of `kubectl kubeshare`, and the forms of its answer.


TABLE, WIDE, NAME, JSON, YAML, JSONPATH = "table", "wide", "name", "json", "yaml", "jsonpath="


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`command` is gpus, pods, why or top; `names` are nodes, pods, or the subject of `why`.

    `output` is one of the constants, or the template behind `jsonpath=`. `interval_s` is the pause
    between updates of `watch` and `top`. `sort` is one of `terminal.cards.SORTS`, and `model` part
    of the models to show.
    """

    command: str
    names: tuple[str, ...] = ()
    output: str = TABLE
    no_headers: bool = False
    details: bool = False
    topology: bool = False
    summary: bool = False
    all_namespaces: bool = False
    selector: str = ""
    sort: str = NAME_ORDER
    model: str = ""
    watch: bool = False
    once: bool = False
    interval_s: float = 2.0
    access: ApiAccess = field(default_factory=ApiAccess)

    @property
    def wide(self) -> bool:
        """Whether tables have more columns, and uncut lines."""
        return self.output == WIDE


def usage_error(question: Question) -> str:
    """What is wrong with the question itself, "" if nothing is."""
    if question.watch and (
        question.output not in (TABLE, WIDE)
        or question.details
        or question.topology
        or question.summary
    ):
        return "-w goes with the plain table and -o wide only"
    if question.names and question.all_namespaces:
        return "pods are named in one namespace: either names or -A"
    try:
        if question.output.startswith(JSONPATH):
            template(question.output.removeprefix(JSONPATH))
        if question.command == "why":
            named(question.names[0])
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An answer in all its forms, each made on demand.

    `text` gets the columns of the terminal, None for uncut lines. `table` is set for what may be
    watched. `empty` is printed on stderr if there is nothing.
    """

    text: Callable[[int | None], Text]
    document: Callable[[], ViewDocument]
    names: Sequence[str]
    table: Table | None = None
    warnings: Sequence[str] = ()
    empty: str = ""


# What `kubectl kubeshare` says of pods that the scheduler does not know, and of SharePods.


def unknown_pod(client: StateClient, namespace: str, name: str, error: NotFound) -> StateError:
    """Why the scheduler does not know a pod, by the API server if it says; else `error`."""
    try:
        pod = find_pod(client.api, namespace, name)
    except NotFound as absent:
        return absent
    except StateUnreachable:
        return error
    except StateRefused as refused:
        return NotFound(f"{error} ({refused})")
    # Imported late: the keys of all dialects, for the pods of other schedulers alone.
    from kubeshare_py.dialects.pod_request import key_of_dialect  # noqa: PLC0415

    sentence = foreign_sentence(
        f"{namespace}/{name}",
        scheduler=pod.spec.scheduler_name,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        message=pod.message,
        asks_by=key_of_dialect(pod.keys, pod.resources),
        ours=_names(client, namespace),
    )
    return HasEnded(sentence) if pod.status.phase in ENDED else StateRefused(sentence)


def _names(client: StateClient, namespace: str) -> SchedulerNames:
    """The scheduler's own names, as far as it says them to this user."""
    try:
        found = client.schedulers(namespace)
    except StateError as error:
        return SchedulerNames(unknown=str(error))
    return SchedulerNames(tuple(one.name for one in found))


def why_of_sharepod(client: StateClient, namespace: str, name: str) -> WhyView:
    """About the pod of a SharePod, which has its name. Raises StateRefused if there is none."""
    try:
        return client.why(namespace, name)
    except NotFound as error:
        unknown = error
    message = find_sharepod(client.api, namespace, name)
    try:
        find_pod(client.api, namespace, name)
    except NotFound as absent:
        said = message or "kubeshare-controller has made none yet, or it does not run"
        raise StateRefused(f"sharepod {namespace}/{name} has no pod: {said}") from absent
    raise unknown_pod(client, namespace, name, unknown)


# The answers of `kubectl kubeshare gpus` and `pods`: from views to what is shown.


def gpus(question: Question, client: StateClient, _now: float) -> Shown:
    """The cards of all nodes, or of those with the names or labels.

    Raises StateError, and NotFound for an unknown node.
    """
    view = client.cards(topology=question.topology)
    known = {node.name for node in view.nodes}
    for name in question.names:
        if name not in known:
            raise NotFound(f'nodes "{name}" not found among those that the scheduler knows')
    nodes = chosen_nodes(question, client, shown_nodes(view, question.names))
    table = None
    if question.topology:
        text = partial(topology_tables, nodes)
    elif question.details:
        text = partial(pod_details, view, nodes)
    elif question.summary:
        text = partial(summary, view, nodes)
    else:
        table = card_table(view, nodes, wide=question.wide)
        text = partial(_lines, question, table)
    has_cards = any(node.cards for node in nodes)
    source = f" The source of cards is {printable(view.source)}." if view.source else ""
    return Shown(
        text=text,
        table=table,
        document=partial(documents.gpus_document, view, nodes),
        names=[f"gpu/{card.uuid}" for node in nodes for card in node.cards],
        warnings=warnings(view),
        empty="" if has_cards or table is None else f"No GPUs found.{source}",
    )


def chosen_nodes(
    question: Question, client: StateClient, nodes: Iterable[NodeView]
) -> list[NodeView]:
    """Those of the nodes with the labels and the model of the question, in its order.

    Raises StateError.
    """
    if question.selector:
        found = matching_nodes(client.api, question.selector)
        nodes = [node for node in nodes if node.name in found]
    if question.model:
        nodes = of_model(nodes, question.model)
    return sorted_nodes(nodes, question.sort)


def pods(question: Question, client: StateClient, now: float) -> Shown:
    """Pods of the namespace or of all, or those with the names or labels. Raises StateError."""
    namespace = None if question.all_namespaces else client.api.namespace()
    view = client.pods(namespace)
    labelled = None
    if question.selector:
        labelled = matching_pods(client.api, namespace, question.selector)
    chosen = shown_pods(view, question.names, labelled)
    for name in question.names:
        if namespace is not None and name not in {pod.name for pod in chosen}:
            raise unknown_pod(client, namespace, name, NotFound(f'pods "{name}" not found'))
    table = pod_table(chosen, now, with_namespace=namespace is None, wide=question.wide)
    where = "" if namespace is None else f" in {namespace} namespace"
    return Shown(
        text=partial(_lines, question, table),
        table=table,
        document=partial(documents.pods_document, view, chosen),
        names=[f"pod/{pod.name}" for pod in chosen],
        warnings=warnings(view),
        empty="" if chosen else f"No pods of the scheduler found{where}.",
    )


def _lines(question: Question, table: Table, width: int | None) -> Text:
    limit = None if question.wide else width
    return joined(table_lines(table, limit, headers=not question.no_headers))


# `kubectl kubeshare top`: the cluster on one screen, redrawn at intervals.


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
    screen, app, alarm = Screen(out), TopScreen(view, question.sort, wall_clock()), ""
    with screen.opened():
        while True:
            width, height = screen.size
            shown = app.show(width, max(1, height - _FOOTER_LINES))
            usual = f"Every {question.interval_s:g} s; {app.help()}"
            footer = last_line(alarm or usual, width, alarm=bool(alarm))
            screen.draw(joined([shown, Text(), footer]))
            if not (wait or screen.wait)(question.interval_s):
                return OK
            keys = screen.take_keys()
            try:
                if any(_pressed(app, client, key) for key in keys):
                    return OK
                if not keys:
                    app.refresh(_view(question, client), wall_clock())
                alarm = ""
            except (StateRefused, StateUnreachable) as error:
                alarm = str(error)


def _pressed(app: TopScreen, client: StateClient, key: str) -> bool:
    """Whether the user quits. Raises StateError if the scheduler does not say why."""
    request = app.press(key)
    if request is KeyRequest.WHY and (pod := app.chosen) is not None:
        app.explain(client.why(pod.namespace, pod.name))
    return request is KeyRequest.QUIT


def _view(question: Question, client: StateClient) -> ClusterView:
    view = client.cards()
    if not question.selector and not question.model:
        return view
    return replace(view, nodes=tuple(chosen_nodes(question, client, view.nodes)))


# The answer of `kubectl kubeshare why`: for one pod, or for the pods of a Job, Deployment …


def why(question: Question, client: StateClient, now: float) -> Shown:
    """One pod, or a SharePod's; of a workload its pods, and the one that says most of them.

    Raises StateError.
    """
    namespace, target = client.api.namespace(), named(question.names[0])
    if target.kind in (POD, SHAREPOD):
        ask = _why if target.kind is POD else why_of_sharepod
        found = ask(client, namespace, target.name)
        return Shown(
            text=partial(why_report, found),
            document=partial(documents.why_document, found),
            names=[f"pod/{found.pod.name}"],
        )
    chosen = _of_workload(client, namespace, target)
    found = _why(client, namespace, most_telling(chosen).name)
    table = pod_table(chosen, now, with_namespace=False)

    def text(width: int | None) -> Text:
        return joined([*table_lines(table, width), Text(), why_report(found, width)])

    return Shown(
        text=text if len(chosen) > 1 else partial(why_report, found),
        document=partial(documents.workload_document, found, chosen),
        names=[f"pod/{pod.name}" for pod in chosen],
    )


def _why(client: StateClient, namespace: str, name: str) -> WhyView:
    try:
        return client.why(namespace, name)
    except NotFound as error:
        raise unknown_pod(client, namespace, name, error) from error


def _of_workload(client: StateClient, namespace: str, target: NamedWorkload) -> list[PodView]:
    """Those of its pods that the scheduler knows, at least one. Raises StateError."""
    selected = pods_of(client.api, namespace, target)
    chosen = shown_pods(client.pods(namespace), matching=selected)
    if chosen:
        return chosen
    kind = f"{target.kind.names[0]} {namespace}/{target.name}"
    if not selected:
        raise StateRefused(f"{kind} has no pods")
    (_, first), *_ = sorted(selected)
    absent = NotFound(f"the scheduler knows none of the pods of {kind}")
    reason = unknown_pod(client, namespace, first, absent)
    if isinstance(reason, HasEnded):
        pods = "its pod" if len(selected) == 1 else f"each of its {len(selected)} pods"
        raise HasEnded(f"{kind} has ended, and so has {pods}: nothing waits, nothing is held")
    raise reason


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
        documents.complain(err, sentence, "Warning")
    if shown.empty:
        err.print(Text(shown.empty), soft_wrap=True)


def _width(out: Console, question: Question) -> int | None:
    """The width of a terminal; None for other outputs, whose lines are not cut."""
    return out.width if out.is_terminal and not question.wide else None


def _print(question: Question, shown: Shown, out: Console) -> None:
    # Unformatted: formatting for a terminal takes seconds for a large cluster.
    if question.output in (JSON, YAML):
        out.file.write(documents.written(shown.document(), question.output))
    elif question.output == NAME:
        out.file.writelines(f"{name}\n" for name in shown.names)
    elif question.output.startswith(JSONPATH):
        out.file.write(template(question.output.removeprefix(JSONPATH))(shown.document()))
    elif not shown.empty:
        out.print(shown.text(_width(out, question)), soft_wrap=True)
    out.file.flush()
