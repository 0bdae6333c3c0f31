"""The command line of `kubectl kubeshare`: commands, their options, help."""

import argparse
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

# How help of `kubectl kubeshare` looks.


#: The title of the commands, which help names first.
COMMANDS_TITLE = "commands"
_WIDTH, _HELP_AT = 96, 32


def make_formatter(prog: str) -> argparse.HelpFormatter:
    """One line for each option where that is possible."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=_HELP_AT, width=_WIDTH)


def connection_names(actions: list[argparse.Action]) -> str:
    """The options about the connection in one paragraph."""
    names = ["/".join(action.option_strings) for action in actions]
    lines, line = [], " "
    for name in names:
        if len(line) + len(name) + 2 > _WIDTH:
            lines.append(line)
            line = " "
        line += f" {name},"
    return "\n".join(["connection (kubectl's, see docs/kubectl.md):", *lines, line.rstrip(",")])


# What is said of words that a command line of `kubectl kubeshare` should not have.


_ALIKE = 0.7
#: Kinds before a name, as in `kubectl get job x`; `why` takes them as job/x.
_KINDS = {
    "pod", "pods", "po", "job", "jobs", "deployment", "deployments", "deploy", "replicaset", "rs",
    "statefulset", "sts", "daemonset", "ds", "replicationcontroller", "rc", "sharepod",
}  # fmt: skip
#: What people type who know other commands.
_ELSEWHERE = {
    "version": "it is an option: kubectl kubeshare --version",
    "help": "it is an option: kubectl kubeshare --help",
    "completion": "kubectl completes the plugin's words with `kubectl_complete-kubeshare` on $PATH",
    "get": "cards are shown by `gpus`, pods by `pods`",
    "describe": "`why` says all about a pod",
    "nodes": "cards are shown node by node: gpus --summary",
}


def unknown_command(word: str, known: Sequence[str]) -> str:
    """The sentence about a word in place of a command."""
    hint = f"; {_ELSEWHERE[word]}" if word in _ELSEWHERE else meant(word, known)
    return f'unknown command "{word}"{hint or ": " + ", ".join(known)}'


def unknown_word(command: str, word: str, names: Sequence[str], options: Sequence[str]) -> str:
    """The sentence about a word behind a command and these names."""
    if word.startswith("-"):
        return f"unknown option {word}{meant(word, options)}"
    if command in ("check", "what-if", "capacity"):
        return f'unexpected word "{word}"; did you mean -f {word}?'
    if command == "why" and names and names[0] in _KINDS:
        return f'"{names[0]}" is a kind; did you mean why {names[0]}/{word}?'
    if command == "why":
        return f'unexpected word "{word}"; why is about one pod, or one KIND/NAME'
    return f'unexpected word "{word}"'


def meant(word: str, known: Sequence[str]) -> str:
    """Which of the known words may be meant, as the end of a sentence; "" if none is like it."""
    names = {one.lstrip("-"): one for one in known}
    alike = get_close_matches(word.lstrip("-"), names, n=1, cutoff=_ALIKE)
    return f"; did you mean {names[alike[0]]}?" if alike else ""


# The options of every command of `kubectl kubeshare`; most are kubectl's own.


OUTPUTS = ("table", "wide", "name", "json", "yaml")
#: Of `check`, which asks the API server at most.
CHECK_OUTPUTS = ("table", "json", "yaml")
#: Of `usage`, which asks no cluster, and by what it adds up; those of `event_log.usage`, whose
#: import would make --help slow.
USAGE_OUTPUTS = ("table", "json", "csv")
USAGE_COLUMNS = ("namespace", "pod", "owner", "queue", "model", "node", "card")
#: The commands that run the scheduler's machine themselves, and the most nodes that they add.
FORESIGHT, MOST_NODES = ("what-if", "capacity", "when"), 5000
#: All that need the scheduler's machine.
HERE = (*FORESIGHT, "history")
#: Orders of nodes; those of `terminal.cards`, whose import would make --help slow.
SORTS = ("name", "free", "used")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPANS = {**_SECONDS, "d": 86400.0, "w": 604800.0}


def add_output(add: Callable[..., object]) -> None:
    """Add the options about the form of answers with argparse's `add_argument`."""
    add("-o", "--output", type=_output, metavar="FORM", help=f"{', '.join(OUTPUTS)}, jsonpath=…")
    add("--no-headers", action="store_true", help="tables without their first line")


