"""Starts a card's MPS daemon: gives it a /dev/shm of its own and then becomes it.

The daemon, its servers and their clients meet in a folder of pipes and in shared memory
(https://docs.nvidia.com/deploy/mps/). A container has one /dev/shm, so each daemon sees its card's
folder in its place, in its own mount namespace: unshare(2), mount(2). Needs CAP_SYS_ADMIN.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

PIPE, SHM, LOG = "pipe", "shm", "log"
_SHARED_MEMORY = "/dev/shm"
_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1


def main(program: str, card: str, folder: str) -> None:
    """Become the daemon. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    # The daemon must end with its launcher, because nothing else would end it. prctl(2): it is
    # inherited by the daemon.
    _check(libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM)), "prctl")
    _check(libc.unshare(_CLONE_NEWNS), "unshare")
    _mount(libc, None, "/", _MS_REC | _MS_PRIVATE)
    _mount(libc, str(Path(folder) / SHM), _SHARED_MEMORY, _MS_BIND)
    # All users' processes share one server: otherwise one user's server would have to end before
    # another user's begins.
    os.execvpe(program, [program, "-f", "-multiuser-server"], environment(card, Path(folder)))


def environment(card: str, folder: Path) -> dict[str, str]:
    """The environment of the daemon, and of processes that talk to it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return {
        **kept,
        "CUDA_VISIBLE_DEVICES": card,
        "CUDA_MPS_PIPE_DIRECTORY": str(folder / PIPE),
        "CUDA_MPS_LOG_DIRECTORY": str(folder / LOG),
    }


def _mount(libc: ctypes.CDLL, source: str | None, target: str, flags: int) -> None:
    what = source.encode() if source else None
    done = libc.mount(what, target.encode(), None, ctypes.c_ulong(flags), None)
    _check(done, f"mount at {target}")


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
