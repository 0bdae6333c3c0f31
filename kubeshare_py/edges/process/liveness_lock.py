"""Shows other programs of the same node that something is alive: a lock on a file.

The kernel releases the lock of a process that dies for whatever reason, while a left-over file or a
reused process id prove nothing. The lock belongs to the open file, so it is visible from other
containers, and a program that may only read can test it without taking it: fcntl(2), "Open file
description locks".
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
    """Show life while entered. Raises OSError, also while another process shows the same."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _READABLE)
    try:
        os.fchmod(file, _READABLE)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        yield
    finally:
        os.close(file)


def alive(folder: str | os.PathLike[str]) -> tuple[str, ...] | None:
    """The names in a folder that are shown to be alive; None if that cannot be determined."""
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(one.name for one in entries if _is_shown(one.path)))
    except OSError:
        return None


def _is_shown(path: str) -> bool:
    """Whether the file is locked. Raises OSError."""
    try:
        # Whatever the file is, opening it must not wait.
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
