"""HAMi-core's shared regions, as its own headers lay them out."""

import pytest

from kubeshare_py.node_agent.hami_core import MOST_BYTES, SharedRegion, read_region
from tests.node_agent.regions import (
    UUIDS,
    Made,
    full_region,
    made_regions,
    newest,
    with_numbers,
)

MIB = 2**20
OLDEST, _, _, SHIFTED, _, _ = made_regions()
#: Places of the newest layout (8f3a89c), by offsetof of a C compiler.
MINOR, CARDS, TAIL = "at_8", "at_56", 2008896
SLOT, USED = 1856, 8


def read(content: bytes) -> SharedRegion:
    found = read_region(content)
    assert isinstance(found, SharedRegion), found
    return found


@pytest.mark.parametrize("made", made_regions(), ids=lambda made: made.commit)
def test_the_numbers_of_each_layout_are_those_that_its_header_wrote_c6(made: Made) -> None:
    found = read(made.content)
    assert found.version == (made.version or "0")
    assert (found.processes, found.priority, found.recent_kernel) == (2, 1, 2)
    assert found.is_limiting
    assert found.last_kernel_at == (1795000000 if made.version else None)
    assert [one.uuid for one in found.cards] == [*UUIDS]
    assert [one.limit_bytes // MIB for one in found.cards] == [3000, 1000]
    assert [one.core_limit for one in found.cards] == [30, 30]
    first, second = found.cards
    assert (first.context_bytes, first.module_bytes) == (4_000_002, 4_000_004)
    assert (first.buffer_bytes, first.used_bytes) == (4_000_006, 12_000_012)
    assert second.used_bytes == 12_600_012
    assert first.busy_percent == (None if made.commit == OLDEST.commit else 40)


def test_a_number_below_nothing_is_not_known() -> None:
    """HAMi shows 17 TB then (#1181)."""
    place = SLOT + USED + 4 * 8
    found = read(with_numbers(newest(), "=q", **{f"at_{place}": -4096}))
    assert found.cards[0].used_bytes is None
    assert found.cards[0].context_bytes == 4_000_002
    assert found.cards[1].used_bytes == 12_600_012


def test_utilisation_is_not_known_of_processes_that_were_not_found_on_the_node() -> None:
    """HAMi shows 0."""
    hidden = {f"at_{SLOT + number * 1960 + 4}": 0 for number in (0, 2)}
    found = read(with_numbers(newest(), "=i", **hidden))
    assert [one.busy_percent for one in found.cards] == [None, None]
    found = read(with_numbers(newest(), "=i", **{f"at_{SLOT + 4}": 0}))
    assert found.cards[0].busy_percent == 30


def test_utilisation_is_not_known_without_a_core_limit_unless_nothing_runs_1864() -> None:
    limits = {"at_1728": 0, "at_1736": 0}
    assert read(with_numbers(newest(), "=q", **limits)).cards[0].busy_percent is None
    idle = with_numbers(with_numbers(newest(), "=q", **limits), "=i", **{f"at_{TAIL}": 0})
    assert read(idle).cards[0].busy_percent == 0


def test_a_full_region_is_read_and_what_its_processes_use_only_when_asked() -> None:
    found = read(full_region())
    assert (found.processes, len(found.cards)) == (1024, 16)
    total = 1024 * 2**30 + 1024 * 1025 // 2
    assert {(one.used_bytes, one.context_bytes, one.busy_percent) for one in found.cards} == {
        (total, total, 1024)
    }
    without = read_region(full_region(), with_use=False)
    assert isinstance(without, SharedRegion)
    assert [one.uuid for one in without.cards] == [one.uuid for one in found.cards]
    assert {(one.used_bytes, one.busy_percent) for one in without.cards} == {(None, None)}
    assert (without.processes, without.tail) == (found.processes, found.tail)


def test_a_card_whose_name_is_not_written_yet_is_left_out() -> None:
    content = newest().replace(UUIDS[0].encode(), b"\0" * 40)
    assert [one.number for one in read(content).cards] == [1]
    odd = newest().replace(UUIDS[0].encode(), b"\xff" * 40)
    assert [one.uuid for one in read(odd).cards] == [UUIDS[1]]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not initialised"),
        (b"abc", "not initialised"),
        (b"\0" * MOST_BYTES, "not initialised"),
        (newest()[:-1], "2008952 bytes"),
        (newest() + b"\0", "2008954 bytes"),
        (newest()[:64], "64 bytes"),
        (with_numbers(newest(), "=i", **{MINOR: 3}), "version 1.3 is not known"),
        (with_numbers(newest(), "=i", at_4=2), "version 2.2 is not known"),
        (with_numbers(SHIFTED.content, "=i", **{MINOR: 2}), "version 1.2 is not known"),
        (with_numbers(newest(), "=q", **{CARDS: 17}), "17 cards and 3 processes"),
        (with_numbers(newest(), "=i", **{f"at_{TAIL}": -1}), "2 cards and -1 processes"),
        (with_numbers(newest(), "=i", **{f"at_{TAIL}": 1025}), "2 cards and 1025 processes"),
    ],
)
def test_what_is_no_region_is_said_and_nothing_is_read(content: bytes, why: str) -> None:
    found = read_region(content)
    assert isinstance(found, str)
    assert why in found
