"""How much is tried: tests/scale.py."""

import pytest
from hypothesis import settings

from tests.scale import Scale, examples, is_full, parse, scaled, seeds


def test_a_twentieth_is_tried_unless_more_is_asked_for() -> None:
    small, full = parse("small", None), parse("full", None)
    assert (small.scaled(400), full.scaled(400), parse("10", None).scaled(400)) == (20, 400, 4000)
    assert (small.seeds(12), full.seeds(3)) == ([0], [0, 1, 2])


def test_one_of_each_kind_is_always_tried() -> None:
    assert Scale(0.001).seeds(12, first=200) == [200]
    assert (Scale(0.001).scaled(400, 10), Scale(0.001).scaled(3, 10)) == (10, 3)


def test_a_seed_chooses_others_the_same_ones_each_time() -> None:
    one, again, another = (parse("full", seed) for seed in ("7", "7", "8"))
    assert one.seeds(4) == again.seeds(4)
    assert len({*one.seeds(4), *one.seeds(4, first=200), *another.seeds(4)}) == 12


@pytest.mark.parametrize("scale", ["0", "-1", "inf", "nan", "big", ""])
def test_what_is_no_scale_is_refused(scale: str) -> None:
    with pytest.raises(ValueError, match=r"scale|float"):
        parse(scale, None)


def test_this_run_has_chosen_one() -> None:
    assert examples(1000).max_examples == scaled(1000, 10)
    assert len(seeds(20)) == scaled(20)
    assert is_full() == (scaled(1000) >= 1000)
    assert settings().deadline is None
