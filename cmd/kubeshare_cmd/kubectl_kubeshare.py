"""`kubectl kubeshare`: parse the command line; `programs.kubectl_kubeshare` does the rest."""

import argparse
from collections.abc import Sequence
from dataclasses import fields

from kubeshare_py.edges.state_route import Access
from kubeshare_py.programs.kubectl_kubeshare import Question, run

EXIT_CODES = """exit codes: 0 done (also when a pod waits), 1 not found or refused by the scheduler,
            2 wrong usage, 3 the scheduler cannot be reached"""
GPUS = """examples:
  kubectl kubeshare gpus              each card: memory, share and who is on it
  kubectl kubeshare gpus node-1 -d    one row for each pod on one node
  kubectl kubeshare gpus -o json      bytes and thousandths of a GPU"""
PODS = """examples:
  kubectl kubeshare pods              where pods are, or why they wait
  kubectl kubeshare pods -A           the same for all namespaces"""
WHY = """examples:
  kubectl kubeshare why train-0       why it waits, and what would help
  kubectl kubeshare why train-0 -n a  the same in namespace a"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Give the exit code; argparse leaves with 2 for wrong usage."""
    given = vars(_parser().parse_args(arguments))
    access = {one.name: given.pop(one.name) for one in fields(Access) if one.name in given}
    return run(Question(**given, access=Access(**access)))


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    add = shared.add_argument
    add("-o", "--output", choices=("table", "json", "yaml"), help="default: table")
    add("--kubeconfig", metavar="FILE", help="default: as kubectl, $KUBECONFIG or ~/.kube/config")
    add("--context", metavar="NAME", help="of the kubeconfig; default: its current one")
    add(
        "--scheduler",
        metavar="URL",
        help="https://HOST:PORT instead of the way through the API server",
    )
    add("--ca-file", metavar="FILE", help="whom to trust at --scheduler; default: the system's")
    add("--token-file", metavar="FILE", help="default: $KUBESHARE_TOKEN or the kubeconfig's token")
    plain = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="kubectl kubeshare", parents=[shared], formatter_class=plain,
        description="Show how kubeshare-scheduler shares GPUs, and why pods wait.",
        epilog="\n\n".join((GPUS, PODS, WHY, EXIT_CODES)).replace("\n\nexamples:", ""),
    )  # fmt: skip
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text, examples in (
        ("gpus", "cards: memory, share, pods", GPUS),
        ("pods", "pods: where, what they ask for, why they wait", PODS),
        ("why", "why one pod is where it is", WHY),
    ):
        one = commands.add_parser(
            name, help=text, description=f"Show {text}.", parents=[shared], formatter_class=plain,
            epilog=f"{examples}\n\n{EXIT_CODES}", argument_default=argparse.SUPPRESS,
        )  # fmt: skip
        if name == "gpus":
            one.add_argument("node", nargs="?", metavar="NODE", help="only this node")
            one.add_argument("-d", "--details", action="store_true", help="one row for each pod")
            continue
        if name == "why":
            one.add_argument("pod", metavar="POD", type=lambda pod: pod.removeprefix("pod/"))
        namespaces = one.add_mutually_exclusive_group()
        namespaces.add_argument("-n", "--namespace", metavar="NS", help="default: the context's")
        if name == "pods":
            namespaces.add_argument(
                "-A", "--all-namespaces", action="store_true", help="of all of them"
            )
    return top
