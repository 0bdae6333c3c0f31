"""The command line of `kubectl kubeshare`: commands, their options, help."""

import argparse
from typing import Any

from kubeshare_cmd.kubectl_options import (
    CHECK_OUTPUTS,
    add_api_server,
    add_connection,
    add_output,
    seconds,
)
from kubeshare_cmd.kubectl_texts import CHECK_EPILOG, COMMANDS, EPILOG
from kubeshare_cmd.kubectl_usage import COMMANDS_TITLE, UsageParser

#: What stands behind each command in its usage.
_NAMES = {
    "gpus": "[NODE ...] ",
    "pods": "[POD ...] ",
    "why": "POD | KIND/NAME ",
    "check": "-f FILE ",
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
        _add_own(name, one)
        _add_shared(name, one)
    top.add_argument("--version", action=_VersionAction, help="print the version")
    _add_shared("", top)
    return top


def _add_shared(name: str, parser: UsageParser) -> None:
    """The options that may stand before and after the command."""
    parser.add_argument("-n", "--namespace", metavar="NS", help="default: the context's")
    if name == "check":
        add_api_server(parser.connection.add_argument)
        return
    add_output(parser.add_argument)
    add_connection(parser.connection.add_argument)


def _add_own(name: str, parser: argparse.ArgumentParser) -> None:
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
    if name in ("gpus", "pods"):
        add("-l", "--selector", metavar="LABELS", help="of nodes or pods, as in kubectl get")
        add("-w", "--watch", action="store_true", help="print what changes from now on")
    if name == "top":
        add("--once", action="store_true", help="print once; so it is without a terminal")
    if name == "check":
        files = "manifests; - is standard input; may be repeated"
        add("-f", "--filename", dest="files", action="append", metavar="FILE", help=files)
        add("-o", "--output", choices=CHECK_OUTPUTS, metavar="FORM", help=", ".join(CHECK_OUTPUTS))
        add("--config", metavar="FILE", help="the scheduler's configuration, for its profiles")
        add("--offline", action="store_true", help="do not ask the API server what it would do")
    if name not in ("why", "check"):
        add("--interval", dest="interval_s", type=seconds, metavar="S", help="of -w and top; 2")


def _describe(parser: UsageParser, text: str, examples: str) -> None:
    epilog = CHECK_EPILOG if parser.prog.endswith(" check") else EPILOG
    parser.description, parser.epilog = f"Show {text}.", epilog.format(examples)


class _VersionAction(argparse.Action):
    """Looks the version up only on request."""

    def __init__(self, **given: Any) -> None:
        super().__init__(nargs=0, **given)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        # Imported late: importlib.metadata takes 20 ms, the parser itself 10 ms.
        from kubeshare_py.edges.process.own_version import own_version  # noqa: PLC0415

        print(f"kubectl-kubeshare {own_version()}")
        parser.exit()
