"""A failing input made smaller, as long as it fails in the same way."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.family import Input

#: Tries; a history costs some ten milliseconds each.
_MAX_TRIES = 600


def failure_of(judge: Callable[[Input], None], given: Input) -> Exception | None:
    """What is wrong with the answer to an input; None if it is right."""
    try:
        judge(given)
    except Exception as error:  # noqa: BLE001 whatever leaves an entry is what is looked for
        return error
    return None


def shrunken(judge: Callable[[Input], None], given: Input) -> Input:
    """A smaller input, with the same kind of failure at the same place."""
    wanted = _place(failure_of(judge, given))
    tries = 0
    found_one = True
    while found_one:
        found_one = False
        for smaller in _smaller(given):
            tries += 1
            if tries > _MAX_TRIES:
                return given
            if _place(failure_of(judge, smaller)) == wanted:
                given, found_one = smaller, True
                break
    return given


def _place(error: Exception | None) -> object:
    trace = error.__traceback__ if error else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return type(error), trace and (trace.tb_frame.f_code.co_filename, trace.tb_lineno)


def _smaller(given: Input) -> Iterator[Input]:
    """The same with less, the largest steps first."""
    if isinstance(given, bytes):
        yield from _smaller_bytes(given)
    elif isinstance(given, str):
        yield from _halves(given)
    elif isinstance(given, dict):
        for key in given:
            yield {name: one for name, one in given.items() if name != key}
        for key, value in given.items():
            for one in _smaller(value):
                yield {**given, key: one}
    elif isinstance(given, list):
        yield from _halves(given)
        for at, value in enumerate(given):
            for one in _smaller_item(value):
                yield [*given[:at], one, *given[at + 1 :]]


def _smaller_item(value: Input) -> Iterator[Input]:
    """Of a step of a history the kind stays."""
    if isinstance(value, list) and value and isinstance(value[-1], bytes):
        yield from ([*value[:-1], one] for one in _smaller_bytes(value[-1]))
    else:
        yield from _smaller(value)


def _smaller_bytes(given: bytes) -> Iterator[bytes]:
    try:
        value = json.loads(given)
        if isinstance(value, dict | list):
            for one in _smaller(value):
                yield json.dumps(one).encode()
            return
    except (ValueError, RecursionError):
        pass
    yield from _halves(given)


def _halves(given: Any) -> Iterator[Any]:
    size = len(given) // 2 or len(given)
    while size:
        for at in range(0, len(given), size):
            yield given[:at] + given[at + size :]
        size //= 2
