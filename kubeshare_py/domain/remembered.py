"""Results that are remembered by their arguments, bounded in bytes and not only in number.

What pods' owners write may be as large as the API server takes: some thousand of such arguments
would keep more memory than the pods had, long after these are gone.
"""

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
    entries: int, most_bytes: int = MOST_BYTES
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Remember a pure function's results, as `lru_cache` does and as fast where they are known.

    All are forgotten once arguments of `most_bytes` in all were new since the last time: that, and
    one more result, is the most that is kept. After heavy arguments it is the next new ones that
    have all forgotten: some of them, kept among much that is freed, would keep whole arenas of the
    allocator from the system. Arguments are hashable and not given by name.
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
            if new > HEAVY:
                kept = most_bytes
            return function(*arguments, **_)

        known.__doc__, known.__name__ = function.__doc__, function.__name__
        return cast("Callable[P, T]", known)

    return decorate


def weight_of(value: Hashable) -> int:
    """About how many bytes a value of tuples, sets, texts, numbers and structs of these takes.

    Private fields of structs are not counted: they are made of the others.
    """
    if isinstance(value, str):
        return _OBJECT + len(value)
    if isinstance(value, (tuple, frozenset)):
        return _OBJECT + _REFERENCE * len(value) + sum(map(weight_of, value))
    fields = getattr(value, "__struct_fields__", None) or getattr(
        value, "__dataclass_fields__", None
    )
    if not fields:
        return _OBJECT
    return _OBJECT + sum(weight_of(getattr(value, name)) for name in fields if name[0] != "_")
