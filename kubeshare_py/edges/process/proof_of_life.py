"""How one program shows another one of the same node that something lives: a lock on a file.

The kernel takes the lock away from who dies, however that happens: a file that is left over, or a
process id that is somebody else's now, prove nothing. It belongs to the open file, so that it is
seen from other containers, and whether it is there can be asked without taking it, by who may only
read: fcntl(2), "Open file description locks".
"""

import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager

#: struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_READABLE = 0o644


@contextmanager
def shown(path: str | os.PathLike[str]) -> Iterator[None]:
    """It lives while entered. Raises OSError, also while somebody else shows the same."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _READABLE)
    try:
        os.fchmod(file, _READABLE)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        yield
    finally:
        os.close(file)


def alive(folder: str | os.PathLike[str]) -> tuple[str, ...] | None:
    """The names in a folder behind which something lives; None if that cannot be told."""
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(one.name for one in entries if _is_shown(one.path)))
    except OSError:
        return None


def _is_shown(path: str) -> bool:
    """Raises OSError."""
    try:
        # Whatever it is, opening it must not wait.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return False
        found = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, _WHOLE_FILE))
        return bool(found[0] != fcntl.F_UNLCK)
    finally:
        os.close(file)
