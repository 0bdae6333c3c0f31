"""Boards for the fake library: a YAML description as lines of keys and values that C can read.

What a description leaves out, the driver of that board does not say.
"""

import copy
import os
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.inventory.card_file import synthetic_uuid

BOARDS = Path(__file__).with_name("boards")
NAMES = sorted(path.stem for path in BOARDS.glob("*.yaml"))
WHOLE_CARD = 0xFFFFFFFF
MIB = 2**20
#: Levels by the first part of two paths that differs: NUMA node, host bridge, switches, switch.
_LEVELS = (50, 40, 30, 20)
_SAME_SWITCH = 10
_MEMORY = ("memory", "reserved", "used")
_LISTS = ("compute", "graphics", "mps")


class Board:
    """One board in a file; what a test changes is seen at the driver's next call."""

    def __init__(self, name: str, folder: Path, library: Path) -> None:
        """`library` is what `build` made."""
        self.name = name
        self._library = library
        self.path = folder / f"{name}.board"
        self._errors = 0
        described = yaml.safe_load((BOARDS / f"{name}.yaml").read_text())
        self.lines: dict[str, object] = dict(_compiled(name, described))
        self.write()

    def uuid(self, index: int) -> GpuUuid:
        """Of a whole card."""
        return GpuUuid(str(self.lines[f"card.{index}.uuid"]))

    def part(self, index: int, number: int) -> GpuUuid:
        """The uuid of a MIG instance."""
        return GpuUuid(str(self.lines[f"card.{index}.mig.{number}.uuid"]))

    def set(self, lines: Mapping[str, object]) -> None:
        """Set lines, or with None leave them out."""
        self.lines.update(lines)
        self.write()

    def lose(self, index: int) -> None:
        """A card falls off the bus."""
        self.set({f"card.{index}.lost": 1})

    def restore(self, index: int) -> None:
        """It is back."""
        self.set({f"card.{index}.lost": None})

    def error(self, index: int, xid: int, instance: int = WHOLE_CARD) -> None:
        """A card has an error; `instance` is a MIG instance's number (gi)."""
        self.set({f"event.{self._errors}": f"{index} {xid} {instance}"})
        self._errors += 1

    def hang(self, function: str) -> None:
        """Calls of this function do not return until `release`."""
        self.set({f"hang.{function}": 1})

    def release(self, function: str) -> None:
        """They return again."""
        self.set({f"hang.{function}": None})

    def write(self) -> None:
        """In one step: the library may be reading."""
        fresh = self.path.with_suffix(".new")
        told = (f"{key} {value}\n" for key, value in self.lines.items() if value is not None)
        fresh.write_text("".join(told))
        fresh.replace(self.path)

    @property
    def environment(self) -> dict[str, str]:
        """For a process that shall find this board."""
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self._library.parent),
            "FAKE_NVML_BOARD": str(self.path),
        }


def _compiled(name: str, described: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for key in ("driver", "old", "count"):
        yield key, described.get(key)
    count: int = described["count"]
    cards = [
        {
            "bus": _bus(index),
            **copy.deepcopy(described["each"]),
            **described.get("cards", {}).get(index, {}),
        }
        for index in range(count)
    ]
    for index, card in enumerate(cards):
        yield f"card.{index}.uuid", synthetic_uuid(name, index)
        for key, value in _card(card):
            yield f"card.{index}.{key}", value
        for number, part in card.get("mig", {}).items():
            yield f"card.{index}.mig.{number}.uuid", _part_uuid(name, index, number)
            yield f"card.{index}.mig.{number}.name", f"{card['name']} MIG {part['profile']}"
            yield f"card.{index}.mig.{number}.megabytes", part["memory_mib"]
            for key, value in _card({"compute": [], **part}):
                yield f"card.{index}.mig.{number}.{key}", value
        for number, link in enumerate(_links(index, described.get("nvlink", {}), cards)):
            for key, value in link.items():
                yield f"card.{index}.link.{number}.{key}", value
        if "nvlink" in described:
            yield f"card.{index}.field.164", described["nvlink"]["speed"]
    for one, other in combinations(range(count), 2):
        level = _level(described["pcie"][one], described["pcie"][other])
        yield f"card.{one}.level.{other}", level
        yield f"card.{other}.level.{one}", level


def _card(card: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for key, value in card.items():
        if key.removesuffix("_mib") in _MEMORY:
            yield key.removesuffix("_mib"), value * MIB
        elif key in _LISTS and value is not None:
            yield f"{key}.known", 1
            for at, process in enumerate(value):
                pid, _, mib = str(process).partition(" ")
                yield f"{key}.{at}", f"{pid} {int(mib) * MIB}" if mib else pid
        elif isinstance(value, dict) and key != "mig":
            for inner, told in value.items():
                yield f"{key}.{inner}", told
        elif not isinstance(value, dict):
            yield key, value


def _links(
    index: int, nvlink: Mapping[str, Any], cards: list[dict[str, Any]]
) -> Iterator[dict[str, object]]:
    version = nvlink.get("version")
    for number in range(nvlink.get("to_switch", 0)):
        is_down = number < cards[index].get("links_down", 0)
        yield {"state": int(not is_down), "version": version, "type": 2}
    for pair, count in nvlink.get("pairs", {}).items():
        ends = [int(end) for end in pair.split("-")]
        if index in ends:
            (other,) = set(ends) - {index}
            for _ in range(count):
                yield {"state": 1, "version": version, "type": 0, "remote": _bus(other)}


def _level(one: str, other: str) -> int:
    pairs = zip(str(one).split("."), str(other).split("."), strict=True)
    return next(
        (level for level, (a, b) in zip(_LEVELS, pairs, strict=True) if a != b), _SAME_SWITCH
    )


def _bus(index: int) -> str:
    return f"00000000:{0x07 + 8 * index:02X}:00.0"


def _part_uuid(name: str, index: int, number: int) -> str:
    return synthetic_uuid(f"{name}/{index}", number).replace("GPU-", "MIG-")
