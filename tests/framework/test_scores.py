"""Normalisers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.framework.points import Normaliser
from kubeshare_py.framework.scores import maximum, reverse


@pytest.mark.parametrize(
    ("normaliser", "raw", "expected"),
    [
        (maximum, [0, 5, 10], [0, 50, 100]),
        (maximum, [0, 0], [0, 0]),
        (maximum, [3, 9, 7], [33, 100, 77]),
        (reverse, [0, 5, 10], [100, 50, 0]),
        (reverse, [0, 0], [100, 100]),
        (maximum, [], []),
        (reverse, [], []),
    ],
)
def test_examples(normaliser: Normaliser, raw: list[int], expected: list[int]) -> None:
    assert normaliser(np.array(raw, np.int64)).tolist() == expected


@pytest.mark.parametrize(("normaliser", "sign"), [(maximum, 1), (reverse, -1)])
@given(raw=st.lists(st.integers(0, 1 << 40), min_size=1))
def test_order_stays_and_answers_are_0_to_100(
    normaliser: Normaliser, sign: int, raw: list[int]
) -> None:
    points = normaliser(np.array(raw, np.int64)).tolist()
    assert all(0 <= point <= 100 for point in points)
    ordered = [point for _, point in sorted(zip(raw, points, strict=True))]
    assert ordered == sorted(ordered, reverse=sign < 0)
