import pytest

from tests.each import each


def test_every_value_is_there_in_its_order() -> None:
    assert each(str(number) for number in (2, 1, 2)) == ["2", "1", "2"]


def test_nothing_is_no_proof_of_anything() -> None:
    with pytest.raises(AssertionError, match="asserted of none"):
        each(())
