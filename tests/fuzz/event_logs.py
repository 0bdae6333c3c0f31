"""Event logs that were damaged, or made by something else: all before the damage is used."""

from functools import cache
from random import Random
from typing import Any

import msgspec

from kubeshare_py.event_log.blocks import MAGIC, BlockPacker, DamagedLog, records_in
from kubeshare_py.event_log.records import (
    BadRecord,
    LoggedEvent,
    ProfilesConfigured,
    event_record,
    record_of,
)
from tests.event_log.histories import a_header, records_of
from tests.fuzz import odd
from tests.fuzz.family import Family, said
from tests.making.busy_world import run

#: The most bytes of an unpacked block that are read here.
_MOST = 4 << 20


@cache
def _history() -> list[bytes]:
    """The records of a short history."""
    world = run(5)
    records = records_of(a_header(world), world.log[:60])
    plain = (_without_private(msgspec.msgpack.decode(record)) for record in records)
    return [msgspec.msgpack.encode(one) for one in plain]


def _packed(records: list[bytes]) -> bytes:
    packer = BlockPacker()
    starts = range(0, len(records), 7)
    blocks = [block for at in starts for block in packer.packed(records[at : at + 7])]
    return MAGIC + b"".join(blocks)


def _damaged(random: Random) -> bytes:
    """A file of which bytes were lost, changed, doubled, or put in its place."""
    file = bytearray(_packed(_history()))
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(file) + 1)
        end = min(len(file), at + random.choice((1, 2, 8, 100, 5000)))
        match random.randrange(4):
            case 0:
                del file[at:end]
            case 1:
                file[at:end] = random.randbytes(end - at)
            case 2:
                file[at:at] = file[at:end]
            case _:
                del file[at:]
    return bytes(file)


def _judge_file(file: bytes) -> None:
    """What is read is the beginning of what was written, and the rest is located."""
    written, found = _history(), []
    damaged: DamagedLog | None = None
    try:
        for _, record in records_in([file], _MOST):
            found.append(record)
    except DamagedLog as damage:
        damaged = damage
    assert found == written[: len(found)], "a record that was never written"
    if damaged is not None:
        assert 0 <= damaged.at <= len(file)
        said(str(damaged), str(damaged.at))


def _odd_record(random: Random) -> dict[str, Any]:
    """An event of the history as plain data, with something odd in it."""
    raw: Any = msgspec.msgpack.decode(random.choice(_history()))
    return {"record": odd.changed(random, raw)}


def _judge_record(given: dict[str, Any]) -> None:
    """It is refused in a sentence, or it is an event, which the machine takes."""
    try:
        body = msgspec.msgpack.encode(given["record"])
    except (TypeError, ValueError, OverflowError, RecursionError):
        return  # nothing that could be in a file
    try:
        found = record_of(body)
    except BadRecord as problem:
        said(str(problem))
        return
    if isinstance(found, LoggedEvent) and not isinstance(found.event, ProfilesConfigured):
        again = record_of(event_record(found.event, found.now, ()))
        assert isinstance(again, LoggedEvent)
        assert again.event == found.event, "it is not written as it was read"


def _without_private(raw: Any) -> Any:
    """Plain data without fields that differ between processes."""
    if isinstance(raw, dict):
        return {
            name: _without_private(one) for name, one in raw.items() if not name.startswith("_")
        }
    return [_without_private(one) for one in raw] if isinstance(raw, list) else raw


FAMILIES = (
    Family(name="event log files", make=_damaged, judge=_judge_file, share=0.3),
    Family(name="event log records", make=_odd_record, judge=_judge_record, share=0.3),
)
