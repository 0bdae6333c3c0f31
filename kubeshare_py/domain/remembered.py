"""Caches of pure functions, bounded in bytes and not only in number.

What owners of pods write may be as large as the API server accepts: some thousand of such arguments
would keep more memory than the pods had, long after these are gone.
"""

import math
from collections.abc import Callable, Hashable
from enum import Enum
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

#: The most bytes of one function's cache, and of one table of the scheduler keyed by shape.
MAX_BYTES = 8 * 1024 * 1024

#: Arguments above this size (bytes) are kept only until the next new ones come.
HEAVY = 16 * 1024

_OBJECT = 64
_REFERENCE = 8


def remembered(
    entries: int, most_bytes: int = MAX_BYTES, heavy: int = HEAVY
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache a pure function's results, as `lru_cache` does and as fast for known ones.

    The cache is cleared once new arguments of `most_bytes` in all have come since the last time:
    that, and one more result, is its largest size. After arguments above `heavy` (bytes) the next
    new ones clear it: a few of them, kept among much that is freed, would keep whole arenas of the
    allocator from the system. Arguments must be hashable and positional.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept = 0

        @lru_cache(entries)
        def known(*arguments: P.args, **_: P.kwargs) -> T:
            nonlocal kept
            new = weight_of(arguments, heavy + 1)  # it counts no further: a pod may have 3 MB
            kept += new
            if kept > most_bytes:
                known.cache_clear()
                kept = new
            if new > heavy:
                kept = most_bytes
            return function(*arguments, **_)

        known.__doc__, known.__name__ = function.__doc__, function.__name__
        return cast("Callable[P, T]", known)

    return decorate


def weight_of(value: Hashable, enough: float = math.inf) -> int:
    """The approximate size, in bytes, of a value of tuples, sets, texts, numbers and such structs.

    Counting stops at `enough` bytes. A field that holds nothing (None, False, 0, "", ()) weighs no
    more than its reference: how many fields a class has says little of what users wrote. Private
    fields of structs are not counted, because they are derived from the others. A struct with a
    field `_weight` caches its own size there.
    """
    total, left = 0, [value]
    while left and total < enough:
        one = left.pop()
        if one is True or not bool(one) or isinstance(one, Enum):
            continue  # one object of the process, whatever refers to it
        if isinstance(one, (str, bytes)):
            # Python keeps all characters of a text as wide as the widest: 4 bytes at the most.
            total += _OBJECT + len(one) * (1 if one.isascii() else 4)
        elif isinstance(one, (tuple, frozenset)):
            total += _OBJECT + _REFERENCE * len(one)
            left.extend(one)
        elif hasattr(one, "_weight") and (one._weight or enough == math.inf):
            total += one._weight or _weigh(one)
        else:
            fields = _fields(type(one))
            total += _OBJECT + _REFERENCE * len(fields)
            left.extend(getattr(one, name) for name in fields)
    return total


def _weigh(struct: Hashable) -> int:
    fields = tuple(getattr(struct, name) for name in _fields(type(struct)))
    weight = weight_of(fields)
    object.__setattr__(struct, "_weight", weight)
    return weight


@lru_cache(256)
def _fields(kind: Hashable) -> tuple[str, ...]:
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    return tuple(name for name in names or () if name[0] != "_")
