"""kubeshare-dashboard: parse arguments; `programs.dashboard` does the rest."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubeshare_cmd.ports import port
from kubeshare_py.edges.dashboard.server import PORT
from kubeshare_py.programs.dashboard import DashboardSettings, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubeshare_py.framework.profile_making import PluginFactory

EXAMPLES = """examples:
  kubeshare-dashboard                        the API server of the kubeconfig, on http://127.0.0.1:9008
  kubeshare-dashboard --address 0.0.0.0 --certificate-file tls.crt --key-file tls.key \\
      --server https://kubernetes.default.svc --certificate-authority ca.crt
  kubeshare-dashboard --event-log events     the past too, by the log of a scheduler

It uses no credentials of the kubeconfig: each viewer signs in with a token of the cluster, for
example that of `kubectl create token NAME`.

exit codes: 0 ended in order, 2 wrong usage or an unusable certificate,
  3 the address or port cannot be used, or there is no API server's address
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; argparse exits with 2."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-dashboard",
        description="A page with the cluster's GPUs, their pods, the queue and its reasons.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--kubeconfig", metavar="FILE", help="for the API server's address and authority alone")
    add("--server", metavar="URL", help="the API server's address, instead of the kubeconfig's")
    add("--certificate-authority", metavar="FILE", help="the API server's authority")
    add("--address", metavar="IP", default="127.0.0.1", help="to listen on; default: 127.0.0.1")
    add("--port", metavar="N", type=port, default=PORT, help=f"default: {PORT}")
    add("--certificate-file", metavar="FILE", default="", help="default: plain HTTP")
    add("--key-file", metavar="FILE", default="", help="goes with --certificate-file")
    add("--event-log", metavar="DIR", default="", help="a scheduler's, to look at the past")
    add("--log-level", default="info", choices=("debug", "info", "warning"))
    given = parser.parse_args(arguments)
    if bool(given.certificate_file) != bool(given.key_file):
        parser.error("--certificate-file and --key-file go together")
    return run(
        DashboardSettings(
            address=given.address,
            port=given.port,
            server=given.server,
            authority_file=given.certificate_authority,
            kubeconfig=given.kubeconfig,
            certificate_file=given.certificate_file,
            key_file=given.key_file,
            log_level=given.log_level,
            event_log=given.event_log,
        ),
        _in_tree,
    )


def _in_tree() -> "Mapping[str, PluginFactory]":
    from kubeshare_plugins import IN_TREE  # noqa: PLC0415

    return IN_TREE


if __name__ == "__main__":
    sys.exit(main())
