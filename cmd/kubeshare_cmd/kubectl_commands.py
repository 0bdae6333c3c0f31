"""The options of each command of `kubectl kubeshare` that others do not have."""

import argparse

from kubeshare_cmd.kubectl_options import CHECK_OUTPUTS, SORTS, seconds


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
        add("--offline", action="store_true", help="do not ask the API server what it would do")
    if name not in ("why", "check"):
        add("--interval", dest="interval_s", type=seconds, metavar="S", help="of -w and top; 2")
