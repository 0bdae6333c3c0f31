"""Child processes that the test itself has started."""

import os
from pathlib import Path

_of_others: set[int] = set()


def children() -> list[int]:
    """Child processes that this test started and that are still there, zombies among them."""
    return [child for child in _all() if child not in _of_others]


def leave_out_others() -> None:
    """Begin a test: what failed before may have left a process, which is not this test's."""
    _of_others.clear()
    _of_others.update(_all())


def _all() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == os.getpid():
                found.append(int(entry.name))
    return found