def add_connection(add: Callable[..., object]) -> None:
    """Add the options about the way to the scheduler."""
    add_api_server(add)
    add("--scheduler", metavar="URL", help="https://HOST:PORT, past the API server")
    add("--ca-file", metavar="FILE", help="what to trust at --scheduler; default: the system's")
    add("--token-file", metavar="FILE", help="for --scheduler; default: $KUBESHARE_TOKEN")


def add_api_server(add: Callable[..., object]) -> None:
    """Add kubectl's options about the API server."""
    add("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG or ~/.kube/config")
    for name, text in (
        ("context", "of the kubeconfig; default: its current one"),
        ("cluster", "of the kubeconfig; default: the context's"),
        ("user", "of the kubeconfig; default: the context's"),
    ):
        add(f"--{name}", metavar="NAME", help=text)
    add("-s", "--server", metavar="URL", help="of the API server")
    add("--token", metavar="TOKEN", help="for the API server")
    add("--as", dest="as_user", metavar="USER", help="act as this user")
    add("--as-group", action="append", metavar="GROUP", help="and in this group; may be repeated")
    add("--as-uid", metavar="UID", help="and with this uid")
    add("--as-user-extra", action="append", metavar="KEY=VALUE", help="and with this; repeatable")
    add("--certificate-authority", metavar="FILE", help="what to trust at the API server")
    add("--client-certificate", metavar="FILE", help="of the user")
    add("--client-key", metavar="FILE", help="of the user")
    add("--tls-server-name", metavar="NAME", help="the name in the API server's certificate")
    add("--insecure-skip-tls-verify", action="store_true", help="trust any API server")
    add("--request-timeout", type=seconds, metavar="TIME", help="as 5, 30s or 2m; 0 for none")


def _output(text: str) -> str:
    if text in OUTPUTS or text.startswith("jsonpath="):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(OUTPUTS)}, jsonpath=…")


def seconds(text: str) -> float:
    """A time such as 5, 30s or 2m in seconds; argparse's error for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 5, 30s or 2m")
    return float(found[1]) * _SECONDS[found[2]]


def span_or_time(text: str) -> float | str:
    """A time such as 7d, 12h or 90m in seconds; any other text is a moment."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    return text if found is None else float(found[1]) * _SPANS[found[2]]


def _by(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(text.split(",")))
    for word in words:
        if word not in USAGE_COLUMNS:
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(USAGE_COLUMNS)}")
    return words


# The options of each command of `kubectl kubeshare` that others do not have.


