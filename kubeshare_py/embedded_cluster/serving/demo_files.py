"""Files of the demo: those that come with the package, and the folder of a running one."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.documents.yaml_text import DocumentProblem, read_yaml_documents
from kubeshare_py.edges.process.document_files import read_bytes
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode, read_cluster

# Files that come with the package: the demo's cluster, workloads and definitions.


_PACKAGE = Path(__file__).parents[2]
#: In a wheel they are in the package, in a checkout in `config/` and in the chart.
_PLACES = (
    _PACKAGE / "config",
    _PACKAGE.parent / "config",
    _PACKAGE.parent / "deploy/chart/kubeshare",
)


def find(name: str) -> Path:
    """The path of a file of the package; raises DocumentProblem if it is missing."""
    for place in _PLACES:
        if (place / name).is_file():
            return place / name
    raise DocumentProblem(name, "", "is missing from this installation")


def read_nodes(path: str | None) -> tuple[SimulatedNode, ...]:
    """The nodes of a cluster file, the demo's without a path; raises DocumentProblem."""
    file = Path(path) if path else find("demo-cluster.yaml")
    return read_cluster(_bytes(file), str(file))


def read_workloads(path: str | None) -> tuple[dict[str, Any], ...]:
    """The objects of a YAML file, the demo's without a path; raises DocumentProblem."""
    file = Path(path) if path else find("demo-workloads.yaml")
    documents: list[Any] = [one for one in read_yaml_documents(_bytes(file), str(file)) if one]
    for number, found in enumerate(documents):
        where = f"document {number + 1}"
        if not isinstance(found, dict) or not {"apiVersion", "kind"} <= found.keys():
            raise DocumentProblem(str(file), where, "needs apiVersion and kind")
        wanted = (("apiVersion", str), ("kind", str), ("metadata", dict))
        wrong = [name for name, kind in wanted if not isinstance(found.get(name, kind()), kind)]
        if wrong:
            raise DocumentProblem(str(file), f"{where}.{wrong[0]}", "has the wrong type")
    return tuple(documents)


def _bytes(file: Path) -> bytes:
    try:
        return read_bytes(file)
    except OSError as error:
        raise DocumentProblem(str(file), "", str(error.strerror)) from error


# The folder of a running demo: another demo would overwrite its kubeconfig and certificates.


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
