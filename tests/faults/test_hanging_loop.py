"""A leader whose event loop stands still: for a while it goes on leading, and for longer not."""

import asyncio
from functools import partial

import pytest

from kubeshare_py.configuration.leader_election import seconds
from tests.faults.chaos_cluster import ChaosCluster, pod, share
from tests.faults.conftest import RunScenario
from tests.faults.late_binding import LEASE, expect_eventually
from tests.faults.schedulers import Processes

CARDS = "nodes: [{name: n1, gpus: [{model: T4, count: 4, memory: 16GiB}]}]"
#: Of the renew deadline.
NEARLY, FAR_TOO_LONG = 0.95, 4.0


def processes(found: ChaosCluster) -> Processes:
    assert isinstance(found.schedulers, Processes)
    return found.schedulers


async def is_led(found: ChaosCluster) -> str:
    """One leads and has bound a pod; another stands by. Answers who leads."""
    found.schedulers.start(0)
    await found.create(pod("first", share("0.7")))
    assert await found.reference.until(
        lambda: found.reference.is_bound("first"), found.durations.settles_s
    )
    found.schedulers.start(1)
    await expect_eventually(found, lambda: stands_by(found))
    return await holder(found)


async def stands_by(found: ChaosCluster) -> bool:
    return bool(processes(found).said("stands by"))


async def holder(found: ChaosCluster) -> str:
    spec = (await found.api_server.client.get(LEASE))["spec"]
    return f"{spec['holderIdentity']}/{spec['leaseTransitions']}"


async def renewed_at(found: ChaosCluster) -> str:
    return str((await found.api_server.client.get(LEASE))["spec"]["renewTime"])


async def is_renewed(found: ChaosCluster, since: str) -> bool:
    return await renewed_at(found) > since


async def expect_leader_stays(found: ChaosCluster) -> None:
    term = await is_led(found)
    hang_s = NEARLY * seconds(found.durations.election.renew_deadline)
    for number in range(2):
        processes(found).hang(0, hang_s)
        began = await renewed_at(found)
        await found.create(pod(f"meanwhile-{number}", share("0.7")))
        await asyncio.sleep(0.7 * hang_s)
        await expect_eventually(found, partial(is_renewed, found, began))
        assert not found.reference.is_bound(f"meanwhile-{number}")  # it hangs, and renews
        assert await found.reference.until(
            lambda: not found.reference.overlooked(), found.durations.settles_s
        )
    assert (await holder(found), found.schedulers.resigned, found.reference.problems) == (
        term,
        0,
        [],
    )


@pytest.mark.slow
def test_a_leader_whose_loop_takes_nearly_the_renew_deadline_goes_on_leading(
    run_scenario: RunScenario,
) -> None:
    run_scenario(expect_leader_stays, CARDS, elect=True, processes=True)


async def expect_successor(found: ChaosCluster) -> None:
    reference, term = found.reference, await is_led(found)
    processes(found).hang(0, FAR_TOO_LONG * seconds(found.durations.election.lease_duration))
    for number in range(6):
        await found.create(pod(f"half-{number}", share("0.5")))
    assert await reference.until(lambda: not reference.overlooked(), found.durations.settles_s)
    assert await holder(found) != term

    async def has_ended() -> bool:
        return found.schedulers.resigned == 1

    await expect_eventually(found, has_ended)
    [hung] = found.schedulers.said("hangs")
    assert "_hang (" in hung["where"]
    [lost] = found.schedulers.said("lost")
    assert "taken over by" in lost["message"] or "the event loop hangs" in lost["message"]
    assert (reference.bound(), reference.problems) == (7, [])


@pytest.mark.long
def test_a_leader_whose_loop_hangs_loses_the_lease_and_nothing_is_bound_twice(
    run_scenario: RunScenario,
) -> None:
    run_scenario(expect_successor, CARDS, elect=True, processes=True)
