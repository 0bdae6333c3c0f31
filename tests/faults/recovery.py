"""One random history, after whose end all must be well; prints what happened."""

import asyncio

import pytest

from tests.faults.chaos_cluster import ChaosCluster
from tests.faults.fault_plan import OF_REQUESTS, FaultPlan, Kind
from tests.faults.random_history import RandomHistory

#: With fewer cards pods are in each other's way.
CRAMPED = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 2, memory: 16GiB}]}]'
TIGHT = 'nodes: [{name: "n{n}", count: 3, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'
NODES = 'nodes: [{name: "n{n}", count: 6, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'

MANY_LATE = [*OF_REQUESTS, *[Kind.DELAYED] * 10]


async def expect_recovery(
    found: ChaosCluster, *, seed: int, faults: int, schedulers: int = 1
) -> None:
    """So many faults; then every pod that fits is bound, and none was lost or took too much."""
    history, reference, proxy = RandomHistory(found, seed, schedulers), found.reference, found.proxy
    proxy.fault_plan = (
        FaultPlan(seed) if schedulers == 1 else FaultPlan(seed, requests=0.5, kinds=MANY_LATE)
    )
    now = asyncio.get_running_loop().time
    started = now()
    releasing = found.group.create_task(history.release_finalizers())
    await history.run(faults)
    calmed = now()
    await history.end_faults()
    settled = await reference.until(
        lambda: (
            not reference.overlooked()
            and history.kept <= reference.names()
            and not reference.evictions.nominations()
        ),
        found.durations.settles_s,
    )
    releasing.cancel()
    wrong = [*reference.problems, *reference.evictions.undue(await found.events())]
    wrong += reference.evictions.unplanned(found.schedulers.said("preempt"))
    if not settled or wrong or reference.gaps:
        lost = sorted(history.kept - reference.names())
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
        f"after {now() - calmed:.0f} s; {history.made} pods, {history.kills} kills, "
        f"{history.pauses} pauses, {history.outages} outages, {found.schedulers.resigned} "
        f"resignations, {len(reference.evictions.evicted)} evictions, {reference.versions} "
        "versions: " + ", ".join(f"{kind} {count}" for kind, count in sorted(proxy.counts.items()))
    )
