"""A process that opens the driver anew for each line of its standard input, and reads once.

Constant properties are asked again in each session, so that each refused question shows.
"""

import json
import sys
from dataclasses import asdict

from kubeshare_py.edges.node.card_reports import CardReport
from kubeshare_py.edges.node.nvml_cards import NvmlCards
from kubeshare_py.node_agent.readings import plausible


def main() -> None:
    """Answer until standard input ends."""
    for _ in sys.stdin:
        try:
            report = CardReport(reading=plausible(NvmlCards().read()))
        except OSError as error:
            report = CardReport(failure=str(error))
        print(json.dumps(asdict(report)), flush=True)


if __name__ == "__main__":
    main()
