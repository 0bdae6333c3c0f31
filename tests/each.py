"""What a loop of assertions goes over; a loop over nothing would assert nothing, and pass."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def each(values: Iterable[T]) -> list[T]:
    """The values, in their order; an AssertionError if there are none."""
    found = list(values)
    assert found, "nothing to look at: what is asserted of each value was asserted of none"
    return found
