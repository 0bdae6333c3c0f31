"""The text that says which parts of which cards a pod's containers have.

Each card of a container is a record `UUID,VENDOR,MIB,CORES:`. After the records of each container
comes a `;`, init containers first; a container without cards has the `;` alone. The ancestor writes
one `;` after all containers, so that it cannot be told whose a record is. Source: devices.go of
pkg/device in github.com/Project-HAMi/HAMi (EncodePodSingleDevice, DecodePodDevices), and util.go of
pkg/util in github.com/4paradigm/k8s-vgpu-scheduler.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from kubeshare_py.dialects.hami.keys import MOST
from kubeshare_py.domain.printable import value_text

CARD_END = ":"
CONTAINER_END = ";"
_FIELDS = 4
_SEPARATORS = re.compile("[,:;]")
_ENDS = re.compile("[:;]")
_INTEGER = re.compile("[+-]?[0-9]{1,32}")
_MAX_SHOWN = 64


class DeviceRecord(msgspec.Struct, frozen=True, gc=False):
    """One card of a container: memory in MiB, cores in hundredths of a card; Go's int32 both.

    Invariant, else ValueError: no separator in the names.
    """

    uuid: str
    vendor: str
    memory_mib: int
    cores: int

    def __post_init__(self) -> None:
        if _SEPARATORS.search(self.uuid) or _SEPARATORS.search(self.vendor):
            raise ValueError(f"{self.uuid!r} and {self.vendor!r}: must have none of , : ;")

    def __str__(self) -> str:
        return f"{self.uuid},{self.vendor},{self.memory_mib},{self.cores}{CARD_END}"


#: The records of one container, and those of all containers of a pod.
Slot = tuple[DeviceRecord, ...]
Slots = tuple[Slot, ...]


def encode(slots: Iterable[Sequence[DeviceRecord]]) -> str:
    """The text for all containers of a pod, init containers first, as HAMi writes it."""
    return "".join("".join(map(str, slot)) + CONTAINER_END for slot in slots)


def encode_as_seed(slots: Iterable[Sequence[DeviceRecord]]) -> str:
    """The same as the ancestor writes it: one end after all containers."""
    return "".join(str(record) for slot in slots for record in slot) + CONTAINER_END


def decode(text: str) -> Slots | str:
    """The records by container, as both systems read them; a sentence if one has no such form.

    There is one slot more than there are ends, nearly always an empty one. What has no comma says
    nothing, and what follows a fourth field neither.
    """
    slots = []
    for part in text.split(CONTAINER_END):
        slot = _decode_container(part)
        if isinstance(slot, str):
            return slot
        slots.append(slot)
    return tuple(slots)


def first_fields(text: str) -> tuple[str, ...]:
    """The first field of each part of a text, each once; of a record that is its uuid."""
    parts = filter(None, _ENDS.split(text))
    return tuple(dict.fromkeys(part.partition(",")[0] for part in parts))


def int32(text: str) -> int | None:
    """A decimal integer as Go's ParseInt reads it for an int32; None for anything else."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -MOST - 1 <= number <= MOST else None


def _decode_container(text: str) -> Slot | str:
    records = []
    for part in text.split(CARD_END):
        if "," not in part:
            continue
        fields = part.split(",")
        if len(fields) < _FIELDS:
            return f"{value_text(part, _MAX_SHOWN)} has {len(fields)} fields, not {_FIELDS}"
        memory, cores = int32(fields[2]), int32(fields[3])
        if memory is None:
            return f"{value_text(part, _MAX_SHOWN)}: memory is no number of 32 bits"
        if cores is None:
            return f"{value_text(part, _MAX_SHOWN)}: cores are no number of 32 bits"
        records.append(DeviceRecord(fields[0], fields[1], memory, cores))
    return tuple(records)
