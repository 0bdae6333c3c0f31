"""Results that are remembered by their arguments, bounded in bytes and not only in number.

What pods' owners write may be as large as the API server takes: some thousand of such arguments
would keep more memory than the pods had, long after these are gone.
"""

import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

#: Of one function, and of one table of the scheduler that is kept by shape.
MOST_BYTES = 8 * 1024 * 1024

#: One argument list above this (bytes) is kept until the next new one comes, and no longer.
HEAVY = 16 * 1024

_OBJECT = 64
_REFERENCE = 8


def remembered(
    entries: int, most_bytes: int = MOST_BYTES, heavy: int = HEAVY
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Remember a pure function's results, as `lru_cache` does and as fast where they are known.

    All are forgotten once arguments of `most_bytes` in all were new since the last time: that, and
    one more result, is the most that is kept. After arguments above `heavy` (bytes) it is the next
    new ones that have all forgotten: some of them, kept among much that is freed, would keep whole
    arenas of the allocator from the system. Arguments are hashable and not given by name.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept = 0

        @lru_cache(entries)
        def known(*arguments: P.args, **_: P.kwargs) -> T:
            nonlocal kept
            new = weight_of(arguments)
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
    """About how many bytes a value of tuples, sets, texts, numbers and structs of these takes.

    Nothing more is counted once it is `enough`. Private fields of structs are not counted: they
    are made of the others. A struct with a field `_weight` remembers its own there.
    """
    total, left = 0, [value]
    while left and total < enough:
        one = left.pop()
        if isinstance(one, str):
            total += _OBJECT + len(one)
        elif isinstance(one, (tuple, frozenset)):
            total += _OBJECT + _REFERENCE * len(one)
            left.extend(one)
        elif hasattr(one, "_weight") and (one._weight or enough == math.inf):
            total += one._weight or _weigh(one)
        else:
            total += _OBJECT
            left.extend(getattr(one, name) for name in _fields(type(one)))
    return total


def _weigh(struct: Hashable) -> int:
    fields = tuple(getattr(struct, name) for name in _fields(type(struct)))
    weight = weight_of(fields) - _REFERENCE * len(fields)
    object.__setattr__(struct, "_weight", weight)
    return weight


@lru_cache(256)
def _fields(kind: Hashable) -> tuple[str, ...]:
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    return tuple(name for name in names or () if name[0] != "_")
