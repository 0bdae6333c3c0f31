"""The options of every command of `kubectl kubeshare`; most are kubectl's own."""

import argparse
import re
from collections.abc import Callable

OUTPUTS = ("table", "wide", "name", "json", "yaml")
#: Of `check`, which asks the API server at most.
CHECK_OUTPUTS = ("table", "json", "yaml")
#: Orders of nodes; those of `terminal.cards`, whose import would make --help slow.
SORTS = ("name", "free", "used")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


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
