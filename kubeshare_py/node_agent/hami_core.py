"""HAMi-core on a node: what a container is limited to, what it uses, and what it is asked to do."""

import re
import struct
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TypeVar

import msgspec

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.node_agent.allocation import ContainerEdits, HostMount

# What a container gets of HAMi-core: its limits in variables, and the library in mounts.
#
# Names and meanings are HAMi's (pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go of
# github.com/Project-HAMi/HAMi, v2.10.0) and those that its library reads (src/multiprocess of
# github.com/Project-HAMi/HAMi-core, 8f3a89c). A memory limit is that of the card with this number
# in the container, as the driver counts its cards: by their places on the bus, in whatever order
# the container asked for them. The library takes CUDA's numbers for the driver's, so a
# variable makes CUDA count in the same way.


#: HAMi's `global.gpuHookPath`; the library's own folder is below it.
HOOK = "/usr/local"
FOLDER, LIBRARY, PRELOAD = "vgpu", "libvgpu.so", "ld.so.preload"
#: For all containers of a node together, where the library takes turns (src/utils.c).
LOCKS = "/tmp/vgpulock"
#: Of versions of the library that need a licence, if the node has it.
LICENCE, VALIDATOR = "license", "vgpuvalidator"
#: The resource by whose amount HAMi tells a container's priority, 0 before 1.
PRIORITY = "nvidia.com/priority"
#: A container says by it that it does without the library.
DISABLE = "CUDA_DISABLE_CONTROL"
_MEBIBYTE = 2**20
_WHOLE_PERCENT = 100
#: What Go's strconv.ParseBool takes for true.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_AMOUNT = re.compile(r"\d{1,9}")


class HamiCoreSettings(msgspec.Struct, frozen=True, gc=False):
    """How HAMi-core is used on a node.

    `core_policy` is `default`, `force` or `disable`, `log_level` the library's (0 errors, 1
    warnings, 3 information, 4 all), "" for its own. `oversubscribe` tells the library that pods may
    get more memory of a card than it has. `priority` is the resource of that name. With `feedback`
    limits of time and priorities count only while containers share a card. HAMi's metrics of the
    node are at `metrics_port`, None for nowhere, 0 for any port.
    """

    hook: str = HOOK
    core_policy: str = "default"
    oversubscribe: bool = False
    log_level: str = ""
    priority: str = PRIORITY
    feedback: bool = False
    metrics_port: int | None = None
    legacy_metrics: bool = False

    @property
    def folder(self) -> str:
        """The library's folder, of the node and of each container."""
        return f"{self.hook.rstrip('/')}/{FOLDER}"


class HamiContainer(msgspec.Struct, frozen=True, gc=False):
    """A container with a share of some cards.

    `variables` are those that it sets to a fixed value, `amounts` what it asks for, by resource.
    `charges` are its cards.
    """

    charges: tuple[CardCharge, ...]
    limit_milli: int
    variables: Mapping[str, str] = {}
    amounts: Mapping[str, str] = {}

    @property
    def is_free(self) -> bool:
        """Whether it says that it does without the library."""
        return self.variables.get(DISABLE, "") in _TRUE


class HamiFiles(msgspec.Struct, frozen=True, gc=False):
    """Files of the node for one container, by their paths there.

    `folder` is for the container's shared region alone, `region` is the name of that in it.
    """

    library: str
    preload: str
    folder: str
    region: str
    licence: tuple[str, str] | None = None


def is_held(allocation: Allocation | None) -> bool:
    """Whether HAMi-core is to hold the pod to its share."""
    return allocation is not None and allocation.backend is IsolationBackend.HAMI_CORE


def limit_of(allocation: Allocation, container: ContainerRef | None) -> int:
    """The limit of time of a container on each of its cards, in milli; 0 is none.

    A container without a claim of its own has that of the pod.
    """
    for one in allocation.containers:
        if one.container == container:
            return one.limit_milli
    return allocation.isolation.limit_milli if allocation.isolation else 0


def edits(
    container: HamiContainer, settings: HamiCoreSettings, files: HamiFiles, cards: Sequence[Gpu]
) -> ContainerEdits:
    """What the container gets, besides its cards; nothing if all of them are its pod's alone.

    `cards` are those of the node, the container's among them.
    """
    if all(one.exclusive for one in container.charges):
        return ContainerEdits()
    return ContainerEdits(
        {**_limits(container, cards), **_settings(container, settings, files)},
        _mounts(container, settings, files),
    )


