"""Amounts of memory as people write them into files."""

import pytest

from kubeshare_py.documents.typed import memory_bytes


@pytest.mark.parametrize(
    ("written", "found"),
    [
        *((42949672960, 40 * 2**30), ("40Gi", 40 * 2**30), ("40GiB", 40 * 2**30)),
        *((" 40960 MiB ", 40 * 2**30), ("16GB", 16 * 10**9), ("1.5GiB", 3 * 2**29)),
        *(("17", 17), ("17B", 17), ("5kB", 5000), ("1e3", 1000), ("2Pi", 2**51)),
    ],
)
def test_memory_is_a_quantity_of_whole_bytes(written: int | str, found: int) -> None:
    assert memory_bytes(written) == found


@pytest.mark.parametrize(
    "written", ["", "GiB", "much", "4 0GiB", "40 Gi B", "40KB", "40BB", "500m", "1.5", "9" * 5000]
)
def test_anything_else_is_refused_in_a_short_sentence(written: str) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory such as 40GiB") as refused:
        memory_bytes(written)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize("written", [0, -1, "0GiB", "-5Gi"])
def test_a_card_has_some_memory(written: int | str) -> None:
    with pytest.raises(ValueError, match="is not more than 0 bytes"):
        memory_bytes(written)
