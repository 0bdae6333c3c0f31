"""What a machine knows at one moment, as one file of an event log, made and read in portions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from kubeshare_py.domain.events import (
    Event,
    InventoryRead,
    NodesListed,
    ObjectSeen,
    ObjectsListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.blocks import MAGIC, BlockPacker, records_in
from kubeshare_py.event_log.records import (
    BadRecord,
    LoggedEvent,
    LogHeader,
    RecordReader,
    event_record,
    header_record,
)

T = TypeVar("T")
#: Pods, nodes or objects in a portion: each takes a few ms to write.
A_PORTION = 250


def snapshot_pieces(header: LogHeader, events: Iterable[Event]) -> Iterator[bytes]:
    """The bytes of a file with the header and these events, in pieces of some milliseconds each.

    The events must be of one moment; they are written in smaller portions that mean the same.
    """
    packer = BlockPacker()
    yield MAGIC + b"".join(packer.packed([header_record(header)]))
    for some in _portions(events):
        yield b"".join(packer.packed([event_record(event, header.now, ()) for event in some]))


def read_snapshot(chunks: Iterable[bytes]) -> tuple[LogHeader, Iterator[LoggedEvent]]:
    """The header and the events of such a file. Both raise BadRecord and DamagedLog."""
    reader = RecordReader()
    records = (reader.read(body) for _, body in records_in(chunks))
    header = next(records, None)
    if not isinstance(header, LogHeader):
        raise BadRecord("it does not begin with a header")
    return header, (one for one in records if isinstance(one, LoggedEvent))


def _portions(events: Iterable[Event]) -> Iterator[Sequence[Event]]:
    for event in events:
        match event:
            case PodsListed():
                yield from _pods(event)
            case NodesListed(nodes=nodes):
                for some, more in _parts(nodes):
                    yield [replace(event, nodes=some, more=more or event.more)]
            case InventoryRead(changed=changed):
                for cards, more in _parts(changed):
                    yield [replace(event, changed=cards, more=more or event.more)]
            case ObjectsListed(objects=objects) if objects is not None:
                for number, (some_objects, _) in enumerate(_parts(objects)):
                    rest = [ObjectSeen(one) for one in some_objects]
                    yield rest if number else [replace(event, objects=some_objects)]
            case _:
                yield [event]


def _pods(event: PodsListed) -> Iterator[Sequence[Event]]:
    """Pods with a node as a list, then the others one by one: their order of arrival counts.

    A machine that begins with this knows no pods that could be gone, so that none is named in
    advance.
    """
    there = tuple([pod for pod in event.pods if pod.node_name is not None])
    for number, (pods, more) in enumerate(_parts(there)):
        yield [replace(event, pods=pods, continues=number > 0, more=more or event.more)]
    for waiting, _ in _parts(tuple([pod for pod in event.pods if pod.node_name is None])):
        yield [PodSeen(pod) for pod in waiting]


def _parts(items: tuple[T, ...]) -> Iterator[tuple[tuple[T, ...], bool]]:
    """The items in portions, at least one, each with whether another one follows."""
    for start in range(0, max(1, len(items)), A_PORTION):
        yield items[start : start + A_PORTION], start + A_PORTION < len(items)
