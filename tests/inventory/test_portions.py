"""Long readings are taken in bit by bit."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.portions import portions
from tests.builders import some_gpus


@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.booleans())
def test_portions_say_together_what_the_reading_says(
    counts: list[int], most: int, more: bool
) -> None:
    changed = tuple(
        (NodeName(f"n{number}"), some_gpus(f"n{number}", count))
        for number, count in enumerate(counts)
    )
    read = InventoryRead(changed, (NodeName("silent"),), more)
    *firsts, last = portions(read, most)
    assert tuple(node for part in (*firsts, last) for node in part.changed) == changed
    assert (last.silent, last.more) == (read.silent, more)
    assert all(part.more and not part.silent for part in firsts)
    for part in (*firsts, last):
        assert sum(max(len(cards), 1) for _, cards in part.changed[:-1]) < most
