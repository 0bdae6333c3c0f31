"""The process that asks the driver for its cards, on a timer and after each error of a card.

It is a separate process because a call into the driver may never return, or crash it: then it is
killed and restarted, and the collector goes on answering. Its arguments are the seconds between
readings, the seconds until a driver that lost a card is opened again, and the folder below which
the node's own folders are. It writes a JSON line (`CardReport`) per reading and ends when its
standard input does. Modules that it does not import save memory on every node.
"""

import ctypes
import json
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

from kubeshare_py.domain.card_reading import NodeFeatures, RdmaDevice
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.quantity import NUMA_NODE
from kubeshare_py.edges.node.card_reports import CardReport
from kubeshare_py.edges.node.nvml_cards import NvmlCards
from kubeshare_py.edges.process import run_until_signal
from kubeshare_py.edges.process.liveness import alive
from kubeshare_py.node_agent.links import PciPlace, way_of, with_rdma
from kubeshare_py.node_agent.readings import CardReader, plausible

# What a node has of the needs of isolation back-ends: inspected, never changed.
#
# Folders of the node that are not mounted, or not readable, show nothing. It takes a few calls into
# the file system per reading. Paths are texts, because pathlib would take most of a MiB on every
# node.


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


# Where a node's RDMA devices and cards are on PCI, by sysfs.
#
# `/sys/class/infiniband` has RDMA devices of every kind, InfiniBand and RoCE
# (https://docs.kernel.org/admin-guide/abi-stable-files.html). Paths are texts, because pathlib
# would take most of a MiB on every node.


RDMA, PCI = "sys/class/infiniband", "sys/bus/pci/devices"
#: The most RDMA devices of a node that are reported; virtual functions are devices too.
MAX_DEVICES = 64


class PciDevices:
    """Looks at sysfs below `root`; where it is not readable, there is nothing."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def rdma(self) -> tuple[RdmaDevice, ...]:
        """The RDMA devices on PCI, by name; a device of software is on no bus."""
        folder = f"{self._root}/{RDMA}"
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return ()
        found = (_device(name, f"{folder}/{name}/device") for name in names[:MAX_DEVICES])
        return tuple(one for one in found if one.way)

    def ways(self, buses: Iterable[str]) -> dict[str, PciPlace]:
        """The way to each of these PCI addresses."""
        return {bus: _way(f"{self._root}/{PCI}/{bus}") for bus in {*buses} if bus}


def _way(link: str) -> PciPlace:
    return way_of(os.path.realpath(link))


def _device(name: str, link: str) -> RdmaDevice:
    return RdmaDevice(name=name, way=_way(link), numa_node=_numa_node(f"{link}/numa_node"))


def _numa_node(path: str) -> int | None:
    """Linux writes -1 if it is unknown."""
    try:
        with open(path, encoding="ascii") as file:
            node = int(file.read(16))
    except (OSError, ValueError):
        return None
    return node if NUMA_NODE.allows(node) else None


#: Seconds between two checks of whether standard input has ended.
_LOOK_S = 0.5
#: After an error of a card the next reading begins this long (s) after the last: others may follow.
_SOON_S = 0.5
_PR_SET_PDEATHSIG = 1


def main(interval_s: float, reopen_s: float, root: str = "/") -> None:
    """Report cards until standard input ends."""
    _end_with_parent()
    run_until_signal.give_back()
    reader, probe, pci = NvmlCards(reopen_s), NodeProbe(root), PciDevices(root)
    while True:
        began = time.monotonic()
        print(json.dumps(asdict(_report(reader, probe, pci))), flush=True)
        if _ended(reader, began, interval_s):
            return


def _end_with_parent() -> None:
    """End with the parent, even during a call into the driver; Linux's prctl(2)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _report(reader: CardReader, probe: NodeProbe, pci: PciDevices) -> CardReport:
    try:
        reading = replace(plausible(reader.read()), features=probe.look())
        ways = pci.ways(card.bus for card in reading.cards)
        return CardReport(reading=with_rdma(reading, pci.rdma(), ways))
    except OSError as error:
        return CardReport(failure=str(error))


def _ended(reader: CardReader, began: float, interval_s: float) -> bool:
    """Wait until the next reading, or briefly after an error; whether standard input ended."""
    due = began + interval_s
    if due <= time.monotonic():
        # Readings that take longer than the interval must not keep errors from being reported.
        reader.wait(0.0)
    while (left := due - time.monotonic()) > 0:
        happened = reader.wait(min(left, _LOOK_S))
        if _stdin_ended(left if happened is None else 0.0):
            return True
        if any(not error.is_application for error in happened or ()):
            due = min(due, began + _SOON_S)
    return _stdin_ended(0.0)


def _stdin_ended(wait_s: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], wait_s)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
