"""Storms between scheduler and API server: no card over-committed, no pod lost, calm at the end.

KUBESHARE_STORM_SEEDS=100 runs more seeds, KUBESHARE_STORM_FAULTS=2000 makes each longer.
"""

import asyncio
import math
import os
from functools import partial

import pytest

from tests.faults.arena import Arena
from tests.faults.conftest import Play
from tests.faults.storm import Storm
from tests.faults.weather import Weather

_GIVEN = os.environ.get("KUBESHARE_STORM_SEEDS", "")
SEEDS, OF_TWO = int(_GIVEN or 4), max(1, int(_GIVEN or 4) // 5)
#: Storms in true time, unless the number of seeds is given.
IN_TRUE_TIME = SEEDS if _GIVEN else 1
#: Of all storms with one scheduler together: each goes on until it had its part.
LEAST_FAULTS = 2000
FAULTS = max(math.ceil(LEAST_FAULTS / SEEDS), int(os.environ.get("KUBESHARE_STORM_FAULTS", "500")))
#: In true time, and with two schedulers: while none of them leads there is little to spoil.
SLOWER = 4
NODES = 'nodes: [{name: "n{n}", count: 6, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'


async def survive(found: Arena, *, seed: int, faults: int, schedulers: int = 1) -> None:
    storm, books, proxy = Storm(found, seed, schedulers), found.books, found.proxy
    proxy.weather = Weather(seed, requests=0.85 if schedulers == 1 else 0.5)
    now = asyncio.get_running_loop().time
    started = now()
    await storm.blow(faults)
    calmed = now()
    await storm.calm()
    settled = await books.until(
        lambda: not books.overlooked() and storm.kept <= books.names(), found.pace.settles_s
    )
    if not settled or books.problems or books.gaps:
        what = f"seed {seed}: {books.problems} {books.overlooked()} {storm.kept - books.names()}"
        said = found.schedulers.last_words()
        pytest.fail("\n".join([what, *proxy.last, *books.last, *said]))
    assert proxy.counts.total() >= faults
    print(
        f"\nseed {seed}: {proxy.counts.total()} faults in {calmed - started:.0f} s, all well "
        f"after {now() - calmed:.0f} s; {storm.made} pods, {storm.kills} kills, "
        f"{storm.pauses} pauses, {storm.outages} outages, {found.schedulers.resigned} "
        f"resignations, {books.versions} versions: "
        + ", ".join(f"{kind} {count}" for kind, count in sorted(proxy.counts.items()))
    )


def seeds(first: int, count: int) -> list[object]:
    """As many as asked for, in true time not all."""
    long = pytest.mark.embedded_only("takes ten times as long: KUBESHARE_STORM_SEEDS runs it")
    marks = [() if number < IN_TRUE_TIME else (long,) for number in range(count)]
    return [pytest.param(first + number, marks=mark) for number, mark in enumerate(marks)]


@pytest.mark.parametrize("seed", seeds(0, SEEDS))
def test_after_a_storm_every_pod_that_fits_is_bound_and_no_card_was_ever_overfull(
    play: Play, seed: int
) -> None:
    play(partial(survive, seed=seed, faults=FAULTS), NODES)


@pytest.mark.embedded_only("processes that stand still may bind late: see under the fence")
@pytest.mark.parametrize("seed", range(100, 100 + OF_TWO))
def test_the_same_with_two_schedulers_and_late_requests_of_killed_leaders(
    play: Play, seed: int
) -> None:
    play(partial(survive, seed=seed, faults=FAULTS // SLOWER, schedulers=2), NODES, elect=True)
