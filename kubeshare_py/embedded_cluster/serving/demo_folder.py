"""The folder of a running demo: another demo would overwrite its kubeconfig and certificates."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from kubeshare_py.configuration.scheduler import ConfigurationError

DEFAULT = ".demo"
_LOCK = "lock"
_PRIVATE = 0o600


@contextmanager
def own_folder(wanted: Path | None) -> Iterator[Path]:
    """A folder that is this process' own while entered, made if it is missing.

    Without a wanted one it is .demo or, if that is in use, the first free one of .demo-2, .demo-3
    and so on. Raises ConfigurationError if it is in use or cannot be made.
    """
    folder, lock = (wanted, _lock(wanted)) if wanted else _first_free()
    if lock is None:
        raise ConfigurationError(f"another demo uses {folder}: choose another --directory")
    try:
        yield folder
    finally:
        os.close(lock)  # the kernel does so for a process that dies


def _first_free() -> tuple[Path, int]:
    for number in count(1):
        folder = Path(DEFAULT if number == 1 else f"{DEFAULT}-{number}").resolve()
        if (lock := _lock(folder)) is not None:
            return folder, lock
    raise AssertionError("count ends")


def _lock(folder: Path) -> int | None:
    """A file descriptor that holds the folder's lock; None if another process has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
    except OSError as error:
        raise ConfigurationError(f"API server in {folder}: {error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
