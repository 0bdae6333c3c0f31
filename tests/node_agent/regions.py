"""Regions that HAMi-core's own headers laid out, compiled by gcc 13 on x86-64.

`regions.json` has, of each version of src/multiprocess/multiprocess_memory_limit.h in
github.com/Project-HAMi/HAMi-core, the bytes of a file that are not 0, by their places. A C program
filled the struct of that header in the same way for all: two cards, with 3000 and 1000 MiB and 30
hundredths; three processes, of which the second has ended. Process p (from 0) has of card d
1000000 (p + 1) + 100000 d bytes and one, two and three more as context, module and data, three
times as much and six as total, and was busy 10 (p + 1) + d hundredths of the time.
"""

import json
import struct
from pathlib import Path
from typing import NamedTuple

UUIDS = tuple(f"GPU-00000000-0000-0000-0000-00000000000{letter}" for letter in "ab")


class Made(NamedTuple):
    """One file."""

    commit: str
    version: str
    content: bytes


def made_regions() -> list[Made]:
    """All of them, oldest first."""
    stored = json.loads((Path(__file__).parent / "regions.json").read_text())
    return [Made(one["commit"], one["version"], _content(one)) for one in stored]


def newest() -> bytes:
    """The file of the newest version."""
    return made_regions()[-1].content


def with_numbers(content: bytes, form: str, **places: int) -> bytes:
    """With other numbers at these places, `at_8=5`."""
    found = bytearray(content)
    for place, number in places.items():
        struct.pack_into(form, found, int(place.removeprefix("at_")), number)
    return bytes(found)


def full_region() -> bytes:
    """One of the newest version with 1,024 processes, which all use 16 cards.

    Process p (from 0) has p + 1 + 2**30 bytes of each card, and was busy one hundredth of the time.
    """
    found = bytearray(newest())
    slots, slot = 1856, 1960
    struct.pack_into("=Q", found, 56, 16)
    struct.pack_into("=i", found, 2008896, 1024)
    for card in range(16):
        name = f"GPU-00000000-0000-0000-0000-0000000000{card:02}".encode()
        found[64 + 96 * card : 64 + 96 * card + len(name)] = name
        struct.pack_into("=Q", found, 1728 + 8 * card, 30)
    for process in range(1024):
        at = slots + slot * process
        struct.pack_into("=ii", found, at, process + 1, process + 1)
        struct.pack_into("=i", found, at + 1928, 1)
        for card in range(16):
            struct.pack_into("=5Q", found, at + 8 + 64 * card, *[2**30 + process + 1] * 5)
            struct.pack_into("=Q", found, at + 1160 + 48 * card + 16, 1)
    return bytes(found)


def _content(stored: dict[str, object]) -> bytes:
    size, runs = stored["size"], stored["runs"]
    assert isinstance(size, int)
    assert isinstance(runs, dict)
    found = bytearray(size)
    for place, text in runs.items():
        found[int(place) : int(place) + len(text) // 2] = bytes.fromhex(text)
    return bytes(found)
