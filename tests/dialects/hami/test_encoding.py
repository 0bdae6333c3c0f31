"""The text of a pod's assignment, as HAMi and its ancestor write and read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.hami.annotations import (
    DeviceRecord,
    Slots,
    decode,
    encode,
    encode_as_seed,
)

_NAMES = st.text(st.characters(exclude_characters=",:;", exclude_categories=["Cs"]), max_size=12)
_AMOUNTS = st.integers(-(2**31), 2**31 - 1)
RECORDS = st.builds(DeviceRecord, _NAMES, _NAMES, _AMOUNTS, _AMOUNTS)
SLOTS = st.lists(st.lists(RECORDS, max_size=3).map(tuple), max_size=4).map(tuple)


def one(uuid: str, mib: int = 1000, cores: int = 30) -> DeviceRecord:
    return DeviceRecord(uuid, "NVIDIA", mib, cores)


@pytest.mark.parametrize(
    ("slots", "text"),
    [
        (((one("U1"), one("U2")),), "U1,NVIDIA,1000,30:U2,NVIDIA,1000,30:;"),
        (((one("U1", 3000, 50),), (one("U2", 4000, 60),)),
         "U1,NVIDIA,3000,50:;U2,NVIDIA,4000,60:;"),
        (((), (one("U1"),), (one("U1"),)), ";U1,NVIDIA,1000,30:;U1,NVIDIA,1000,30:;"),
        ((), ""),
    ],
)  # fmt: skip
def test_each_container_ends_with_a_semicolon_and_init_containers_come_first(
    slots: Slots, text: str
) -> None:
    """A container without cards is a semicolon alone."""
    assert encode(slots) == text
    assert decode(text) == (*slots, ())


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("U1,NVIDIA,1000,30:;", ((one("U1"),), ())),
        ("", ((),)),
        ("U1,NVIDIA,1000,30,more:junk:;", ((one("U1"),), ())),
    ],
)
def test_what_follows_the_last_end_is_a_slot_too(text: str, slots: Slots) -> None:
    """So a text of one container is read as two slots, and an empty text as one."""
    assert decode(text) == slots


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("uuid,type,100:;", "'uuid,type,100' has 3 fields, not 4"),
        ("u,t,x,1:;", "'u,t,x,1': memory is no number of 32 bits"),
        ("u,t,2147483648,1:;", "'u,t,2147483648,1': memory is no number of 32 bits"),
        ("u,t,1,1.5:;", "'u,t,1,1.5': cores are no number of 32 bits"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(text: str, problem: str) -> None:
    """A record has uuid, type, memory and cores: one with fewer than four fields is an error."""
    assert decode(text) == problem


def test_the_ancestor_writes_one_end_after_all_containers() -> None:
    """Its own reader finds one container with all cards."""
    text = encode_as_seed(((one("U1"),), (one("U2"),)))
    assert text == "U1,NVIDIA,1000,30:U2,NVIDIA,1000,30:;"
    assert decode(text) == ((one("U1"), one("U2")), ())


@given(SLOTS)
def test_what_is_written_is_read_alike(slots: Slots) -> None:
    assert decode(encode(slots)) == (*slots, ())


@given(st.text(st.sampled_from("aU1,:;-+0 9é"), max_size=40))
def test_any_text_is_read_or_gets_a_sentence(text: str) -> None:
    found = decode(text)
    assert isinstance(found, str) or decode(encode(found)) == (*found, ())


@pytest.mark.parametrize("uuid", ["a,b", "a:b", "a;b"])
def test_a_name_with_a_separator_is_refused(uuid: str) -> None:
    with pytest.raises(ValueError, match="must have none of"):
        DeviceRecord(uuid, "NVIDIA", 1, 1)