def add_own(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    add = parser.add_argument
    if name == "gpus":
        add("names", nargs="*", metavar="NODE", help="only these nodes")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("-d", "--details", action="store_true", help="one line for each pod")
        form.add_argument("-t", "--topology", action="store_true", help="links and islands")
        form.add_argument("--summary", action="store_true", help="one line for each node, totals")
    if name == "pods":
        add("names", nargs="*", metavar="POD", help="only these pods")
        add("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    if name == "why":
        add("names", nargs="?", metavar="POD", help="or KIND/NAME: job/x, deployment/x, …")
    if name in ("gpus", "top"):
        add("--sort", choices=SORTS, metavar="BY", help=f"of nodes: {', '.join(SORTS)}")
        add("--model", metavar="TEXT", help="only cards whose model contains this, as a100")
    if name in ("gpus", "pods", "top"):
        add("-l", "--selector", metavar="LABELS", help="of nodes or pods, as in kubectl get")
    if name in ("gpus", "pods"):
        add("-w", "--watch", action="store_true", help="print what changes from now on")
    if name == "top":
        add("--once", action="store_true", help="print once; so it is without a terminal")
    if name == "check":
        files = "manifests; - is standard input; may be repeated"
        add("-f", "--filename", dest="files", action="append", metavar="FILE", help=files)
        add("-o", "--output", choices=CHECK_OUTPUTS, metavar="FORM", help=", ".join(CHECK_OUTPUTS))
        add("--config", metavar="FILE", help="the scheduler's configuration, for its profiles")
        add("--now", action="store_true", help="would they fit at once? where, or why not")
        add("--offline", action="store_true", help="do not ask the API server what it would do")
    if name in ("gpus", "pods", "top"):
        add("--interval", dest="interval_s", type=seconds, metavar="S", help="of -w and top; 2")


def add_usage(add: Callable[..., object]) -> None:
    """Add the options of `usage`, which asks no cluster."""
    add("--log", metavar="DIR", help="the folder of --event-log, or a copy of it")
    add("--since", type=span_or_time, metavar="T", help="a time, or 7d, 12h before --until")
    add("--until", metavar="T", help="a time (RFC 3339); default: the end of the log")
    add("--by", type=_by, metavar="WORDS", help=f"of {', '.join(USAGE_COLUMNS)}; with commas")
    add("-n", "--namespace", metavar="NS", help="only what its pods held; default: all")
    add("-o", "--output", choices=USAGE_OUTPUTS, metavar="FORM", help=", ".join(USAGE_OUTPUTS))
    add("--no-headers", action="store_true", help="tables without their first line")


def add_foresight(name: str, add: Callable[..., object]) -> None:
    """Add the options of the commands that run the scheduler's machine here."""
    add("-o", "--output", choices=CHECK_OUTPUTS, metavar="FORM", help=", ".join(CHECK_OUTPUTS))
    files = "manifests; - is standard input; may be repeated"
    if name == "what-if":
        add("-f", "--filename", dest="files", action="append", metavar="FILE", help=files)
        add("--without", action="append", metavar="POD", help="as if it ended; repeatable")
        add("--cordon", action="append", metavar="NODE", help="as if cordoned; repeatable")
        add("--add-nodes", type=_count, metavar="N", help="as if there were N more nodes")
        add("--like", metavar="NODE", help="what the nodes of --add-nodes are like")
        add("--profile", metavar="FILE", help="as if this configuration's profiles decided")
    if name == "capacity":
        add("--like", "-f", dest="files", action="append", metavar="FILE", help=files)
    if name == "when":
        add("pod", nargs="?", metavar="POD", help="a pod that waits, or NAMESPACE/POD")
        return
    if name == "history":
        add("subject", nargs="?", metavar="POD", help="or node/NAME, gpu/UUID, namespace/NAME")
        add("--session", metavar="NAME", help="one of the log's; default: all")
    log = "of --event-log" if name == "history" else "as of an event log, not of the cluster"
    add("--log", metavar="DIR", help=log)
    add("--until", metavar="T", help="of --log: a time, or seconds from its beginning")
    if name != "history":
        add("--offline", action="store_true", help="do not ask the API server what it would do")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) <= MOST_NODES:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_NODES}")


# The help of `kubectl kubeshare`: examples and exit codes.