def _limits(container: HamiContainer, cards: Sequence[Gpu]) -> dict[str, str]:
    """Memory of each card, and time. HAMi-core takes 0 for no limit at all."""
    places = {card.uuid: (card.index, card.uuid) for card in cards}
    charges = sorted(container.charges, key=lambda one: places[one.uuid])
    found = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{max(charge.memory_bytes // _MEBIBYTE, 1)}m"
        for number, charge in enumerate(charges)
        if charge.memory_bytes and not charge.exclusive
    }
    percent = min(container.limit_milli * _WHOLE_PERCENT // WHOLE_MILLI, _WHOLE_PERCENT)
    found["CUDA_DEVICE_SM_LIMIT"] = str(max(percent, 1) if container.limit_milli else 0)
    if len(charges) > 1:
        found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return found


def _settings(
    container: HamiContainer, settings: HamiCoreSettings, files: HamiFiles
) -> dict[str, str]:
    found = {"CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{settings.folder}/{files.region}"}
    if settings.oversubscribe:
        found["CUDA_OVERSUBSCRIBE"] = "true"
    if settings.core_policy != "default":
        found["GPU_CORE_UTILIZATION_POLICY"] = settings.core_policy
    if settings.log_level:
        found["LIBCUDA_LOG_LEVEL"] = settings.log_level
    priority = container.amounts.get(settings.priority, "")
    if _AMOUNT.fullmatch(priority):
        found["CUDA_TASK_PRIORITY"] = priority
    return found


def _mounts(
    container: HamiContainer, settings: HamiCoreSettings, files: HamiFiles
) -> tuple[HostMount, ...]:
    folder = settings.folder
    found = [
        HostMount(files.folder, folder),
        HostMount(files.library, f"{folder}/{LIBRARY}", read_only=True),
        HostMount(LOCKS, LOCKS),
    ]
    if not container.is_free:
        found.append(HostMount(files.preload, f"/etc/{PRELOAD}", read_only=True))
    if files.licence is not None:
        licence, validator = files.licence
        found.append(HostMount(licence, f"/tmp/{LICENCE}", read_only=True))
        found.append(HostMount(validator, f"/usr/bin/{VALIDATOR}", read_only=True))
    return tuple(found)


# HAMi-core's shared region of one container, as the bytes of its file.
#
# The library keeps in it what processes of the container use of each card, in the byte order of the
# machine: `shared_region_t` in src/multiprocess/multiprocess_memory_limit.h of
# github.com/Project-HAMi/HAMi-core. Four layouts are known; HAMi v2.4 has the second, v2.5 to v2.8
# have 1.1, v2.9 and v2.10 have 1.2. A file is one byte longer than its region, and its length tells
# the layout, since the first two have no version. Their places were taken from a C compiler.
#
# A container may write anything into its region, and processes change it while it is read. A full
# one has 82,000 numbers of what 1,024 processes use of 16 cards: they are read only where they are
# shown.


MAGIC = 19920718
CARDS, PROCESSES = 16, 1024
_UUID_BYTES = 96

_INT = struct.Struct("=i")
_LONG = struct.Struct("=Q")
_VERSION = struct.Struct("=ii")
_TAIL = struct.Struct("=iiii")
#: Of the numbers of a process and card: context, module, buffer and total; one is the library's.
_USED = (0, 1, 2, 4)
#: Where the switch and the recent kernel are, from `tail` on.
SWITCH_AT, RECENT_AT = 4, 8


class CardUse(msgspec.Struct, frozen=True, gc=False):
    """What a container has and uses of one card, in the driver's order of its cards.

    Amounts are bytes, `limit_bytes` 0 is no limit. `busy_percent` is the part of the card's time in
    which its processes ran, `core_limit` that which they may, 0 for no limit. None: the library
    does not know.
    """

    number: int
    uuid: str
    limit_bytes: int
    core_limit: int
    used_bytes: int | None
    context_bytes: int | None
    module_bytes: int | None
    buffer_bytes: int | None
    busy_percent: int | None


class SharedRegion(msgspec.Struct, frozen=True, gc=False):
    """One region.

    `recent_kernel` is above 0 if a process started a kernel lately, below 0 if they have to wait;
    `is_limiting` tells the library to keep to the core limits. `last_kernel_at` (Unix time, s) is
    None where the layout has none. `tail` is where the last four numbers begin in the file.
    """

    version: str
    cards: tuple[CardUse, ...]
    processes: int
    is_limiting: bool
    recent_kernel: int
    priority: int
    last_kernel_at: int | None
    tail: int


class _RegionPlaces(msgspec.Struct, frozen=True, gc=False):
    """Places in the file, and in the slot of a process, in bytes."""

    name: str
    size: int
    versions: tuple[tuple[int, int], ...]
    cards: int
    slots: int
    slot: int
    used: int
    used_step: int
    busy: int | None
    busy_step: int
    status: int
    has_last_kernel: bool

    @property
    def tail(self) -> int:
        """Of the number of processes, the switch, the recent kernel and the priority."""
        return self.slots + PROCESSES * self.slot

    @property
    def uuids(self) -> int:
        """Of the names of the cards; limits follow."""
        return self.cards + _LONG.size


_KNOWN = (
    # 8b7cd78, of January 2024.
    _RegionPlaces("0", 804680, (), 48, 1848, 784, 8, 40, None, 0, 776, False),
    # 7a9c88b, of April 2024.
    _RegionPlaces("0", 1197896, (), 48, 1848, 1168, 8, 40, 776, 24, 1160, False),
    # 9b46404, of August 2024, and b69b1ea, of April 2026.
    _RegionPlaces("1", 2008952, ((1, 1), (1, 2)), 56, 1856, 1960, 8, 64, 1160, 48, 1928, True),
    # e200da2, for a month before b69b1ea: the same number, other places.
    _RegionPlaces("1", 2008984, ((1, 1),), 88, 1888, 1960, 16, 64, 1168, 48, 1936, True),
)
_BY_SIZE = {one.size + 1: one for one in _KNOWN}
#: The most bytes of a file that can be a region.
MOST_BYTES = max(_BY_SIZE)


def read_region(content: bytes, *, with_use: bool = True) -> SharedRegion | str:
    """The region in a file; a sentence that says why it is none.

    Without `with_use`, nothing of what its processes use is known.
    """
    if len(content) < _INT.size or _INT.unpack_from(content)[0] != MAGIC:
        return "it is not initialised yet, or no region of HAMi-core"
    layout = _BY_SIZE.get(len(content))
    if layout is None:
        return f"{len(content)} bytes are not the length of any known version"
    version = _VERSION.unpack_from(content, _INT.size)
    if layout.versions and version not in layout.versions:
        return f"version {version[0]}.{version[1]} is not known"
    (cards,) = _LONG.unpack_from(content, layout.cards)
    count, switch, recent, priority = _TAIL.unpack_from(content, layout.tail)
    if cards > CARDS or not 0 <= count <= PROCESSES:
        return f"it says that there are {cards} cards and {count} processes"
    slots = _ProcessColumns(content, layout, count)
    last = _LONG.unpack_from(content, layout.tail + _TAIL.size)[0] if layout.has_last_kernel else 0
    return SharedRegion(
        version=".".join(map(str, version)) if layout.versions else layout.name,
        cards=tuple(_cards(content, layout, cards, slots if with_use else None)),
        processes=sum(map(bool, slots.running)),
        is_limiting=switch != 0,
        recent_kernel=recent,
        priority=priority,
        last_kernel_at=last or None,
        tail=layout.tail,
    )


class _ProcessColumns:
    """The slots of processes, as columns of numbers: one number of all of them at a time.

    All places and lengths of the layouts are multiples of 8 bytes, but for the last byte of a file.
    """

    def __init__(self, content: bytes, layout: _RegionPlaces, count: int) -> None:
        self._layout = layout
        self._count = count
        # numpy would be ten times as fast, and take 16 MiB on every node.
        whole = memoryview(content)[: len(content) // _LONG.size * _LONG.size]
        self._ints, self._longs = whole.cast("i"), whole.cast("q")
        #: Not 0 for each slot whose process has not ended.
        self.running = self._column(self._ints, layout.status)

    def found(self) -> list[bool]:
        """Which processes the library has found on the node."""
        on_node = self._column(self._ints, _INT.size)
        return [bool(one and there) for one, there in zip(self.running, on_node, strict=True)]

    def total(self, which: Iterable[int], place: int) -> int | None:
        """Of one number of these processes; None if one of them went below 0."""
        numbers = [*compress(self._column(self._longs, place), which)]
        return None if numbers and min(numbers) < 0 else sum(numbers)

    def _column(self, numbers: "memoryview[int]", place: int) -> "memoryview[int]":
        first = (self._layout.slots + place) // numbers.itemsize
        step = self._layout.slot // numbers.itemsize
        return numbers[first : first + self._count * step : step]


def _cards(
    content: bytes, layout: _RegionPlaces, count: int, slots: _ProcessColumns | None
) -> Iterator[CardUse]:
    """The cards whose names are known; the library writes them after all else."""
    limits = layout.uuids + CARDS * _UUID_BYTES
    for number in range(count):
        at = layout.uuids + number * _UUID_BYTES
        name = content[at : at + _UUID_BYTES].split(b"\0", 1)[0]
        if not name or not name.isascii() or not name.decode().isprintable():
            continue
        (limit,) = _LONG.unpack_from(content, limits + number * _LONG.size)
        (cores,) = _LONG.unpack_from(content, limits + (CARDS + number) * _LONG.size)
        context = module = buffer = total = busy = None
        if slots is not None:
            context, module, buffer, total = (
                slots.total(
                    slots.running, layout.used + number * layout.used_step + field * _LONG.size
                )
                for field in _USED
            )
            busy = _busy(layout, number, slots) if cores or not any(slots.running) else None
        yield CardUse(number, name.decode(), limit, cores, total, context, module, buffer, busy)


def _busy(layout: _RegionPlaces, number: int, slots: _ProcessColumns) -> int | None:
    """Of all processes that the library has found on the node; None if there are none of them."""
    if layout.busy is None:
        return None
    found = slots.found()
    if any(slots.running) and not any(found):
        return None
    return slots.total(found, layout.busy + number * layout.busy_step + 2 * _LONG.size)


# Which containers HAMi-core has to hold back now, so that cards are not idle without need.
#
# The rules are those of HAMi's monitor (cmd/vGPUmonitor/feedback.go of
# github.com/Project-HAMi/HAMi, v2.10.0): a container waits while one of higher priority uses one of
# its cards, and keeps to its core limit while another one does. A smaller number is a higher
# priority. The monitor knows by `recent_kernel` who uses a card, which the library of v1.2 no
# longer writes while its limits are switched off; so the time of the last kernel counts as well.


#: A container that started a kernel within so many seconds uses its cards: two looks of 5 s.
RECENT_S = 10
#: What makes the library's processes wait before their next kernel, and what lets them go on.
WAITING, GOING_ON = -1, 0

FolderKey = TypeVar("FolderKey", bound=Hashable)


class Feedback(msgspec.Struct, frozen=True, gc=False):
    """What a region is to say. `recent_kernel` counts down from 2 to 0, one at each look."""

    recent_kernel: int
    is_limiting: bool


def feedback(regions: Mapping[FolderKey, SharedRegion], now: float) -> dict[FolderKey, Feedback]:
    """What each region is to say; `now` is Unix time (s)."""
    users = Counter(
        (card.uuid, region.priority)
        for region in regions.values()
        if _is_using(region, now)
        for card in region.cards
    )
    return {key: _told(region, users) for key, region in regions.items()}


def without_feedback(regions: Mapping[FolderKey, SharedRegion]) -> dict[FolderKey, Feedback]:
    """What each region is to say while no agent looks: none waits, all keep to their limits."""
    return {
        key: Feedback(max(region.recent_kernel, GOING_ON), is_limiting=True)
        for key, region in regions.items()
    }


def _is_using(region: SharedRegion, now: float) -> bool:
    last = region.last_kernel_at
    return region.recent_kernel > 1 or (last is not None and 0 <= now - last <= RECENT_S)


def _told(region: SharedRegion, users: Counter[tuple[str, int]]) -> Feedback:
    cards = {card.uuid for card in region.cards}
    on_cards = [(one, count) for (uuid, one), count in users.items() if uuid in cards]
    must_wait = any(one < region.priority for one, _ in on_cards)
    shares = any(one == region.priority and count > 1 for one, count in on_cards)
    recent = WAITING if must_wait else max(region.recent_kernel - 1, GOING_ON)
    return Feedback(recent, must_wait or shares)
