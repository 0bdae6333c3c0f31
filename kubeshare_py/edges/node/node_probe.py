"""What a node has of the needs of isolation back-ends: inspected, never changed.

Folders of the node that are not mounted, or not readable, show nothing. It takes a few calls into
the file system per reading. Paths are texts, because pathlib would take most of a MiB on every
node.
"""

import os
import stat
from collections.abc import Iterator

from kubeshare_py.domain.card_reading import NodeFeatures
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.process.liveness_lock import alive

#: The folders of CDI specifications: https://github.com/cncf-tags/container-device-interface
CDI = ("var/run/cdi", "etc/cdi")
#: The folder in which kubeshare-mps shows which cards' daemons run.
MPS = "run/kubeshare/mps-alive"
#: KubeShare 2.0's folder; the library is below it.
GEMINI, LIBRARY = "kubeshare", "library/libgemhook.so.1"
#: HAMi's folder, where the library may have its version at the end of its name.
HAMI, LIBVGPU = "usr/local/vgpu", "libvgpu.so"
CGROUPS, ONLY_V2 = "sys/fs/cgroup", "cgroup.controllers"
#: Texts in the specification of NVIDIA's cards, of any kind; and the hook that sets their limits.
CARDS, HOOK = b"nvidia.com/gpu", b"apply-cuda-memory-limits"
#: The largest specification that is read; one of sixteen cards has some 100 KiB.
_LONGEST = 4 * 2**20

_FolderVersion = tuple[tuple[str, int, int], ...]


class NodeProbe:
    """Inspects the folders of a node that are mounted below `root`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: _FolderVersion | None = None
        self._hook: bool | None = None

    def look(self) -> NodeFeatures:
        """The present features."""
        daemons = alive(self._below(MPS))
        return NodeFeatures(
            cgroup_v2=_has(self._below(CGROUPS), ONLY_V2),
            memory_hook=self._memory_hook(),
            mps_daemons=None if daemons is None else tuple(GpuUuid(one) for one in daemons),
            gemini_library=_has(self._below(GEMINI), LIBRARY),
            hami_library=_has_one(self._below(HAMI), LIBVGPU),
        )

    def _below(self, folder: str) -> str:
        return f"{self._root.rstrip('/')}/{folder}"

    def _memory_hook(self) -> bool | None:
        """Whether the hook is there, read again when a file changes.

        None without a specification.
        """
        try:
            version = tuple(one for folder in CDI for one in _specifications(self._below(folder)))
            if version != self._seen:
                texts = [_read(path) for path, _, _ in version]
                of_cards = [text for text in texts if CARDS in text]
                self._hook = any(HOOK in text for text in of_cards) if of_cards else None
                self._seen = version
        except OSError:
            self._seen = self._hook = None
        return self._hook


def _has(folder: str, name: str) -> bool | None:
    """Whether a folder has this entry; None if the folder is missing or not readable."""
    if not os.access(folder, os.R_OK | os.X_OK):
        return None
    return os.access(f"{folder}/{name}", os.F_OK)


def _has_one(folder: str, name: str) -> bool | None:
    """Whether a folder has an entry that begins so; None if it is missing or not readable."""
    try:
        return any(one.startswith(name) for one in os.listdir(folder))
    except OSError:
        return None


def _specifications(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, time and size of each; none if the folder is missing. Raises OSError."""
    if not os.access(folder, os.F_OK):
        return
    for name in sorted(os.listdir(folder)):
        if name.endswith((".yaml", ".json")):
            at = os.stat(f"{folder}/{name}")
            # A pipe would be read for ever.
            if stat.S_ISREG(at.st_mode) and at.st_size <= _LONGEST:
                yield f"{folder}/{name}", at.st_mtime_ns, at.st_size


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_LONGEST)
