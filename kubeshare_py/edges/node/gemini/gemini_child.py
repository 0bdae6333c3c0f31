"""Becomes one of Gemini's daemons, which ends with its launcher: nothing else would end it."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(launcher: int, program: str, *arguments: str) -> None:
    """Become the program; return if the launcher has died already. Raises OSError."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() == launcher:
        os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
