"""Names of nodes in the order that people expect."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.views.natural_order import natural_order


def test_numbers_count_as_numbers() -> None:
    names = ["node-10", "node-2", "node-1b", "a100-1", "node-1", "node", "10", "9"]
    expected = ["9", "10", "a100-1", "node", "node-1", "node-1b", "node-2", "node-10"]
    assert sorted(names, key=natural_order) == expected


@given(st.lists(st.text(alphabet="ab01.-", max_size=6), unique=True))
def test_any_two_names_have_one_order(names: list[str]) -> None:
    backwards = [*reversed(names)]
    assert sorted(names, key=natural_order) == sorted(backwards, key=natural_order)
    assert len({natural_order(name) for name in names}) == len(names)
