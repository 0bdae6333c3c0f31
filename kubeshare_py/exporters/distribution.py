"""A histogram that is cheap to add to, and rendered on demand."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence


class Distribution:
    """Observations by upper bounds (ascending), their number and sum."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """The value occurred; a value that equals a bound is within it."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[str, float]]:
        """(upper bound, observations up to it), the last bound being +Inf."""
        below = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            below += count
            # As Go writes it, so that series of kube-scheduler and ours add up by this label.
            yield str(bound).removesuffix(".0"), below


def doubling(first: float, count: int) -> tuple[float, ...]:
    """`count` bounds from `first` on, each twice the last one."""
    return tuple(first * 2**number for number in range(count))
