"""One leader after the other: what the next waits for and asks for, and what slips through."""

import asyncio

import pytest

from tests.controlplane.cleaning import ship_lease
from tests.faults.chaos_cluster import ChaosCluster, pod, share
from tests.faults.conftest import RunScenario
from tests.faults.fault_plan import Fault, FaultPlan, Kind
from tests.faults.late_binding import (
    LEASE,
    ONE_CARD,
    expect_eventually,
    expect_overcommitted,
    sent_in_time,
    sent_late,
)

LONG = pytest.mark.embedded_only("the server has no part in it, and true time is long")
NODE = "/api/v1/nodes/n1"
PODS = "/api/v1/pods"


async def expect_no_second_binding(found: ChaosCluster) -> None:
    reference = found.reference
    assert await sent_in_time(found) == 201
    assert await reference.until(lambda: reference.is_bound("first"), found.durations.settles_s)
    assert await reference.until(lambda: not reference.overlooked(), found.durations.settles_s)
    assert (reference.is_bound("second"), reference.problems) == (False, [])


@pytest.mark.slow
@LONG
def test_a_successor_waits_for_what_its_predecessor_sent_last(run_scenario: RunScenario) -> None:
    run_scenario(expect_no_second_binding, ONE_CARD, elect=True)


class SilentWatches(FaultPlan):
    """Watches of pods fall silent soon after their list."""

    def next(self, method: str, path: str, *, is_watch: bool) -> Fault | None:
        return Fault(kind=Kind.SILENT, amount=0.1) if is_watch and path == PODS else None


async def watches_pods(found: ChaosCluster) -> bool:
    return found.proxy.counts[Kind.SILENT] > 0


async def expect_listed_before_deciding(found: ChaosCluster) -> None:
    """The successor has not heard that the card was given to `urgent`; it knows `patient`."""
    reference, patch = found.reference, found.api_server.client.merge_patch
    found.schedulers.start(0)
    await patch(NODE, {"spec": {"unschedulable": True}})
    await found.create(pod("patient", share("0.7")))
    assert await reference.until(
        lambda: reference.reason("patient") != "", found.durations.settles_s
    )
    found.proxy.fault_plan = SilentWatches(0)
    found.schedulers.start(1)
    await expect_eventually(found, lambda: watches_pods(found))
    await asyncio.sleep(0.2 * found.durations.longest_watch_s)  # its watch is silent by then
    assert found.proxy.counts[Kind.SILENT] == 1
    await found.create(pod("urgent", share("0.7", priority="100")))
    await patch(NODE, {"spec": {"unschedulable": None}})
    assert await reference.until(lambda: reference.is_bound("urgent"), found.durations.settles_s)
    await found.schedulers.kill(0)
    found.proxy.end_faults()
    await found.create(pod("small", share("0.1")))
    assert await reference.until(lambda: reference.is_bound("small"), found.durations.settles_s)
    assert (reference.is_bound("patient"), reference.problems) == (False, [])


@pytest.mark.slow
@LONG
def test_a_successor_asks_what_it_may_not_have_heard_while_it_stood_by(
    run_scenario: RunScenario,
) -> None:
    run_scenario(expect_listed_before_deciding, ONE_CARD, elect=True)


async def expect_report_of_overcommit(found: ChaosCluster) -> None:
    reference = found.reference
    assert await sent_late(found) == 201
    assert await reference.until(lambda: reference.bound() == 2, found.durations.settles_s)
    [card] = reference.cards
    assert reference.problems[0] == f"{card} gives 1400 milli"
    await expect_overcommitted(found, 1)
    [said] = found.schedulers.said("overcommit")
    assert said["card"] == card
    assert "default/first, default/second" in said["message"]
    await found.delete("first")
    await expect_overcommitted(found, 0)


@pytest.mark.slow
def test_a_card_that_a_deposed_leader_gave_away_as_well_is_reported(
    run_scenario: RunScenario,
) -> None:
    run_scenario(expect_report_of_overcommit, ONE_CARD, elect=True)


async def expect_leader_despite_forged_lease(found: ChaosCluster) -> None:
    """What somebody wrote is as wrong as an API server stores it."""
    forged = {
        "leaseDurationSeconds": 2**31 - 1,
        "leaseTransitions": 2**31 - 1,
        "renewTime": "9999-12-31T23:59:59.999999Z",
    }
    await ship_lease(found.api_server.client)
    await found.api_server.client.merge_patch(LEASE, {"spec": forged})
    found.schedulers.start(0)
    await found.create(pod("first", share("0.7")))
    assert await found.reference.until(
        lambda: found.reference.is_bound("first"), found.durations.settles_s
    )

    async def is_mended() -> bool:
        spec = (await found.api_server.client.get(LEASE))["spec"]
        return bool(spec["leaseTransitions"] == 0 and spec["leaseDurationSeconds"] < 20)

    assert await is_mended()
    await found.api_server.client.merge_patch(LEASE, {"spec": {"leaseTransitions": 2**31 - 1}})
    await expect_eventually(found, is_mended)
    assert (found.schedulers.resigned, found.reference.problems) == (0, [])


@pytest.mark.slow
def test_numbers_that_somebody_forged_on_the_lease_keep_nobody_from_leading(
    run_scenario: RunScenario,
) -> None:
    run_scenario(expect_leader_despite_forged_lease, ONE_CARD, elect=True)
