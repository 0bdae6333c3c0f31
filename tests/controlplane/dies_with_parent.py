"""Run a command that is killed when its parent dies: python dies_with_parent.py PID COMMAND ...

PID is the parent's. Linux only (prctl(2), PR_SET_PDEATHSIG); elsewhere it just runs the command.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Become the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            return  # it died before we could ask to be told
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
