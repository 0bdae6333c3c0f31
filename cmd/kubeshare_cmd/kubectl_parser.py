"""The command line of `kubectl kubeshare`: commands, their options, help."""

import argparse
from typing import Any

from kubeshare_cmd.kubectl_options import CHECK_OUTPUTS, add_api_server, add_options
from kubeshare_cmd.kubectl_texts import CHECK, CHECK_EPILOG, COMMANDS, EPILOG


def make_parser() -> argparse.ArgumentParser:
    """The parser with all commands and options; completion reads them from it."""
    top = argparse.ArgumentParser(prog="kubectl kubeshare", allow_abbrev=False)
    every = "".join(examples for _, examples in COMMANDS.values())
    _describe(top, "how kubeshare-scheduler shares GPUs, and why pods wait", every)
    top.add_argument("--version", action=_VersionAction, help="print the version")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (text, examples) in COMMANDS.items():
        one = commands.add_parser(name, help=text, allow_abbrev=False)
        _describe(one, text, examples)
        _add_own(name, one)
    return top


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
        add("names", nargs=1, metavar="POD", help="or KIND/NAME: job/x, deployment/x, …")
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
        add_api_server(add)
    if name not in ("why", "check"):
        add("--interval", dest="interval_s", type=float, metavar="S", help="of -w and top; 2")


def _describe(parser: argparse.ArgumentParser, text: str, examples: str) -> None:
    """Add help, and the options that may stand before and after the command."""
    epilog = CHECK_EPILOG if examples == CHECK else EPILOG
    parser.description, parser.epilog = f"Show {text}.", epilog.format(examples)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    # An option that is not given must not hide the same one given before the command.
    parser.argument_default = argparse.SUPPRESS
    if examples != CHECK:
        add_options(parser.add_argument)


class _VersionAction(argparse.Action):
    """Looks the version up only on request."""

    def __init__(self, **given: Any) -> None:
        super().__init__(nargs=0, **given)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        # Imported late: importlib.metadata takes 20 ms, the parser itself 10 ms.
        from kubeshare_py.edges.process.own_version import own_version  # noqa: PLC0415

        print(f"kubectl-kubeshare {own_version()}")
        parser.exit()
