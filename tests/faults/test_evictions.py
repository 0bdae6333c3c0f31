"""Evictions when requests fail: whoever must go goes, and nobody goes for nothing."""

import random
from collections import Counter
from functools import partial

import pytest

from tests.faults.chaos_cluster import ChaosCluster, pod, share
from tests.faults.conftest import RunScenario
from tests.faults.fault_plan import FaultPlan
from tests.faults.recovery import TIGHT
from tests.faults.reference_model import ReferenceModel
from tests.scale import seeds

SEEDS = 4
CARDS, NEWCOMERS = 12, 60
#: Reads of pods, too.
DELETIONS = "/pods/[^/]+$"


async def create_gang(
    found: ChaosCluster, name: str, size: int, asked: str, rank: str
) -> list[str]:
    group = {"group_name": name, "group_headcount": str(size), "group_threshold": "1.0"}
    for number in range(size):
        labels = share(asked, **group)
        await found.create(pod(f"{name}-{number}", labels, priorityClassName=rank))
    return [f"{name}-{number}" for number in range(size)]


async def expect_settled(found: ChaosCluster) -> None:
    reference, left = found.reference, found.reference.evictions
    settled = await reference.until(
        lambda: not reference.overlooked() and reference.is_settled(), found.durations.settles_s
    )
    wrong = [*reference.problems, *left.undue(await found.events())]
    wrong += left.unplanned(found.schedulers.said("preempt"))
    assert settled, (reference.overlooked(), left.torn(), left.nominations())
    assert not wrong


async def expect_whole_gang_evicted(found: ChaosCluster) -> None:
    """Some requests fail: of a gang some members leave soon, others must be asked again."""
    found.schedulers.start()
    for number in range(CARDS // 4):
        await create_gang(found, f"gang-{number}", 4, "1.0", "low")
    assert await found.reference.until(
        lambda: found.reference.bound() == CARDS, found.durations.settles_s
    )
    found.proxy.fault_plan = FaultPlan(5, requests=1.0, watches=0.0, where=DELETIONS)
    await found.create(pod("urgent", share("1.0"), priorityClassName="high"))
    assert await found.reference.until(
        lambda: found.reference.is_bound("urgent"), found.durations.settles_s
    )
    await expect_settled(found)
    assert len(found.reference.evictions.evicted) == 4


@pytest.mark.slow
def test_a_gang_that_gives_way_goes_whole_whatever_is_answered(run_scenario: RunScenario) -> None:
    run_scenario(expect_whole_gang_evicted, TIGHT, preempts=True)


async def expect_each_eviction_needed(found: ChaosCluster, *, seed: int) -> None:
    """Nothing goes wrong, nobody deletes anything, no pod ends, and one comes after the other."""
    rng, reference = random.Random(seed), found.reference
    found.schedulers.start()
    for number in range(NEWCOMERS):
        # The first ones take cards that they may have to give up.
        rank = rng.choice(["low", "middle", "high", "polite"]) if number >= 6 else "low"
        if rng.random() < 0.2:
            new = await create_gang(found, f"gang-{number}", rng.choice([2, 3]), "1.0", rank)
        else:
            asked = rng.choice(["0.3", "0.5", "1.0", "2"])
            new = [f"pod-{number}"]
            await found.create(pod(new[0], share(asked), priorityClassName=rank))
        assert await reference.until(partial(_are_there, reference, new), found.durations.settles_s)
        await expect_settled(found)
    assert reference.evictions.evicted
    assert reference.evictions.in_vain(await found.events()) == []
    assert reference.fed() == []
    plans = Counter(line["pod"] for line in found.schedulers.said("preempt"))
    assert [name for name, count in plans.items() if count > 1] == [], "what was freed went away"


def _are_there(reference: ReferenceModel, names: list[str]) -> bool:
    return {*names} <= reference.names()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_without_faults_each_eviction_is_for_somebody_who_gets_the_place(
    run_scenario: RunScenario, seed: int
) -> None:
    run_scenario(partial(expect_each_eviction_needed, seed=seed), TIGHT, preempts=True)
