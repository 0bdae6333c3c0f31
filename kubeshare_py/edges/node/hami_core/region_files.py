"""Shared regions as files: read, and never mapped.

A container may cut its file short at any time: the kernel then ends programs that have it mapped.
Reading is coherent with the processes that do map it, on one page after the other.
"""

import os
import stat
import struct
from pathlib import Path

from kubeshare_py.node_agent.hami_core.feedback import Feedback
from kubeshare_py.node_agent.hami_core.shared_region import (
    MOST_BYTES,
    RECENT_AT,
    SWITCH_AT,
    SharedRegion,
    read_region,
)

#: Pods own the folder: a link would lead out of it, and a pipe would be waited for.
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_INT = struct.Struct("=i")
#: Entries of a folder that are looked at; the library makes one.
_MOST_ENTRIES = 64


def tell(folder: Path, region: SharedRegion, told: Feedback) -> None:
    """Write what its processes are to do into a container's region. Raises OSError.

    `region` is what was read of it. Nothing else in the file is touched, and only what differs.
    """
    names = _regions(folder)
    if len(names) != 1:
        raise OSError(0, "the region is gone")
    file = os.open(f"{folder}/{names[0]}", os.O_RDWR | _CAREFULLY)
    try:
        _check(file)
        if told.is_limiting != region.is_limiting:
            os.pwrite(file, _INT.pack(told.is_limiting), region.tail + SWITCH_AT)
        if told.recent_kernel != region.recent_kernel:
            os.pwrite(file, _INT.pack(told.recent_kernel), region.tail + RECENT_AT)
    finally:
        os.close(file)


def region_of(folder: Path, *, with_use: bool = True) -> SharedRegion | str | None:
    """The region in a container's folder, or why it cannot be read.

    What its processes use is left out without `with_use`. None while there is none: a container
    that never called CUDA has no region.
    """
    try:
        names = _regions(folder)
        if not names:
            return None
        if len(names) > 1:
            return f"there are {len(names)} files of regions"
        return read_region(_content(f"{folder}/{names[0]}"), with_use=with_use)
    except OSError as error:
        return error.strerror or str(error)


def _regions(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        found = []
        for _, entry in zip(range(_MOST_ENTRIES), entries, strict=False):
            if entry.name.endswith(".cache"):
                found.append(entry.name)
    return sorted(found)


def _content(path: str) -> bytes:
    """The file's content, up to what a region may have. Raises OSError, also for other kinds."""
    file = os.open(path, os.O_RDONLY | _CAREFULLY)
    try:
        return os.pread(file, MOST_BYTES + 1, 0) if _check(file) <= MOST_BYTES else b""
    finally:
        os.close(file)


def _check(file: int) -> int:
    """Its length, if it is a plain file that has no other name. Raises OSError."""
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        raise OSError(0, "it is no plain file")
    return about.st_size
