"""Pauses between attempts, for loops that go on for ever.

The rhythm is client-go's: 0.8 s, doubled, with jitter, reset after two minutes without failure. But
the longest pause is 8 s and its jitter, not 30 s: there is one scheduler and not a thousand
kubelets, and while it pauses it sees nothing.

tenacity retries one call until it succeeds. A loop like these has no such call: it goes on after
each pause, and only the time between failures tells whether it has recovered.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

FIRST_S, LONGEST_S, JITTER_S, HEALTHY_S = 0.8, 8.0, 0.8, 120.0

Sleep = Callable[[float], Awaitable[None]]


class Backoff:
    """Pauses that grow while failures follow each other."""

    def __init__(
        self,
        *,
        sleep: Sleep = asyncio.sleep,
        healthy_s: float = HEALTHY_S,
        rng: random.Random | None = None,
    ) -> None:
        """`healthy_s`: after so long (s) without failure the pauses start again at the first."""
        self._sleep = sleep
        self._healthy_s = healthy_s
        self._rng = rng or random.Random()
        self._next_s = FIRST_S
        self._last_end = float("-inf")

    async def pause(self, at_least_s: float = 0.0) -> None:
        """Wait after one more failure, and at least `at_least_s` (a Retry-After)."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._last_end >= self._healthy_s:
            self._next_s = FIRST_S
        pause_s = self._next_s + self._rng.uniform(0, JITTER_S)
        self._next_s = min(2 * self._next_s, LONGEST_S)
        await self._sleep(max(pause_s, at_least_s))
        self._last_end = loop.time()
