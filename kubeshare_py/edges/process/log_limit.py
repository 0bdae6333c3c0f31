"""Limits how often repeated events are logged."""

import time
from collections.abc import Callable

#: Seconds between two lines about the same key.
MINUTE_S = 60.0


class LogLimit:
    """Says when a line about a key is due: the first time, then after a minute at the earliest.

    Keys are few and fixed (paths, kinds of trouble): they are kept for ever.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds, and never set."""
        self.clock = clock
        self._logged_at: dict[str, float] = {}

    def is_due(self, key: str) -> bool:
        """Whether to log it; if so, it counts as logged now."""
        now = self.clock()
        logged_at = self._logged_at.get(key)
        if logged_at is not None and now - logged_at < MINUTE_S:
            return False
        self._logged_at[key] = now
        return True

    def seen_lately(self, key: str) -> bool:
        """Whether this was called with the same key within the last minute."""
        now = self.clock()
        asked_at = self._logged_at.get(key)
        self._logged_at[key] = now
        return asked_at is not None and now - asked_at < MINUTE_S
