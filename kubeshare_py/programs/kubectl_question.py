"""A question on the command line of `kubectl kubeshare`, and the forms of its answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from kubeshare_py.edges.cli.access import ApiAccess
from kubeshare_py.manifests.json_templates import template
from kubeshare_py.manifests.workloads import named
from kubeshare_py.terminal.cards import NAME_ORDER
from kubeshare_py.terminal.documents import ViewDocument
from kubeshare_py.terminal.table import Table

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
