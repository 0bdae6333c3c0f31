"""HAMi's folder on a node, `/usr/local/vgpu`: the library, and a folder for each container.

Paths are HAMi's, so that its own device plugin and monitor may have been there before:

    libvgpu.so                               or with a version behind it, libvgpu.so.v2.10.0
    ld.so.preload                            the library's path in containers
    containers/<uid of pod>_<container>/     its shared region, the only thing that it may write
    containers/<uid of pod>_.init.<name>/    the same of an init container that ends
    containers/.set-aside.<the same>.<any>/  what is to be removed

Whatever is below `containers` belongs to pods: it may be of any size and kind, and change at any
time. So no start of a container waits until a folder is removed: it is renamed, which takes no
right to the folder itself, and removed later in turns (`container_tree`).
"""

import errno
import os
import secrets
import stat
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.node_agent.hami_core import (
    LIBRARY,
    LICENCE,
    LOCKS,
    PRELOAD,
    VALIDATOR,
    HamiCoreSettings,
    HamiFiles,
)

# Removes what a container left in its folder: of any depth, size and owner.
#
# Nothing here recurses, follows a link, or holds more than two folders open. A folder that is not
# empty is moved up to the top, where its own content is seen next, so that 100,000 folders in each
# other cost as much as 100,000 beside each other, and what is left is where the next call finds it.
#
# The agent has no capability: in a folder of another user that denies writing to others it can
# neither remove nor move anything (path_resolution(7)). Such a folder stays.


#: O_NOFOLLOW: names are containers' own, and a link would lead out of the folder.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Such a file needs no right to the folder, only to those above it: open(2).
_ITSELF = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = 0o700


class Removal(msgspec.Struct):
    """The removals of one turn: at most `entries` files and folders are looked at.

    `problem` says what cannot be removed, "" if all could so far.
    """

    entries: int
    problem: str = ""

    def remove(self, folder: Path) -> bool:
        """Remove a folder; whether it is gone. Never raises for what containers made.

        If it is not gone and there is no problem, another turn goes on from there.
        """
        self.problem = ""
        try:
            file = _opened(str(folder), None)
            try:
                self._empty(file)
            finally:
                os.close(file)
            if self.entries > 0 and not self.problem:
                folder.rmdir()
                return True
        except FileNotFoundError:
            return True
        except OSError as error:
            self._stays(error)
        return False

    def _empty(self, top: int) -> None:
        """Go through the folder until all is gone, nothing more can be removed, or time is up."""
        progress = True
        while progress and self.entries > 0:
            progress = False
            with os.scandir(top) as entries:
                for entry in entries:
                    if self.entries <= 0:
                        return
                    progress |= self._take(top, entry.name, top)

    def _take(self, folder: int, name: str, top: int) -> bool:
        """Remove an entry, or move it to the top; whether anything has changed."""
        self.entries -= 1
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
                return True
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:
                return self._take_folder(folder, name, top)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._stays(error)
            return False
        return True

    def _take_folder(self, folder: int, name: str, top: int) -> bool:
        """Lift a folder to the top, or remove what is in one that is there. Raises OSError."""
        if folder != top:
            _writable(name, folder)
            os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
            return True
        progress = False
        file = _opened(name, folder)
        try:
            with os.scandir(file) as entries:
                for entry in entries:
                    if self.entries <= 0:
                        return True
                    progress |= self._take(file, entry.name, top)
        finally:
            os.close(file)
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)
        return progress

    def _stays(self, error: OSError) -> None:
        # Without the name: it is the container's, of any bytes.
        self.problem = self.problem or (error.strerror or type(error).__name__)


def _opened(name: str, folder: int | None) -> int:
    """A folder, also one of ours whose mode forbids it. Raises OSError."""
    _writable(name, folder)
    return os.open(name, _FOLDER, dir_fd=folder)


def _writable(name: str, folder: int | None) -> None:
    """Give us the rights to a folder if it is ours: a container as root has the same owner.

    Raises OSError.
    """
    file = os.open(name, _ITSELF, dir_fd=folder)
    try:
        about = os.fstat(file)
        if about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) & _OWN != _OWN:
            # fchmod refuses such a file, and chmod by its name could follow a link.
            os.chmod(f"/proc/self/fd/{file}", _OWN)
    finally:
        os.close(file)


#: Folders of pods that the agent does not know are kept so long (s): their list may be older.
KEPT_S = 300.0
#: Before the names of init containers: figures are those of the others, as with HAMi's monitor.
INIT = ".init."
#: Without a `_`, so that neither this agent nor HAMi's monitor takes it for a container's folder.
ASIDE = ".set-aside."
#: The most such folders of one container: each of its starts may leave one that cannot be removed.
MOST_ASIDE = 16
#: Files and folders that one turn of removals looks at, and the fewest for one folder.
TURN_ENTRIES, LEAST_ENTRIES = 20_000, 100
#: Seconds until a folder that cannot be removed is tried again.
AGAIN_S = 600.0
_EVERYONES, _READABLE = 0o777, 0o644
_REGION = ".cache"


class NoLibrary(Exception):
    """HAMi-core's library is not on the node. The text says where it should be."""


class RegionFolder(msgspec.Struct, frozen=True, gc=False):
    """The folder of one container's shared region."""

    uid: PodUid
    container: str
    path: Path

    @property
    def is_init(self) -> bool:
        """Whether it is of an init container."""
        return self.container.startswith(".init")


