"""A leader is killed whose last Binding arrives when its successor has given the card away."""

import asyncio
from contextlib import suppress

import aiohttp

from tests.faults.arena import Arena, pod, share

ONE_CARD = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"
AGAIN_S = 0.2
OVERCOMMITTED = "kubeshare_overcommitted_cards"


async def sent_late(found: Arena) -> int:
    """What the API server said to it. `second` has the card, which `first` was to have."""
    held = found.proxy.hold("POST", "/first/binding$")
    found.schedulers.start(0)
    await found.create(pod("first", share("0.7")))
    async with asyncio.timeout(found.pace.settles_s):
        await held.arrived.wait()
    await found.create(pod("second", share("0.7", priority="100")))
    await found.schedulers.kill(0)
    found.schedulers.start(1)
    assert await found.books.until(lambda: found.books.bound() == 1, found.pace.settles_s)
    held.let_go.set()
    return await held.answered


async def until_overcommitted(found: Arena, cards: int) -> None:
    """Ask the leader now and then, until it says that so many cards are."""
    async with asyncio.timeout(found.pace.settles_s):
        while True:
            # On a busy machine it may lose the Lease; it is back some seconds later.
            with suppress(aiohttp.ClientError):
                if (await found.metrics())[OVERCOMMITTED] == cards:
                    return
            await asyncio.sleep(AGAIN_S)
