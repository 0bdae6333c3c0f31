"""kubeshare-scheduler whose event loop stands still on SIGUSR1, as a long turn makes it.

The first argument is a file that says for how long (s); the others are kubeshare-scheduler's.
"""

import signal
import sys
from pathlib import Path
from time import perf_counter
from types import FrameType

from kubeshare_cmd.scheduler import main


def _hang(number: int, frame: FrameType | None) -> None:
    """Compute, on the thread of the event loop."""
    until = perf_counter() + float(Path(sys.argv[0]).read_text())
    while perf_counter() < until:
        pass


if __name__ == "__main__":
    del sys.argv[0]
    signal.signal(signal.SIGUSR1, _hang)
    sys.exit(main())
