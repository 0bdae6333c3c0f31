"""kubeshare-aggregator: parse arguments; `programs.aggregator` does the rest."""

import argparse
import sys
from collections.abc import Sequence

from kubeshare_cmd.ports import port
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.edges.aggregator import PORT
from kubeshare_py.exporters.gpu_requirement import PATH
from kubeshare_py.programs.aggregator import AggregatorSettings, run

EXAMPLES = """examples:
  kubeshare-aggregator                              serve http://HOST:9005/kubeshare-aggregator
  kubeshare-aggregator --kubeconfig FILE --address 127.0.0.1
  kubeshare-aggregator -web.listen-port 9105 -web.telemetry-path /metrics -level 3

exit codes: 0 ended in order, 2 wrong usage, 3 the address or port cannot be used, or no credentials
"""
#: KubeShare's levels: errors, warnings, everything, and more than that.
_LEVELS = {"0": "warning", "1": "warning", "2": "info", "3": "debug"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; argparse exits with 2."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-aggregator",
        description="Tells Prometheus which pods have which part of which GPU, as KubeShare 2.0"
        " does (gpu_requirement), and what that is of each GPU together.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--kubeconfig", "-kubeconfig", metavar="FILE",
        help="default: $KUBECONFIG, or the pod's service account",
    )  # fmt: skip
    add("--scheduler-name", metavar="NAME", default=SCHEDULER_NAME, help="whose pods have a series")
    add("--address", metavar="IP", default="", help="to listen on; default: all")
    add(
        "--port", "-web.listen-port", metavar="N", type=port, default=PORT,
        help=f"default: {PORT}",
    )  # fmt: skip
    add("--path", "-web.telemetry-path", metavar="PATH", default=PATH, help=f"default: {PATH}")
    add("--log-level", default="info", choices=("debug", "info", "warning"))
    add("-level", choices=[*_LEVELS], help="the same in KubeShare's numbers")
    given = parser.parse_args(arguments)
    if not given.path.startswith("/"):
        parser.error("--path must begin with /")
    return run(
        AggregatorSettings(
            address=given.address,
            port=given.port,
            path=given.path,
            scheduler=given.scheduler_name,
            kubeconfig=given.kubeconfig,
            log_level=_LEVELS[given.level] if given.level else given.log_level,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
