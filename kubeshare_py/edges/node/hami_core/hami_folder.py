"""HAMi's folder on a node, `/usr/local/vgpu`: the library, and a folder for each container.

Paths are HAMi's, so that its own device plugin and monitor may have been there before:

    libvgpu.so                               or with a version behind it, libvgpu.so.v2.10.0
    ld.so.preload                            the library's path in containers
    containers/<uid of pod>_<container>/     its shared region, the only thing that it may write
    containers/<uid of pod>_.init.<name>/    the same of an init container that ends

Whatever is below `containers` belongs to pods: it may be of any size and kind, and change at any
time.
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.node_agent.hami_core.container_limits import (
    LIBRARY,
    LICENCE,
    LOCKS,
    PRELOAD,
    VALIDATOR,
    HamiCoreSettings,
    HamiFiles,
)

#: Folders of pods that the agent does not know are kept so long (s): their list may be older.
KEPT_S = 300.0
#: Before the names of init containers: figures are those of the others, as with HAMi's monitor.
INIT = ".init."
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
        for folder in (self._containers, self._root / LOCKS.lstrip("/")):
            folder.mkdir(parents=True, exist_ok=True)
        (self._root / LOCKS.lstrip("/")).chmod(_EVERYONES)
        return True

    def of_container(self, uid: PodUid, container: str, region: str) -> HamiFiles:
        """The files for a container that starts, with an empty folder for its region `region`.

        A region from before its restart has processes that are gone, and the limits of then. Raises
        NoLibrary and OSError.
        """
        if not self.prepare():
            raise NoLibrary(f"{self.settings.folder} of this node has no {LIBRARY}")
        folder = self._containers / f"{uid}_{container}"
        if folder.exists():
            shutil.rmtree(folder)
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
        """Remove the folders of pods that are not known; those that stay, and why.

        `now` is Unix time (s).
        """
        kept: dict[Path, str] = {}
        for one in self.regions():
            if one.uid in known:
                continue
            try:
                if one.path.stat().st_mtime + KEPT_S < now:
                    shutil.rmtree(one.path)
            except OSError as error:
                kept[one.path] = str(error)
        return kept
