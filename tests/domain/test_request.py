"""What a claim may say, and what it is charged."""

import pytest

from kubeshare_py.domain.request import GpuClaim
from tests.builders import a_claim, whole


@pytest.mark.parametrize("part", [-1, 1001])
def test_a_part_of_the_memory_is_within_the_card(part: int) -> None:
    with pytest.raises(ValueError, match="memory_milli"):
        GpuClaim(milli=1, memory_milli=part)


def test_memory_is_asked_for_in_one_way() -> None:
    with pytest.raises(ValueError, match="not both"):
        GpuClaim(milli=1, memory_milli=500, memory_bytes=1)


def test_a_part_of_the_memory_is_rounded_down_and_of_what_pods_may_hold() -> None:
    assert a_claim(100, memory_milli=333).bytes_of(1500, 1000, "") == 499
    assert a_claim(100).bytes_of(1500, 1000, "") == 100
    assert a_claim(100, memory_bytes=7).bytes_of(1500, 1000, "") == 7
    assert whole(1, memory_milli=333).bytes_of(1500, 1000, "") == 1500


def test_a_whole_card_is_charged_in_full() -> None:
    assert whole(1).charged_milli(2500, "") == 2500
    assert a_claim(700).charged_milli(2500, "") == 700
