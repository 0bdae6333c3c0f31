"""All that a machine consists of, as values that can be compared: nothing is left out by name.

Every object that can be reached is walked, private fields included: columns, change logs with their
rings, queues, reservations, cached answers, costs, failures and timers. Only results of pure
functions that an object keeps for itself, and that nothing counts, are left out (PURE).
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any
from weakref import WeakSet

import numpy as np
from msgspec import Struct

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.domain.values import field_names
from kubeshare_py.scheduling.machine import Machine

#: By class, fields that keep results of pure functions, how much room these take, or addresses.
PURE: Mapping[str, frozenset[str]] = {
    "Boundary": frozenset({"trusted"}),
    "CardSets": frozenset({"_chosen", "_orders", "_divided", "_places"}),
    "Profile": frozenset({"only_for", "trusted"}),
    "Shape": frozenset({"_weight"}),
    "Topology": frozenset({"_tables"}),
    "WhatIf": frozenset({"_sorted"}),
    "UsageAccounting": frozenset({"_vectors", "_vectors_of"}),
}
_PLAIN = (int, str, float, bytes, Enum, type(None))

State = dict[str, object]


def state_of(machine: Machine) -> State:
    """Every plain value below the machine, by the path to it."""
    return _walk(machine)[0]


def objects_of(machine: Machine) -> list[object]:
    """Every object below the machine that is no plain value and no array."""
    return _walk(machine)[1]


def _walk(machine: Machine) -> tuple[State, list[object]]:
    found: State = {}
    seen: dict[int, str] = {}
    kept: list[object] = []
    left: list[tuple[str, object]] = [("machine", machine)]
    while left:
        path, one = left.pop()
        if isinstance(one, _PLAIN):
            found[path] = one
        elif id(one) in seen:
            found[path] = f"see {seen[id(one)]}"
        elif isinstance(one, np.ndarray):
            found[path] = (one.shape, one.dtype.str, one.tobytes())
        else:
            seen[id(one)] = path
            kept.append(one)  # so that no other object gets its id
            left.extend((f"{path}{step}", part) for step, part in _parts(one))
            found[path] = type(one).__name__
    return found, kept


def expect_same_state(before: State, after: State, asked: str) -> None:
    """Fails with the paths of what differs."""
    paths = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    said = [f"{path}: {before.get(path)} -> {after.get(path)}" for path in sorted(paths)[:5]]
    assert not paths, f"{asked} changed {len(paths)} values: {said}"


def _parts(one: object) -> Iterator[tuple[str, object]]:
    """What an object consists of; nothing for functions and other objects without fields."""
    if isinstance(one, dict):
        for number, (key, value) in enumerate(one.items()):
            yield f"<{number}>", key
            yield f"[{_short(key)}]", value
    elif isinstance(one, (list, tuple, deque)):
        yield from ((f"[{number}]", part) for number, part in enumerate(one))
    elif isinstance(one, (set, frozenset)):
        yield from ((f"{{{part!r}}}", part) for part in sorted(one, key=repr))
    elif isinstance(one, WeakSet):
        yield "{}", len(one)
    elif isinstance(one, ChangeLog):
        yield ".end", one.end
        yield ".ring", one.since(max(0, one.end - 4096), 4096)
    elif type(one).__module__.startswith(("kubeshare_", "tests.")):
        pure = PURE.get(type(one).__name__, frozenset())
        for name in _names(one):
            if name not in pure and hasattr(one, name):
                yield f".{name}", getattr(one, name)


def _names(one: object) -> list[str]:
    names: dict[str, Any] = dict(getattr(one, "__dict__", {}))
    if is_dataclass(one) or isinstance(one, Struct):
        names.update(dict.fromkeys(field_names(type(one))))
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
    return [name for name in names if name not in ("__weakref__", "__dict__")]


def _short(key: object) -> str:
    return f"{key}"[:60]