GPUS = """  kubectl kubeshare gpus                one line for each card: memory, share, pods
  kubectl kubeshare gpus --summary      one line for each node, and the cluster's totals
  kubectl kubeshare gpus node-1 -d      one line for each pod on one node
  kubectl kubeshare gpus --topology     how they are joined, and which islands are whole
  kubectl kubeshare gpus -l zone=a -o wide
  kubectl kubeshare gpus -o jsonpath='{.nodes[*].cards[*].uuid}'
"""
PODS = """  kubectl kubeshare pods                where pods are, what they hold, why they wait
  kubectl kubeshare pods -A -l app=x    the same for all namespaces, by label
  kubectl kubeshare pods -w             and what changes from now on
"""
WHY = """  kubectl kubeshare why train-0         why it waits, what would help; why it is there
  kubectl kubeshare why job/lstm -n a   of a job's pods, in namespace a
"""
TOP = """  kubectl kubeshare top                 cards as bars and waiting pods, every two seconds
  kubectl kubeshare top --once          the same as text
  kubectl kubeshare top --model a100 --sort free
"""
CHECK = """  kubectl kubeshare check -f pod.yaml   which scheduler takes its pods, what they ask for
  kubectl kubeshare check -f pod.yaml --now   would they fit at once? where, or why not
  helm template . | kubectl kubeshare check -f -
  kubectl kubeshare check -f a.yaml -f b.yaml -o json
  kubectl kubeshare check -f pod.yaml --config config/scheduler.yaml
"""
USAGE = """  kubectl kubeshare usage --log DIR --since 7d       what each namespace held
  kubectl kubeshare usage --log DIR --by owner,model -n ml
  kubectl kubeshare usage --log DIR --since 2026-11-01 --until 2026-12-01 --by pod -o csv
"""
WHAT_IF = """  kubectl kubeshare what-if -f job.yaml   where its pods would go, at whose cost
  kubectl kubeshare what-if --cordon node-1 --without train-0
  kubectl kubeshare what-if -f jobs.yaml --add-nodes 2 --like node-1
  kubectl kubeshare what-if -f jobs.yaml --profile config/spread.yaml -o json
  kubectl kubeshare what-if -f job.yaml --log DIR --until 2026-11-23T12:00:00Z
"""
CAPACITY = """  kubectl kubeshare capacity --like pod.yaml   how many more fit, what runs out first
"""
WHEN = """  kubectl kubeshare when train-0        placed by when, by the running pods' deadlines
"""
HISTORY = """  kubectl kubeshare history train-0 --log DIR   its decisions, waits, evictions
  kubectl kubeshare history node/n1 --log DIR -o json
"""
COMMANDS = {
    "gpus": ("cards: memory, share, pods", GPUS),
    "pods": ("pods: where, what they ask for and hold, why they wait", PODS),
    "why": ("why a pod is where it is, or why it waits", WHY),
    "check": ("what the pods of manifests ask for, and what is refused", CHECK),
    "usage": ("card-hours and memory that were held, by an event log", USAGE),
    "what-if": ("what would happen: new pods, other nodes, other profiles", WHAT_IF),
    "capacity": ("how many more pods fit, and what runs out first", CAPACITY),
    "when": ("by when a waiting pod is placed", WHEN),
    "history": ("what happened, by an event log, with the scores of decisions", HISTORY),
    "top": ("the whole cluster on one screen, live", TOP),
}
HISTORY_EPILOG = """examples:
{}
The sessions of an event log (--event-log of the scheduler) are run again. It needs kubeshare-py,
not only kubectl-kubeshare.

exit codes: 0 done, 1 the log shows nothing of it, 2 wrong usage or a log that cannot be read"""
FORESIGHT_EPILOG = """examples:
{}
The scheduler's own machine runs in this process with all that the scheduler knows, and nothing in
the cluster changes. The scheduler gives a snapshot to those who may `get
snapshots.state.kubeshare.io`; an event log has it too (--log). It needs kubeshare-py, not only
kubectl-kubeshare.

exit codes: 0 all pods are placed; 4 one would wait; 1 a pod is refused, or something is not found;
            2 wrong usage or an unusable file; 3 the scheduler could not be asked"""
USAGE_EPILOG = """examples:
{}
A pod holds its part of a card from when the scheduler sees it bound until it is gone. The cluster
is not asked: copy the folder of --event-log, all sessions of all replicas. csv and json have exact
card-seconds and byte-seconds. What no log covers is said on standard error. It needs kubeshare-py,
not only kubectl-kubeshare.

exit codes: 0 done, 2 wrong usage or a log that cannot be read, 3 kubeshare-py is not installed"""
CHECK_EPILOG = """examples:
{}
With a kubeconfig, the API server is asked what it would make of each pod (a dry run: nothing is
created), and the scheduler which profiles it has. Without, and without --config, the profile of a
scheduler with default values counts. With --now the scheduler says of each pod where it would go if
it were created at once, or why it would wait; it creates nothing. That needs the right to create
pods in the namespace. Each pod is asked about alone, and one of a Job or Deployment.

exit codes: 0 all pods are fine, and with --now fit at once; 1 a pod is refused or no scheduler here
            would take it; 2 wrong usage or an unreadable file; with --now 3 the scheduler could not
            be asked, 4 a pod would wait"""
EPILOG = """examples:
{}
exit codes: 0 done (also when a pod waits), 1 not found or refused, 2 wrong usage,
            3 the API server or the scheduler cannot be reached, 130 interrupted"""


# The parser of `kubectl kubeshare`: wrong usage in one sentence, and help without long lists.
#
# As kubectl's own: the sentence, and how to get help. Options about the connection are kubectl's;
# help names them last, in one paragraph.


_UNRECOGNIZED = "unrecognized arguments: "


