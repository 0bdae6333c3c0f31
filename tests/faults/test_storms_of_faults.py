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

SEEDS = int(os.environ.get("KUBESHARE_STORM_SEEDS", "5"))
STEPS = int(os.environ.get("KUBESHARE_STORM_STEPS", "120"))
#: Loop seconds for everything to come right once all faults have ended.
SETTLES_S = 150.0
NODES = 'nodes: [{name: "n{n}", count: 6, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'


async def survive(folder: Path, seed: int) -> None:
    async with arena(folder, NODES) as found:
        storm = Storm(found, seed)
        found.proxy.weather = Weather(seed)
        now = asyncio.get_running_loop().time
        started = now()
        await storm.blow(STEPS)
        calmed = now()
        await storm.calm()
        settled = await found.books.until(lambda: not found.books.overlooked(), SETTLES_S)
        took = f"{calmed - started:.0f} s of storm, {now() - calmed:.0f} s until all was well"
        books, proxy = found.books, found.proxy
        if not settled or books.problems:
            pytest.fail(
                "\n".join(
                    [
                        f"seed {seed}: {books.problems} {books.overlooked()}",
                        *proxy.last,
                        *books.last,
                    ]
                )
            )
        counted = ", ".join(f"{kind} {count}" for kind, count in sorted(proxy.counts.items()))
        print(
            f"seed {seed}: {took}, {proxy.counts.total()} faults, {storm.made} pods, {storm.kills} kills, "
            f"{books.versions} versions, {books.gaps} gaps: {counted}"
        )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_storm_every_pod_that_fits_is_bound_and_no_card_was_ever_overfull(
    tmp_path: Path, seed: int
) -> None:
    run_fast(lambda: survive(tmp_path, seed))
