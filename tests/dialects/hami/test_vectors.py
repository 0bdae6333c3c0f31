"""What HAMi's own code wrote and read, byte for byte (`vectors.json` says of which release).

10,000 random cases of each kind went through both, in both directions, without a difference; these
are some of them, and the odd ones.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.hami.annotations import (
    DeviceRecord,
    RegisteredCard,
    decode,
    encode,
    read_json,
    read_records,
    write_json,
    write_records,
)

Json = dict[str, Any]
VECTORS: Json = json.loads((Path(__file__).parent / "vectors.json").read_text())


def cases(kind: str) -> list[Any]:
    return [pytest.param(one, id=one["text"][:40]) for one in VECTORS[kind]]


def slots(containers: list[list[list[Any]]]) -> tuple[tuple[DeviceRecord, ...], ...]:
    return tuple(tuple(DeviceRecord(*record) for record in slot) for slot in containers)


def cards(written: list[Json]) -> tuple[RegisteredCard, ...]:
    return tuple(msgspec.convert(one, RegisteredCard) for one in written)


@pytest.mark.parametrize("case", cases("assignments"))
def test_assignments_are_written_as_hami_writes_them(case: Json) -> None:
    """uuid, type, MiB and cores of each card; a colon ends a card and a semicolon a container."""
    asked = slots(case["containers"])
    assert encode(asked) == case["text"]
    assert decode(case["text"]) == (*asked, ())


@pytest.mark.parametrize("case", cases("read assignments"))
def test_assignments_are_read_as_hami_reads_them(case: Json) -> None:
    """What follows the last semicolon is one more container, without cards."""
    found, theirs = decode(case["text"]), case["containers"]
    assert isinstance(found, str) if theirs is None else found == slots(theirs)


@pytest.mark.parametrize("case", cases("registers of records"))
def test_registers_of_records_are_written_as_hami_writes_them(case: Json) -> None:
    """Nine fields a card: uuid, count, MiB, cores, type, numa, health, index, mode."""
    assert write_records(cards(case["cards"])) == case["text"]
    assert read_records(case["text"]) == cards(case["cards"])


@pytest.mark.parametrize("case", cases("registers of JSON"))
def test_registers_of_json_are_written_as_hami_writes_them(case: Json) -> None:
    """A JSON list, without the fields that are 0, false or empty."""
    assert write_json(cards(case["cards"])) == case["text"]
    assert read_json(case["text"]) == cards(case["cards"])


@pytest.mark.parametrize("case", cases("read records"))
def test_records_are_read_as_hami_reads_them(case: Json) -> None:
    """Of seven fields or nine; any other number is an error, and so is a text without a colon."""
    found, theirs = read_records(case["text"]), case["cards"]
    assert isinstance(found, str) if theirs is None else found == cards(theirs)


@pytest.mark.parametrize("case", cases("read JSON"))
def test_json_is_read_as_hami_reads_it(case: Json) -> None:
    """Fields that are left out are 0, false or empty."""
    found, theirs = read_json(case["text"]), case["cards"]
    assert isinstance(found, str) if theirs is None else found == cards(theirs)
