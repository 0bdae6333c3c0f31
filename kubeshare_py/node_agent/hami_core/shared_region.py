"""HAMi-core's shared region of one container, as the bytes of its file.

The library keeps in it what processes of the container use of each card, in the byte order of the
machine: `shared_region_t` in src/multiprocess/multiprocess_memory_limit.h of
github.com/Project-HAMi/HAMi-core. Four layouts are known; HAMi v2.4 has the second, v2.5 to v2.8
have 1.1, v2.9 and v2.10 have 1.2. A file is one byte longer than its region, and its length tells
the layout, since the first two have no version. Their places were taken from a C compiler.

A container may write anything into its region, and processes change it while it is read. A full one
has 82,000 numbers of what 1,024 processes use of 16 cards: they are read only where they are shown.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import compress

import msgspec

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
