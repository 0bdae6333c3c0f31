"""kubeshare-controller: parse arguments; `programs.controller` does the rest."""

import argparse
import sys
from collections.abc import Sequence

from kubeshare_cmd.ports import port
from kubeshare_py.configuration.leader_election import LeaderElection
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.edges.scheduler import process
from kubeshare_py.edges.sharepods import PORT
from kubeshare_py.programs.controller import ELECTION, ControllerSettings
from kubeshare_py.programs.controller import main as control

EXAMPLES = """examples:
  kubeshare-controller                              with the pod's service account
  kubeshare-controller --kubeconfig FILE --address 127.0.0.1 --leader-elect false
  kubeshare-controller --scheduler-name gpu-scheduler --lease-namespace gpu-system

exit codes: 0 ended in order, 1 another controller may lead now, 2 wrong usage, 3 the address or
port cannot be used, or no credentials
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; argparse exits with 2."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-controller",
        description="Makes the pods of KubeShare 1.0's SharePods, which kubeshare-scheduler places,"
        " and shows in each SharePod what became of its pod.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or the pod's service account")
    add(
        "--scheduler-name", metavar="NAME", default=SCHEDULER_NAME,
        help=f"of SharePods that name none; default: {SCHEDULER_NAME}",
    )  # fmt: skip
    add("--address", metavar="IP", default="", help="to listen on; default: all")
    add("--port", metavar="N", type=port, default=PORT, help=f"default: {PORT}")
    add("--leader-elect", choices=("true", "false"), default="true", help="default: true")
    add("--lease-namespace", metavar="NAME", default=ELECTION.resource_namespace)
    add("--lease-name", metavar="NAME", default=ELECTION.resource_name)
    named = "such as its pod's uid: the next process of this name goes on at once; default: a new"
    add("--lease-identity", metavar="NAME", default="", help=named)
    for name in ("lease-duration", "renew-deadline", "retry-period"):
        default = getattr(ELECTION, name.replace("-", "_"))
        add(f"--{name}", metavar="TIME", default=default, help=f"default: {default}")
    add("--log-level", default="info", choices=("debug", "info", "warning"))
    given = parser.parse_args(arguments)
    election = LeaderElection(
        given.leader_elect == "true",
        *(given.lease_duration, given.renew_deadline, given.retry_period),
        *(given.lease_namespace, given.lease_name),
    )
    try:
        election.check()
    except ValueError as error:
        parser.error(str(error))
    settings = ControllerSettings(
        address=given.address, port=given.port, scheduler=given.scheduler_name,
        election=election, identity=given.lease_identity, kubeconfig=given.kubeconfig,
    )  # fmt: skip
    try:
        return process.run(control(settings), given.log_level)
    except OSError as error:
        print(f"kubeshare-controller: {error}", file=sys.stderr)
        return process.UNREACHABLE


if __name__ == "__main__":
    sys.exit(main())