class HamiFolder:
    """The folder of a node whose folders are below `root`."""

    def __init__(self, root: Path, settings: HamiCoreSettings) -> None:
        self.settings = settings
        self._root = root
        self._folder = root / settings.folder.lstrip("/")
        self._containers = self._folder / "containers"
        self._locks = root / LOCKS.lstrip("/")
        #: Folders that cannot be removed: why, and when (Unix time, s) that was tried.
        self._kept: dict[Path, tuple[str, float]] = {}
        # Containers start on the event loop, and folders are tidied by another thread.
        self._turn = threading.Lock()

    def library(self) -> str:
        """The library's name in the folder, "" if it is not there. The newest of several."""
        with suppress(OSError):
            found = [one for one in self._folder.glob(f"{LIBRARY}*") if one.is_file()]
            found.sort(key=lambda one: (one.name == LIBRARY, one.stat().st_mtime_ns))
            return found[-1].name if found else ""
        return ""

    def prepare(self) -> bool:
        """Make what containers mount besides; whether the library is there. Raises OSError."""
        if not self.library():
            return False
        preload = self._folder / PRELOAD
        line = f"{self.settings.folder}/{LIBRARY}\n".encode()
        # Another line is an administrator's.
        if not preload.exists():
            new = preload.with_name(f"{PRELOAD}.new")
            new.write_bytes(line)
            new.chmod(_READABLE)
            new.replace(preload)
        for folder in (self._containers, self._locks):
            folder.mkdir(parents=True, exist_ok=True)
        return True

    def open_locks(self) -> None:
        """Let all containers write into the folder of their locks. Raises OSError.

        It is mounted into all of them, so that one that may change owners can take it away.
        """
        if self._locks.stat().st_mode & _EVERYONES != _EVERYONES:
            self._locks.chmod(_EVERYONES)

    def of_container(self, uid: PodUid, container: str, region: str) -> HamiFiles:
        """The files for a container that starts, with an empty folder for its region `region`.

        A region from before its restart has processes that are gone, and the limits of then. Raises
        NoLibrary and OSError.
        """
        if not self.prepare():
            raise NoLibrary(f"{self.settings.folder} of this node has no {LIBRARY}")
        with suppress(PermissionError):
            self.open_locks()
        folder = self._containers / f"{uid}_{container}"
        with self._turn:
            self._set_aside(folder)
            folder.mkdir()
            folder.chmod(_EVERYONES)
        path = self.settings.folder
        has_licence = (self._folder / LICENCE).exists()
        return HamiFiles(
            library=f"{path}/{self.library()}",
            preload=f"{path}/{PRELOAD}",
            folder=f"{path}/containers/{folder.name}",
            region=f"{region}{_REGION}",
            licence=(f"{path}/{LICENCE}", f"{path}/{VALIDATOR}") if has_licence else None,
        )

    def regions(self) -> Iterator[RegionFolder]:
        """The folders of containers, in order; none if there are none to be read."""
        with suppress(OSError):
            for path in sorted(self._containers.iterdir()):
                uid, _, container = path.name.partition("_")
                if uid and container and path.is_dir() and not path.is_symlink():
                    yield RegionFolder(PodUid(uid), container, path)

    def tidy(self, known: Collection[PodUid], now: float) -> dict[Path, str]:
        """Set the folders of pods aside that are not known; those that stay, and why.

        `now` is Unix time (s).
        """
        kept: dict[Path, str] = {}
        for one in self.regions():
            if one.uid in known:
                continue
            try:
                with self._turn:
                    # A container may date its folder as it likes, but not this time: stat(2).
                    if one.path.stat().st_ctime + KEPT_S < now:
                        self._set_aside(one.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                kept[one.path] = error.strerror or str(error)
        return kept

    def sweep(self, now: float) -> dict[Path, str]:
        """Remove some of what is set aside; what cannot be removed, and why.

        `now` is Unix time (s). Each folder has its part of a turn, so that none waits for another.
        """
        aside = self._aside()
        self._kept = {path: self._kept[path] for path in aside if path in self._kept}
        entries = max(TURN_ENTRIES // max(len(aside), 1), LEAST_ENTRIES)
        for path in aside:
            if path in self._kept and 0 <= now - self._kept[path][1] < AGAIN_S:
                continue
            removal = Removal(entries)
            if not removal.remove(path) and removal.problem:
                self._kept[path] = removal.problem, now
            else:
                self._kept.pop(path, None)
        return {path: why for path, (why, _) in self._kept.items()}

    def _aside(self, prefix: str = ASIDE) -> list[Path]:
        with suppress(OSError):
            names = sorted(os.listdir(self._containers))
            return [self._containers / name for name in names if name.startswith(prefix)]
        return []

    def _set_aside(self, folder: Path) -> None:
        """Rename a folder, if it is there, so that it is removed. Raises OSError."""
        if not folder.exists():
            return
        prefix = f"{ASIDE}{folder.name.replace('_', '.')}."
        if len(self._aside(prefix)) >= MOST_ASIDE:
            why = f"{MOST_ASIDE} folders of its earlier starts are not removed yet"
            raise OSError(errno.ENOTEMPTY, why)
        folder.rename(folder.with_name(f"{prefix}{secrets.token_hex(4)}"))
