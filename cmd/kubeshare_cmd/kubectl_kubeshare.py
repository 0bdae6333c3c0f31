"""`kubectl kubeshare`: parse the command line; `programs.kubectl_kubeshare` does the rest."""

import argparse
from collections.abc import Sequence
from dataclasses import fields

from kubeshare_py.edges.state_route import Access
from kubeshare_py.programs.kubectl_kubeshare import Question, run

GPUS = """  kubectl kubeshare gpus              each card: memory, share and who is on it
  kubectl kubeshare gpus node-1 -d    one row for each pod on one node
  kubectl kubeshare gpus --topology   how they are joined, and which islands are whole
  kubectl kubeshare gpus -o json      bytes and thousandths of a GPU
"""
PODS = """  kubectl kubeshare pods              where pods are, or why they wait
  kubectl kubeshare pods -A           the same for all namespaces
"""
WHY = """  kubectl kubeshare why train-0       why it waits, and what would help
  kubectl kubeshare why train-0 -n a  the same in namespace a
"""
EPILOG = """examples:
{}
exit codes: 0 done (also when a pod waits), 1 not found or refused by the scheduler,
            2 wrong usage, 3 the scheduler cannot be reached"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Give the exit code; argparse leaves with 2 for wrong usage."""
    given = vars(_parser().parse_args(arguments))
    access = {one.name: given.pop(one.name) for one in fields(Access) if one.name in given}
    return run(Question(**given, access=Access(**access)))


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="kubectl kubeshare")
    text = "how kubeshare-scheduler shares GPUs, and why pods wait"
    _describe(top, text, GPUS + PODS + WHY)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text, examples in (
        ("gpus", "cards: memory, share, pods", GPUS),
        ("pods", "pods: where, what they ask for, why they wait", PODS),
        ("why", "why one pod is where it is", WHY),
    ):
        one = commands.add_parser(name, help=text)
        _describe(one, text, examples)
        if name == "gpus":
            one.add_argument("node", nargs="?", metavar="NODE", help="only this node")
            form = one.add_mutually_exclusive_group()
            form.add_argument("-d", "--details", action="store_true", help="one row for each pod")
            form.add_argument("-t", "--topology", action="store_true", help="links and islands")
        if name == "why":
            one.add_argument("pod", metavar="POD", type=lambda pod: pod.removeprefix("pod/"))
        if name != "gpus":
            one.add_argument("-n", "--namespace", metavar="NS", help="default: the context's")
        if name == "pods":
            one.add_argument("-A", "--all-namespaces", action="store_true", help="of all of them")
    return top


def _describe(parser: argparse.ArgumentParser, text: str, examples: str) -> None:
    """Add help and the options that may stand before and after the command."""
    parser.description, parser.epilog = f"Show {text}.", EPILOG.format(examples)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    # What is not given must not hide what was given before the command.
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add("-o", "--output", choices=("table", "json", "yaml"), help="default: table")
    add("--kubeconfig", metavar="FILE", help="default: as kubectl, $KUBECONFIG or ~/.kube/config")
    add("--context", metavar="NAME", help="of the kubeconfig; default: its current one")
    add("--lease", metavar="NS/NAME", help="of the scheduler; default: $KUBESHARE_LEASE or its own")
    add("--scheduler", metavar="URL", help="https://HOST:PORT instead of through the API server")
    add("--ca-file", metavar="FILE", help="whom to trust at --scheduler; default: the system's")
    add("--token-file", metavar="FILE", help="default: $KUBESHARE_TOKEN or the kubeconfig's token")
