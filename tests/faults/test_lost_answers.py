"""Answers to Bindings are lost by the hundred, and the slots of unanswered ones never run out."""

import pytest

from tests.faults.chaos_cluster import ChaosCluster, pod, share
from tests.faults.conftest import RunScenario
from tests.faults.fault_plan import ANSWERS_LOST, FaultPlan
from tests.faults.recovery import NODES

#: Fifteen on each card; all stay, because a pod's end frees its slot in any case.
PODS, MIN_LOST = 360, 300


async def expect_all_bound(found: ChaosCluster) -> None:
    reference, proxy = found.reference, found.proxy
    proxy.fault_plan = FaultPlan(
        3, requests=0.9, watches=0.0, where="/binding$", kinds=ANSWERS_LOST
    )
    found.schedulers.start()
    for number in range(PODS):
        await found.create(pod(f"pod-{number}", share("0.05")))
    settled = await reference.until(lambda: reference.bound() == PODS, found.durations.settles_s)
    lost = proxy.counts.total()
    assert settled, f"{reference.bound()} are bound, {lost} answers were lost"
    assert lost >= MIN_LOST
    assert not reference.problems
    print(f"\n{lost} answers lost")


@pytest.mark.slow
def test_hundreds_of_lost_answers_hold_up_nobody(run_scenario: RunScenario) -> None:
    run_scenario(expect_all_bound, NODES)
