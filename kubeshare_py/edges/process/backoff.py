"""Pauses between attempts, for loops that go on for ever.

The rhythm is client-go's: 0.8 s, doubled, with jitter, reset after two minutes without failure. But
the longest pause is 8 s, not 30 s: there is one scheduler and not a thousand kubelets, and while it
pauses it sees nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable

import tenacity
from tenacity.wait import wait_base

FIRST_S, LONGEST_S, JITTER_S, HEALTHY_S = 0.8, 8.0, 0.8, 120.0

Sleep = Callable[[float], Awaitable[None]]


class Backoff:
    """Pauses that grow while failures follow each other."""

    def __init__(
        self,
        *,
        wait: wait_base | None = None,
        sleep: Sleep = asyncio.sleep,
        healthy_s: float = HEALTHY_S,
    ) -> None:
        growing = tenacity.wait_exponential(multiplier=FIRST_S, exp_base=2, max=LONGEST_S)
        self._wait = wait or growing + tenacity.wait_random(0, JITTER_S)
        self._sleep = sleep
        self._healthy_s = healthy_s
        self._last_end = float("-inf")
        self._failures = tenacity.RetryCallState(tenacity.AsyncRetrying(), None, (), {})
        self._failures.attempt_number = 0

    async def pause(self, at_least_s: float = 0.0) -> None:
        """Wait after one more failure, and at least `at_least_s` (a Retry-After)."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._last_end >= self._healthy_s:
            self._failures.attempt_number = 0
        self._failures.attempt_number += 1
        await self._sleep(max(self._wait(self._failures), at_least_s))
        self._last_end = loop.time()
