"""A storm from its beginning to the end, when all must be well; it tells what happened."""

import asyncio

import pytest

from tests.faults.arena import Arena
from tests.faults.storm import Storm
from tests.faults.weather import OF_REQUESTS, Kind, Weather

#: With fewer cards pods are in each other's way.
CRAMPED = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 2, memory: 16GiB}]}]'
TIGHT = 'nodes: [{name: "n{n}", count: 3, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'
NODES = 'nodes: [{name: "n{n}", count: 6, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'

MANY_LATE = [*OF_REQUESTS, *[Kind.DELAYED] * 10]


async def survive(found: Arena, *, seed: int, faults: int, schedulers: int = 1) -> None:
    """So many faults; then every pod that fits is bound, and none was lost or took too much."""
    storm, reference, proxy = Storm(found, seed, schedulers), found.reference, found.proxy
    proxy.weather = (
        Weather(seed) if schedulers == 1 else Weather(seed, requests=0.5, kinds=MANY_LATE)
    )
    now = asyncio.get_running_loop().time
    started = now()
    letting_go = found.group.create_task(storm.let_go())
    await storm.blow(faults)
    calmed = now()
    await storm.calm()
    settled = await reference.until(
        lambda: (
            not reference.overlooked()
            and storm.kept <= reference.names()
            and not reference.evictions.nominations()
        ),
        found.pace.settles_s,
    )
    letting_go.cancel()
    wrong = [*reference.problems, *reference.evictions.undue(await found.events())]
    wrong += reference.evictions.unplanned(found.schedulers.said("preempt"))
    if not settled or wrong or reference.gaps:
        lost = sorted(storm.kept - reference.names())
        left = reference.evictions.nominations()
        what = (
            f"seed {seed}: {wrong} {reference.overlooked()}, {reference.gaps} gaps, lost {lost}, "
            f"{left}"
        )
        said = found.schedulers.last_words()
        pytest.fail("\n".join([what, *proxy.last, *reference.last, *said]))
    assert proxy.counts.total() >= faults
    print(
        f"\nseed {seed}: {proxy.counts.total()} faults in {calmed - started:.0f} s, all well "
        f"after {now() - calmed:.0f} s; {storm.made} pods, {storm.kills} kills, "
        f"{storm.pauses} pauses, {storm.outages} outages, {found.schedulers.resigned} "
        f"resignations, {len(reference.evictions.evicted)} evictions, {reference.versions} "
        "versions: " + ", ".join(f"{kind} {count}" for kind, count in sorted(proxy.counts.items()))
    )
