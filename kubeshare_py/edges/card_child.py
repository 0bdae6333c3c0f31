"""The process that asks the driver for its cards, on a timer and whenever a card has an error.

It is a process of its own because a call into the driver may never return, or take the process
with it: then it is killed and started again, and the collector goes on answering. One JSON line in
(`Start`), then one out per reading (`Read` or `Failed`); it ends when its standard input does.
"""

import ctypes
import os
import select
import sys
import time
from collections.abc import Callable

import msgspec

from kubeshare_py.edges.card_reports import Failed, Read, Report, Start
from kubeshare_py.edges.nvml_cards import NvmlCards
from kubeshare_py.node_agent.card_reader import CardReader

#: For so long (s) at most nobody looks whether standard input has ended.
_LOOK_S = 0.5
#: After an error of a card the next reading comes after this part of the interval, not of all.
_SOONER = 10


def main() -> None:
    """Read `Start`, then cards until standard input ends."""
    line = sys.stdin.buffer.readline()
    if not line:
        return
    start = msgspec.json.decode(line, type=Start)
    _return_memory()
    reader = NvmlCards(start.reopen_s)
    while True:
        began = time.monotonic()
        _tell(_report(reader))
        if _ended(reader, began, start.interval_s):
            return


def _report(reader: CardReader) -> Report:
    try:
        return Read(reading=reader.read())
    except OSError as error:
        return Failed(message=str(error))


def _tell(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _ended(reader: CardReader, began: float, interval_s: float) -> bool:
    """Wait until it is time, or soon after an error; whether standard input ended meanwhile."""
    due = began + interval_s
    while (left := due - time.monotonic()) > 0:
        happened = reader.wait(min(left, _LOOK_S))
        if _stdin_ended(left if happened is None else 0.0):
            return True
        if any(not error.is_application for error in happened or ()):
            # Not at once: where one error comes, others follow.
            due = min(due, began + interval_s / _SOONER)
    return _stdin_ended(0.0)


def _stdin_ended(wait_s: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], wait_s)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1)


def _return_memory() -> None:
    """Importing pynvml leaves 10 MiB that are free and, with glibc, stay with the process."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


if __name__ == "__main__":
    main()
