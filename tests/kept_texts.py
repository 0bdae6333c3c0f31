"""What is kept of texts that a test made, in whatever table: found by walking all references."""

import gc
from collections import Counter
from types import FunctionType, ModuleType
from typing import Any

#: Stands in each text that is looked for, before the name of what it was written into.
MARK = "zq-mark-"


def marked(where: str, number: int, length: int) -> str:
    """A text of this length that no other call gives, by which `kept_by_place` knows `where`."""
    return f"{MARK}{where}-{number}-".ljust(length, "x")


def kept_by_place(*roots: Any) -> Counter[str]:
    """How many characters of marked texts can be reached from the roots, by their `where`.

    A text that is there several times counts once if it is one object.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    left = [*roots]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType)):
            continue
        seen.add(id(one))
        if isinstance(one, str):
            if MARK in one and one != MARK:
                place = one[one.index(MARK) + len(MARK) :].partition("-")[0]
                found[place] += len(one)
        elif isinstance(one, dict):  # the garbage collector skips keys that are texts
            left.extend(one)
            left.extend(one.values())
        elif isinstance(one, FunctionType):
            left.extend(cell.cell_contents for cell in one.__closure__ or () if _is_set(cell))
        else:
            left.extend(gc.get_referents(one))
    return found


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
