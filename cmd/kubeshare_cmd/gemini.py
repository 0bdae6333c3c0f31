"""kubeshare-gemini: parse arguments; `programs.gemini` does the rest."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.node.card_sampler import INTERVAL_S, ROOT
from kubeshare_py.edges.process.own_names import own_node
from kubeshare_py.programs.gemini import GeminiSettings, run

EXAMPLES = """examples:
  kubeshare-gemini                       programs in /kubeshare/bin, pods of /kubeshare/scheduler
  kubeshare-gemini --programs DIR        gem-schd and gem-pmgr from another folder

exit codes: 0 ended in order, 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; argparse exits with 2."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-gemini",
        description="Runs Gemini's gem-schd for each GPU of this node and a gem-pmgr for each pod"
        " in the files that kubeshare-node-agent --gemini writes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--node-name", metavar="NAME", help="default: $NODE_NAME or the host's name")
    add("--root", metavar="PATH", type=Path, default=ROOT, help="of the node's folders; default: /")
    add("--programs", metavar="DIR", type=Path, help="default: /kubeshare/bin below --root")
    add("--interval", metavar="S", type=float, default=INTERVAL_S, help="between readings; 5 s")
    add("--log-level", default="info", choices=("debug", "info", "warning"))
    given = parser.parse_args(arguments)
    if given.interval <= 0:
        parser.error("--interval must be more than 0")
    run(
        GeminiSettings(
            node=NodeName(given.node_name) if given.node_name else own_node(),
            root=given.root,
            programs=given.programs,
            interval_s=given.interval,
            log_level=given.log_level,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
