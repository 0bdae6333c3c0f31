"""Amounts in words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.terminal.cards import asks, gib, gpus, memory, memory_pair, percent
from tests.making import GIB
from tests.terminal.views import a_pod_view

MIB = 1 << 20
AMOUNTS = st.integers(min_value=-(1 << 45), max_value=1 << 45)


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0.0"), (500, "0.5"), (333, "0.333"), (1000, "1.0"), (12_050, "12.05"), (-250, "-0.25")],
)
def test_shares_are_exact(milli: int, text: str) -> None:
    assert gpus(milli) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0.0 GiB"),
        (20 * GIB, "20.0 GiB"),
        (24_564 * MIB, "24.0 GiB"),
        (512 * MIB, "512 MiB"),
        (5000, "5000 B"),
        (-3 * GIB // 2, "-1.5 GiB"),
    ],
)
def test_memory_has_a_unit_that_suits_it(amount: int, text: str) -> None:
    assert memory(amount) == text


def test_a_little_less_than_nothing_is_not_minus_nothing() -> None:
    assert gib(-1) == "0.0"


@pytest.mark.parametrize(
    ("asked", "free", "pair"),
    [
        (30 * GIB, 20 * GIB, ("30.0 GiB", "20.0 GiB")),
        (20 * GIB, 20 * GIB - MIB, ("20480 MiB", "20479 MiB")),
        (2 * MIB, 2 * MIB - 1024, ("2048 KiB", "2047 KiB")),
        (GIB, GIB - 1, ("1073741824 B", "1073741823 B")),
    ],
)
def test_asked_and_free_get_the_coarsest_unit_that_tells_them_apart(
    asked: int, free: int, pair: tuple[str, str]
) -> None:
    assert memory_pair(asked, free) == pair


@given(AMOUNTS, AMOUNTS)
def test_different_amounts_never_look_the_same(asked: int, free: int) -> None:
    shown = memory_pair(asked, free)
    assert (shown[0] == shown[1]) == (asked == free)


def test_percent_is_cut_and_nothing_of_nothing_is_nothing() -> None:
    assert percent(199, 200) == 99
    assert percent(1, 0) == 0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"memory_milli": 333}, "0.5 GPU, 33.3% of its memory"),
        ({"count": 0}, "no GPU"),
        ({"memory_bytes": 20 * GIB}, "0.5 GPU, 20.0 GiB"),
        ({"milli": 1000}, "1.0 GPU"),
        ({"count": 2, "milli": 1000}, "2 GPUs"),
        ({"count": 2, "memory_bytes": GIB}, "2 x 0.5 GPU, 1.0 GiB each"),
    ],
)
def test_what_a_pod_asks_for_reads_like_a_sentence(fields: dict[str, Any], text: str) -> None:
    assert asks(a_pod_view(**fields)) == text
