"""Storms between scheduler and API server: no card over-committed, no pod lost, calm at the end.

KUBESHARE_STORM_SEEDS=100 runs more seeds, KUBESHARE_STORM_STEPS=500 makes each longer.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tests.faults.arena import arena
from tests.faults.fast_time import run_fast
from tests.faults.storm import Storm
from tests.faults.weather import Weather

SEEDS = int(os.environ.get("KUBESHARE_STORM_SEEDS", "4"))
STEPS = int(os.environ.get("KUBESHARE_STORM_STEPS", "120"))
#: Loop seconds for everything to come right once all faults have ended.
SETTLES_S = 600.0
NODES = 'nodes: [{name: "n{n}", count: 6, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'


async def survive(folder: Path, seed: int, schedulers: int = 1) -> None:
    async with arena(folder, NODES, elect=schedulers > 1) as found:
        storm, books, proxy = Storm(found, seed, schedulers), found.books, found.proxy
        proxy.weather = Weather(seed, requests=0.85 if schedulers == 1 else 0.5)
        now = asyncio.get_running_loop().time
        started = now()
        await storm.blow(STEPS)
        calmed = now()
        await storm.calm()
        settled = await books.until(lambda: not books.overlooked(), SETTLES_S)
        if not settled or books.problems:
            what = f"seed {seed}: {books.problems} {books.overlooked()}"
            pytest.fail("\n".join([what, *proxy.last, *books.last]))
        print(
            f"\nseed {seed}: {proxy.counts.total()} faults in {calmed - started:.0f} s, all well "
            f"after {now() - calmed:.0f} s; {storm.made} pods, {storm.kills} kills, "
            f"{storm.outages} outages, {found.resigned} resignations, {books.versions} versions "
            f"({books.gaps} gaps): "
            + ", ".join(f"{kind} {count}" for kind, count in sorted(proxy.counts.items()))
        )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_storm_every_pod_that_fits_is_bound_and_no_card_was_ever_overfull(
    tmp_path: Path, seed: int
) -> None:
    run_fast(lambda: survive(tmp_path, seed))


@pytest.mark.parametrize("seed", range(100, 100 + max(1, SEEDS // 5)))
def test_the_same_with_two_schedulers_and_late_requests_of_killed_leaders(
    tmp_path: Path, seed: int
) -> None:
    run_fast(lambda: survive(tmp_path, seed, schedulers=2))
