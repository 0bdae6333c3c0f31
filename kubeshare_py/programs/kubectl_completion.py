"""Completion of `kubectl kubeshare`: candidates for the last word of a command line.

kubectl runs `kubectl_complete-kubeshare` with the words, and reads cobra's protocol: a candidate a
line, a tab before its description, and a directive of bits at the end:
https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/ and
https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from kubeshare_py.edges.cli.https_client import StateError
from kubeshare_py.edges.cli.state_client import ApiAccess, StateClient, names_of
from kubeshare_py.edges.kube.kubeconfig import kubeconfig_names
from kubeshare_py.manifests.workloads import WORKLOADS, named
from kubeshare_py.terminal.cards import SORTS

# Parses a command line of `kubectl kubeshare` whose last word is to be completed.


#: The options about the way to the scheduler that are one text.
_TEXTS = {one.name for one in fields(ApiAccess) if one.type in ("str | None", str | None)}


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option by the field that it sets; `takes_value` is False for flags."""

    field: str
    takes_value: bool
    help: str


@dataclass(slots=True, kw_only=True)
class CommandLine:
    """The words before the word to complete, and the possible ones.

    Commands and options with their help.

    `option` is the field of the option whose value the word is, "" for none; `given` are the words
    that are neither options nor the command.
    """

    word: str
    commands: Mapping[str, str]
    command: str = ""
    options: Mapping[str, CommandOption] = field(default_factory=dict)
    option: str = ""
    given: list[str] = field(default_factory=list)
    access: ApiAccess = field(default_factory=ApiAccess)


def read_line(
    words: Sequence[str],
    commands: Mapping[str, str],
    options_of: Callable[[str], Mapping[str, CommandOption]],
) -> CommandLine:
    """Parse a line whose last word is to be completed."""
    *before, word = words or [""]
    line = CommandLine(word=word, commands=commands)
    line.command = next((one for one in before if one in commands), "")
    line.options = options_of(line.command)
    values: dict[str, Any] = {}
    for one in before:
        name, equals, value = one.partition("=")
        if line.option:
            values[line.option], line.option = one, ""
        elif name in line.options and line.options[name].takes_value:
            line.option = "" if equals else line.options[name].field
            values |= {line.options[name].field: value} if equals else {}
        elif not one.startswith("-") and one != line.command:
            line.given.append(one)
    line.access = ApiAccess(**{name: text for name, text in values.items() if name in _TEXTS})
    return line


#: Cobra's directives, which may be added: complete file names, no space after the word, no file
#: names.
FILES, NO_SPACE, NO_FILES = 0, 2, 4
#: A shell waits for the answer.
TIMEOUT_S = 2.0
_FILES = (
    *("kubeconfig", "ca_file", "token_file", "certificate_authority", "files", "config"),
    *("profile", "log"),
)
#: Commands with fewer forms of answers.
_FEW_OUTPUTS = ("check", "what-if", "capacity", "when", "history")
#: The words of `usage --by`; those of `event_log.usage`, which the command alone leaves out.
USAGE_COLUMNS = ("namespace", "pod", "owner", "queue", "model", "node", "card")


def candidates(line: CommandLine) -> tuple[list[str], int]:
    """The lines for the shell, and the directive."""
    if line.option:
        return _values(line)
    if line.word.startswith("-"):
        return _matching(line.word, _with_help(line.options)), NO_FILES
    if not line.command:
        return _matching(line.word, line.commands.items()), NO_FILES
    if line.command == "why":
        return ([], NO_FILES) if line.given else _subjects(line)
    asks = {"gpus": _nodes, "pods": _pods, "when": _pods, "history": _pods}
    names = _asked(line, asks[line.command]) if line.command in asks else []
    return _matching(line.word, _plain(name for name in names if name not in line.given)), NO_FILES


def _subjects(line: CommandLine) -> tuple[list[str], int]:
    """What `why` may be about: pods, or kinds, or the objects of a kind."""
    if "/" in line.word:
        return _matching(line.word, _plain(_asked(line, partial(_of_kind, line.word)))), NO_FILES
    found = _matching(line.word, _plain(_asked(line, _pods)))
    if found:
        return found, NO_FILES
    kinds = (f"{kind.names[0]}/" for kind in WORKLOADS)
    return _matching(line.word, _plain(kinds)), NO_FILES | NO_SPACE


def _values(line: CommandLine) -> tuple[list[str], int]:
    """The values of an option."""
    if line.option == "output":
        words: Iterable[str] = ("wide", "name", "json", "yaml", "jsonpath=")
        words = ("json", "yaml") if line.command in _FEW_OUTPUTS else words
        words = ("json", "csv") if line.command == "usage" else words
    elif line.option in ("context", "cluster", "user"):
        words = kubeconfig_names(line.access, line.option)
    elif line.option in ("cordon", "like"):
        words = _asked(line, _nodes)
    elif line.option == "without":
        words = _asked(line, _pods)
    elif line.option == "sort":
        words = SORTS
    elif line.option == "by":
        before, comma, _ = line.word.rpartition(",")
        words = [before + comma + one for one in USAGE_COLUMNS]
    elif line.option == "namespace":
        words = _asked(line, _namespaces)
    else:
        is_file = line.option in _FILES
        return [], FILES if is_file or line.option.startswith("client_") else NO_FILES
    return _matching(line.word, _plain(words)), NO_FILES


def _asked(line: CommandLine, ask: Callable[[StateClient], Iterable[str]]) -> list[str]:
    """The scheduler's names; none if it does not answer in time."""
    limit = line.access.request_timeout or TIMEOUT_S
    access = replace(line.access, request_timeout=min(limit, TIMEOUT_S))
    with contextlib.closing(StateClient(access)) as client, contextlib.suppress(StateError):
        return sorted(ask(client))
    return []


def _nodes(client: StateClient) -> Iterable[str]:
    return (node.name for node in client.cards().nodes if node.cards)


def _pods(client: StateClient) -> Iterable[str]:
    return (pod.name for pod in client.pods(client.api.namespace()).pods)


def _of_kind(word: str, client: StateClient) -> Iterable[str]:
    """`job/NAME` for all jobs of the namespace, for a word that begins so; nothing for no kind."""
    kind, _, _ = word.partition("/")
    try:
        workload = named(f"{kind}/x").kind
    except ValueError:
        return []
    names = names_of(client.api, client.api.namespace(), workload)
    return (f"{kind}/{name}" for name in names)


def _namespaces(client: StateClient) -> Iterable[str]:
    return {pod.namespace for pod in client.pods(None).pods}


def _with_help(options: Mapping[str, CommandOption]) -> Iterable[tuple[str, str]]:
    return ((name, option.help) for name, option in options.items() if name.startswith("--"))


def _plain(words: Iterable[str]) -> Iterable[tuple[str, str]]:
    return ((word, "") for word in words)


def _matching(word: str, found: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{one}\t{text}" if text else one for one, text in found if one.startswith(word)]
