"""kubeshare-mps: parse arguments; `programs.mps` does the rest."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.node.card_sampler import INTERVAL_S
from kubeshare_py.edges.node.mps_launcher import PROGRAM
from kubeshare_py.edges.process.own_names import own_node
from kubeshare_py.programs.mps import FOLDER, MpsSettings, run

EXAMPLES = """examples:
  kubeshare-mps                                daemons below /run/kubeshare/mps, as pods mount them
  kubeshare-mps --folder DIR --program PATH    elsewhere, with another control daemon

exit codes: 0 ended in order, 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; argparse exits with 2."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-mps",
        description="Runs one MPS control daemon for each GPU of this node, for the isolation"
        " back-end mps. It needs root and CAP_SYS_ADMIN.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--node-name", metavar="NAME", help="default: $NODE_NAME or the host's name")
    add("--folder", metavar="PATH", type=Path, default=FOLDER, help=f"default: {FOLDER}")
    add("--program", metavar="PATH", default=PROGRAM, help=f"default: {PROGRAM}")
    add("--interval", metavar="S", type=float, default=INTERVAL_S, help="between readings; 5 s")
    add("--log-level", default="info", choices=("debug", "info", "warning"))
    given = parser.parse_args(arguments)
    if given.interval <= 0:
        parser.error("--interval must be more than 0")
    run(
        MpsSettings(
            node=NodeName(given.node_name) if given.node_name else own_node(),
            folder=given.folder,
            program=given.program,
            interval_s=given.interval,
            log_level=given.log_level,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
