"""The command line of `kubectl kubeshare`: commands, their options, help."""

import argparse
from typing import Any

from kubeshare_cmd.kubectl_commands import add_own
from kubeshare_cmd.kubectl_help import COMMANDS_TITLE
from kubeshare_cmd.kubectl_options import add_api_server, add_connection, add_output
from kubeshare_cmd.kubectl_texts import CHECK_EPILOG, COMMANDS, EPILOG
from kubeshare_cmd.kubectl_usage import UsageParser

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
        add_own(name, one)
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
