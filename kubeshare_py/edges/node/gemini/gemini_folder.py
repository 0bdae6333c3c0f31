"""KubeShare's folder on a node: Gemini's files, each replaced at once as a whole.

Paths are KubeShare 2.0's. Gemini's programs wait for IN_CLOSE_WRITE in the files' folder, and read
the file of that name then (inotify(7); src/scheduler.cpp of github.com/NTHU-LSALab/Gemini). Writing
the file in place lets them read half of it, and a rename alone is another event, IN_MOVED_TO. So
the new file is renamed while it is still open for writing, and closed after that: the event has the
new name, and the file is whole before it. Also if this process is killed between the two, because
the kernel then closes the file.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.gemini import EMPTY, GeminiFiles

#: Below the root of the node.
FOLDER = "kubeshare"
HOOK = "libgemhook.so.1"
#: Everything that a user's pods read, and only the node's own programs write.
_READABLE, _RUNNABLE = 0o644, 0o755


class GeminiFolder:
    """The folder `/kubeshare` of a node whose folders are below `root`."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER
        self.config = self._folder / "scheduler" / "config"
        self.ports = self._folder / "scheduler" / "podmanagerport"
        self.library = self._folder / "library"
        #: Where an administrator puts Gemini's programs and its library.
        self.programs = self._folder / "bin"
        # On the same file system as the files, and not in a folder that Gemini's programs watch.
        self._new = self._folder / "scheduler" / ".new"

    @property
    def has_hook(self) -> bool:
        """Whether the library is where pods mount it."""
        return (self.library / HOOK).is_file()

    def put(self, files: GeminiFiles) -> int:
        """Make the files what they should be, files of other cards empty; how many it wrote.

        A file that is right already is not touched: Gemini forgets a card's history on each write.
        All `config` come first, so that a pod manager finds its pod's limits. Raises OSError.
        """
        written = 0
        for folder, texts in ((self.config, files.config), (self.ports, files.ports)):
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in sorted(_with_leftovers(folder, texts)):
                written += self._put(folder / name, text.encode(), _READABLE)
        return written

    def put_address(self, host_ip: str) -> bool:
        """Write the address by which pods reach their pod managers; whether it is new.

        Raises OSError.
        """
        self.library.mkdir(parents=True, exist_ok=True)
        return self._put(self.library / "schedulerIP.txt", f"{host_ip}\n".encode(), _READABLE)

    def put_hook(self) -> bool:
        """Copy the library to where pods mount it, if there is one; whether it is new.

        Processes that have loaded the old one keep it. Raises OSError.
        """
        try:
            library = (self.programs / HOOK).read_bytes()
        except FileNotFoundError:
            return False
        self.library.mkdir(parents=True, exist_ok=True)
        return self._put(self.library / HOOK, library, _RUNNABLE)

    def _put(self, path: Path, content: bytes, mode: int) -> bool:
        with suppress(FileNotFoundError):
            if path.read_bytes() == content:
                return False
        self._new.mkdir(parents=True, exist_ok=True)
        new = self._new / f"{path.parent.name}-{path.name}"
        new.unlink(missing_ok=True)
        # Not synchronised with the disk: after a loss of power all pods start anew, and the first
        # list of them makes the files right.
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(os.dup(file), "wb") as stream:
                os.fchmod(file, mode)
                stream.write(content)
            new.replace(path)
        finally:
            os.close(file)
        return True


def _with_leftovers(folder: Path, texts: Mapping[GpuUuid, str]) -> Iterator[tuple[str, str]]:
    """All files that there should be, those of cards without pods empty."""
    yield from texts.items()
    for path in folder.iterdir():
        if path.name not in texts and path.is_file():
            yield path.name, EMPTY
