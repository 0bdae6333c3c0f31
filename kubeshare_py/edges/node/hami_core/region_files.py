"""Shared regions as files: read, and never mapped.

A container may cut its file short at any time: the kernel then ends programs that have it mapped.
Reading is coherent with the processes that do map it, on one page after the other.
"""

import os
import stat
from pathlib import Path

from kubeshare_py.node_agent.hami_core.shared_region import (
    MOST_BYTES,
    SharedRegion,
    read_region,
)

#: Entries of a folder that are looked at; the library makes one.
_MOST_ENTRIES = 64


def region_of(folder: Path) -> SharedRegion | str | None:
    """The region in a container's folder, or why it cannot be read.

    None while there is none: a container that never called CUDA has no region.
    """
    try:
        names = _regions(folder)
        if not names:
            return None
        if len(names) > 1:
            return f"there are {len(names)} files of regions"
        return read_region(_content(f"{folder}/{names[0]}"))
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
    # Pods own the folder: a link would lead out of it, and a pipe would be waited for.
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is no plain file")
        if about.st_size > MOST_BYTES:
            return b""
        return os.pread(file, MOST_BYTES + 1, 0)
    finally:
        os.close(file)
