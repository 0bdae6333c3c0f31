"""Histories as logs: the records that a scheduler would have written of them."""

from collections.abc import Iterable, Iterator, Sequence

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.effects import Effect
from kubeshare_py.event_log.blocks import MAGIC, BlockPacker
from kubeshare_py.event_log.records import (
    LoggedEvent,
    LogHeader,
    event_record,
    header_record,
    record_of,
)
from kubeshare_py.event_log.replay import PlayedEvent, Replay
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.scheduling.machine import MachineEvent
from tests.making.busy_world import FACTORIES, BusyWorld, a_configuration, run

LogEntry = tuple[MachineEvent, float, Sequence[Effect]]


def a_header(world: BusyWorld, configuration: SchedulerConfiguration | None = None) -> LogHeader:
    """The header of a world's only file."""
    return LogHeader(
        name=world.machine.name,
        version="0.1",
        session="s",
        file=0,
        now=0.0,
        wall=1_700_000_000.0,
        configuration=configuration or a_configuration(0),
    )


def records_of(header: LogHeader, entries: Iterable[LogEntry]) -> list[bytes]:
    """The header and the events."""
    return [header_record(header), *(event_record(*entry) for entry in entries)]


def a_file(records: Sequence[bytes], portion: int = 50) -> bytes:
    """A file with so many records in a block."""
    packer = BlockPacker()
    starts = range(0, len(records), portion)
    blocks = (block for at in starts for block in packer.packed(records[at : at + portion]))
    return MAGIC + b"".join(blocks)


def a_log(seed: int) -> list[bytes]:
    """The records of a busy history, which are some thousand."""
    world = run(seed)
    return records_of(a_header(world), world.log)


def played(
    records: Iterable[bytes], factories: dict[str, PluginFactory] = FACTORIES
) -> Iterator[PlayedEvent]:
    """Every event, run again."""
    first, *others = (record_of(record) for record in records)
    assert isinstance(first, LogHeader)
    replay = Replay(first, factories)
    for one in others:
        assert isinstance(one, LoggedEvent)
        yield replay.play(one)