class UsageParser(argparse.ArgumentParser):
    """Says what is wrong first. `connection` is the group of options that help shows in short."""

    def __init__(self, **fields: Any) -> None:
        # An option that is not given must not hide the same one given before the command.
        super().__init__(
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=make_formatter,
            **fields,
        )
        self.connection = self.add_argument_group("connection")
        #: The names before a word that is not understood.
        self.words: list[str] = []

    def error(self, message: str) -> NoReturn:
        """End with 2, and with the sentence before the way to the help."""
        if message.startswith(_UNRECOGNIZED):
            options = [name for action in self._actions for name in action.option_strings]
            word = message.removeprefix(_UNRECOGNIZED).partition(" ")[0].partition("=")[0]
            message = unknown_word(self.prog.rpartition(" ")[2], word, self.words, options)
        message = message.removeprefix("argument ")
        message = message.replace("expected one argument", "needs a value")
        self.exit(2, f"Error: {message}\nSee `{self.prog} --help` for usage.\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; words that a command does not know are wrong usage of that command."""
        found, extras = super().parse_known_args(args, namespace)
        if extras and self._subparsers is None:
            names = getattr(found, "names", None) or getattr(found, "pod", None) or []
            self.words = [names] if isinstance(names, str) else names
            self.error(_UNRECOGNIZED + " ".join(extras))
        return found, extras

    def format_help(self) -> str:
        """The command's own options, then one paragraph about the connection."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        for group in sorted(self._action_groups, key=lambda one: one.title != COMMANDS_TITLE):
            if group is not self.connection:
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        if self.connection._group_actions:
            formatter.add_text(connection_names(self.connection._group_actions))
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(one) for one in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, unknown_command(value, known))
        hint = meant(value, known) or f": {', '.join(known)}"
        raise argparse.ArgumentError(action, f'"{value}" is none of its values{hint}')


#: What stands behind each command in its usage.
_NAMES = {
    "gpus": "[NODE ...] ",
    "pods": "[POD ...] ",
    "why": "POD | KIND/NAME ",
    "check": "-f FILE ",
    "usage": "--log DIR ",
    "what-if": "[-f FILE] ",
    "capacity": "--like FILE ",
    "when": "POD ",
    "history": "POD | KIND/NAME --log DIR ",
}


def make_parser() -> UsageParser:
    """The parser with all commands and options; completion reads them from it."""
    top = UsageParser(prog="kubectl kubeshare", usage="kubectl kubeshare COMMAND [options]")
    every = "".join(examples for _, examples in COMMANDS.values())
    _describe(top, "how kubeshare-scheduler shares GPUs, and why pods wait", every)
    commands = top.add_subparsers(
        dest="command", title=COMMANDS_TITLE, metavar="COMMAND", parser_class=UsageParser
    )
    for name, (text, examples) in COMMANDS.items():
        usage = f"kubectl kubeshare {name} {_NAMES.get(name, '')}[options]"
        one = commands.add_parser(name, prog=f"{top.prog} {name}", help=text, usage=usage)
        _describe(one, text, examples)
        add_own(name, one)
        if name in HERE:
            add_foresight(name, one.add_argument)
        _add_shared(name, one)
    top.add_argument("--version", action=_VersionAction, help="print the version")
    _add_shared("", top)
    return top


def _add_shared(name: str, parser: UsageParser) -> None:
    """The options that may stand before and after the command."""
    if name == "usage":
        add_usage(parser.add_argument)
        return
    default = "default" if name == "history" else "the context's"
    parser.add_argument("-n", "--namespace", metavar="NS", help=f"default: {default}")
    if name not in ("check", *HERE):
        add_output(parser.add_argument)
    add_connection(parser.connection.add_argument)


def _describe(parser: UsageParser, text: str, examples: str) -> None:
    name = parser.prog.rpartition(" ")[2]
    epilogs = {"check": CHECK_EPILOG, "usage": USAGE_EPILOG, "history": HISTORY_EPILOG}
    epilog = epilogs.get(name, FORESIGHT_EPILOG if name in FORESIGHT else EPILOG)
    parser.description, parser.epilog = f"Show {text}.", epilog.format(examples)


class _VersionAction(argparse.Action):
    """Looks the version up only on request."""

    def __init__(self, **given: Any) -> None:
        super().__init__(nargs=0, **given)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        # Imported late: importlib.metadata takes 20 ms, the parser itself 10 ms.
        from kubeshare_py.edges.process.own_names import own_version  # noqa: PLC0415

        print(f"kubectl-kubeshare {own_version()}")
        parser.exit()
