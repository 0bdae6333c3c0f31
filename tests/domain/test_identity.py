"""Cards that are named by index are no cards' uuids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.identity import GpuUuid, card_at, index_of
from kubeshare_py.inventory.card_uuid import uuid_problem


@given(st.integers(0, 999_999_999))
def test_an_index_is_read_back_and_is_no_uuid(index: int) -> None:
    assert index_of(card_at(index)) == index
    assert uuid_problem(card_at(index))


@pytest.mark.parametrize(
    "text", ["GPU-1", "", "index", "index ", "index 03", "index -1", "index ٣"]
)
def test_other_texts_name_no_card_by_index(text: str) -> None:
    assert index_of(GpuUuid(text)) is None


def test_an_index_below_0_is_refused_and_a_huge_one_is_no_cards() -> None:
    with pytest.raises(ValueError, match="no card has the index -1"):
        card_at(-1)
    assert index_of(card_at(10**5000 // 10**4990)) is None
