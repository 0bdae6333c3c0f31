"""How long loops pause while failures follow each other."""

import random

from kubeshare_py.edges.process.backoff import Backoff
from tests.edges.bare_server import NoSleep


async def test_pauses_double_up_to_the_longest_with_some_jitter() -> None:
    sleep = NoSleep()
    backoff = Backoff(sleep=sleep, rng=random.Random(1))
    for _ in range(7):
        await backoff.pause()
    least = [0.8, 1.6, 3.2, 6.4, 8.0, 8.0, 8.0]
    jitter = [asked - first for asked, first in zip(sleep.asked, least, strict=True)]
    assert all(0 <= one <= 0.8 for one in jitter)
    assert len(set(jitter)) == 7


async def test_after_a_healthy_time_they_start_again() -> None:
    sleep = NoSleep()
    backoff = Backoff(sleep=sleep, healthy_s=0.0)
    for _ in range(5):
        await backoff.pause()
    assert max(sleep.asked) <= 1.6


async def test_a_server_may_ask_for_a_longer_pause_and_not_for_a_shorter_one() -> None:
    sleep = NoSleep()
    backoff = Backoff(sleep=sleep)
    await backoff.pause(30.0)
    await backoff.pause(0.1)
    assert sleep.asked[0] == 30.0
    assert 1.6 <= sleep.asked[1] <= 2.4
