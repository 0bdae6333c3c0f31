"""A leader is killed while its last Binding is on its way: when does that arrive?"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiohttp

from kubeshare_py.edges.scheduler.leader_lease import leases_path
from tests.faults.chaos_cluster import ChaosCluster, pod, share
from tests.faults.held_request import Hold

ONE_CARD = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"
OVERCOMMITTED = "kubeshare_overcommitted_cards"
LEASE = f"{leases_path('kube-system')}/kubeshare-scheduler"
AGAIN_S = 0.2
#: Shorter than what the API server may take for a Binding.
LATER_S = 4.0


async def under_way(found: ChaosCluster) -> Hold:
    """The Binding of `first`, whose leader is dead; `second` is more urgent and wants the card."""
    held = found.proxy.hold("POST", "/first/binding$")
    found.schedulers.start(0)
    await found.create(pod("first", share("0.7")))
    async with asyncio.timeout(found.durations.settles_s):
        await held.arrived.wait()
    await found.create(pod("second", share("0.7", priority="100")))
    await found.schedulers.kill(0)
    return held


async def sent_late(found: ChaosCluster) -> int:
    """It arrives when the successor has given the card to `second`; what the API server says."""
    held = await under_way(found)
    found.schedulers.start(1)
    assert await found.reference.until(
        lambda: found.reference.bound() == 1, found.durations.settles_s
    )
    held.release.set()
    return await held.answered


async def sent_in_time(found: ChaosCluster) -> int:
    """It arrives some time after the successor acquired the Lease; what the API server says."""
    held = await under_way(found)
    before = await holder(found)
    found.schedulers.start(1)

    async def acquired() -> bool:
        return await holder(found) != before

    await expect_eventually(found, acquired)
    await asyncio.sleep(LATER_S)
    held.release.set()
    return await held.answered


async def holder(found: ChaosCluster) -> str:
    """Who has the Lease."""
    lease = await found.api_server.client.get(LEASE)
    return str(lease["spec"]["holderIdentity"])


async def expect_overcommitted(found: ChaosCluster, cards: int) -> None:
    """Wait until the leader says that so many cards are."""

    async def said() -> bool:
        # On a busy machine it may lose the Lease; it is back some seconds later.
        with suppress(aiohttp.ClientError):
            return (await found.metrics())[OVERCOMMITTED] == cards
        return False

    await expect_eventually(found, said)


async def expect_eventually(found: ChaosCluster, wanted: Callable[[], Awaitable[bool]]) -> None:
    """Ask now and then."""
    async with asyncio.timeout(found.durations.settles_s):
        while True:
            if await wanted():
                return
            await asyncio.sleep(AGAIN_S)
