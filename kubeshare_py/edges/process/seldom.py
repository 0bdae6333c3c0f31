"""What happens again and again is worth a line of the log now and then, not each time."""

import time
from collections.abc import Callable

#: Between two lines about the same thing (s).
MINUTE_S = 60.0


class Seldom:
    """Says when a line about a thing is due: the first time, then after a minute at the earliest.

    Keys are few and fixed (paths, kinds of trouble): they are remembered for ever.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds; one that is never set."""
        self.clock = clock
        self._said_at: dict[str, float] = {}

    def is_due(self, key: str) -> bool:
        """Whether to say it; if so, it counts as said now."""
        now = self.clock()
        said_at = self._said_at.get(key)
        if said_at is not None and now - said_at < MINUTE_S:
            return False
        self._said_at[key] = now
        return True

    def heard_lately(self, key: str) -> bool:
        """Whether this was asked about the same thing within the last minute."""
        now = self.clock()
        asked_at = self._said_at.get(key)
        self._said_at[key] = now
        return asked_at is not None and now - asked_at < MINUTE_S
