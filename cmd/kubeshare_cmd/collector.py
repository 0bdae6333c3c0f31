"""kubeshare-collector: parse arguments; `programs.collector` does the rest."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kubeshare_cmd.ports import port
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.node.card_sampler import INTERVAL_S, ROOT, STALE_AFTER_S
from kubeshare_py.edges.node.collector_server import PORT
from kubeshare_py.edges.process.own_names import own_node
from kubeshare_py.programs.collector import CollectorSettings, run, show

EXAMPLES = """examples:
  kubeshare-collector                          serve http://HOST:9004/kubeshare-collector
  kubeshare-collector --once                   what this node has, as a table
  kubeshare-collector --once -o json           the same with everything that the driver says
  kubeshare-collector --once -o prometheus     what a scrape would get
  kubeshare-collector --annotate-node          serve, and write the cards on the Node
  kubeshare-collector --address 127.0.0.1 --port 9005 --interval 2

exit codes: 0 ended in order, or printed (a node without GPUs is in order too), 1 the driver
cannot be read, 2 wrong usage, 3 the address or port cannot be used, or no credentials
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM, or print one reading; argparse exits with 2."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-collector",
        description="Tells Prometheus which GPUs this node has, how they are joined and how well.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--node-name", metavar="NAME", help="default: $NODE_NAME or the host's name")
    add("--address", metavar="IP", default="", help="to listen on; default: all")
    add("--port", metavar="N", type=port, default=PORT, help=f"default: {PORT}")
    add("--interval", metavar="S", type=float, default=INTERVAL_S, help="between readings; 5 s")
    add(
        "--stale-after", metavar="S", type=float, default=STALE_AFTER_S,
        help="without an answer of the driver no card counts as healthy; 30 s",
    )  # fmt: skip
    add(
        "--annotate-node", action="store_true",
        help="write the cards on the Node too (sharedgpu/cards), for inventory.source: annotation",
    )  # fmt: skip
    add("--root", metavar="PATH", type=Path, default=ROOT, help="of the node's folders; default: /")
    add("--once", action="store_true", help="print one reading and end")
    add("-o", "--output", choices=("text", "json", "prometheus"), help="with --once; text")
    add("--log-level", default="info", choices=("debug", "info", "warning"))
    given = parser.parse_args(arguments)
    if given.output and not given.once:
        parser.error("-o goes with --once")
    if not 0 < given.interval < given.stale_after:
        parser.error("--interval must be more than 0 and less than --stale-after")
    settings = CollectorSettings(
        node=NodeName(given.node_name) if given.node_name else own_node(),
        address=given.address,
        port=given.port,
        interval_s=given.interval,
        stale_after_s=given.stale_after,
        log_level=given.log_level,
        annotates=given.annotate_node,
        root=given.root,
    )
    return show(settings, given.output or "text") if given.once else run(settings)


if __name__ == "__main__":
    sys.exit(main())
