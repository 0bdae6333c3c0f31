"""A file is read as it was written; what is damaged is located, and all before it is used."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.event_log import blocks
from kubeshare_py.event_log.blocks import MAGIC, BlockPacker, DamagedLog, records_in
from tests.event_log.histories import a_file

RECORDS = st.lists(st.binary(max_size=300), max_size=30)


def read(file: bytes, chunk: int = 7) -> list[bytes]:
    chunks = (file[at : at + chunk] for at in range(0, len(file), chunk))
    return [record for _, record in records_in(chunks)]


def read_until_damage(file: bytes) -> tuple[list[bytes], DamagedLog | None]:
    found: list[bytes] = []
    try:
        for _, record in records_in([file]):
            found.append(record)
    except DamagedLog as damage:
        return found, damage
    return found, None


@given(RECORDS, st.integers(1, 40), st.integers(1, 100))
def test_records_are_read_as_they_were(records: list[bytes], portion: int, chunk: int) -> None:
    assert read(a_file(records, portion), chunk) == records


def test_large_portions_become_several_blocks() -> None:
    records = [bytes([number]) * 400_000 for number in range(9)]
    packed = [*BlockPacker().packed(records)]
    assert len(packed) == 3
    assert read(MAGIC + b"".join(packed), 100_000) == records


@given(RECORDS, st.data())
def test_a_file_that_ends_too_early_gives_what_is_before_the_end(
    records: list[bytes], data: st.DataObject
) -> None:
    file = a_file(records, 3)
    end = data.draw(st.integers(len(MAGIC), len(file)))
    found, damage = read_until_damage(file[:end])
    assert found == records[: len(found)]
    assert damage is None or len(MAGIC) <= damage.at <= end
    assert damage is not None or file[:end] == a_file(found, 3)


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=30), st.data())
def test_a_changed_byte_is_noticed(records: list[bytes], data: st.DataObject) -> None:
    file = bytearray(a_file(records, 3))
    file[data.draw(st.integers(0, len(file) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found, damage = read_until_damage(bytes(file))
    assert found == records[: len(found)]
    assert damage is not None


def block(body: bytes) -> bytes:
    return blocks._HEAD.pack(len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize(
    ("file", "at", "why"),
    [
        (b"no log", 0, "no file of an event log"),
        (MAGIC + b"\xff" * 8, len(MAGIC), "the length of a block is impossible"),
        (MAGIC + b"\0\0", len(MAGIC), "within a block's head"),
        (MAGIC + block(b"no zlib"), len(MAGIC), "cannot be unpacked"),
        (MAGIC + block(zlib.compress(b"\0\0\0\x09abc")), len(MAGIC), "ends within a record"),
    ],
)
def test_damage_is_located(file: bytes, at: int, why: str) -> None:
    found, damage = read_until_damage(file)
    assert found == []
    assert damage is not None
    assert damage.at == at
    assert why in str(damage)


def test_a_block_that_unpacks_to_too_much_is_refused() -> None:
    file = a_file([bytes(10_000)])
    assert [len(record) for _, record in records_in([file], 10_004)] == [10_000]
    with pytest.raises(DamagedLog, match="larger than any"):
        assert [*records_in([file], 10_003)] == []
