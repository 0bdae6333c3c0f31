"""One leader after the other: what the next waits for and asks for, and what slips through."""

import asyncio

import pytest

from tests.controlplane.cleaning import ship_lease
from tests.faults.arena import Arena, pod, share
from tests.faults.conftest import Play
from tests.faults.late_binding import (
    LEASE,
    ONE_CARD,
    expect_eventually,
    expect_overcommitted,
    sent_in_time,
    sent_late,
)
from tests.faults.weather import Fault, Kind, Weather

LONG = pytest.mark.embedded_only("the server has no part in it, and true time is long")
NODE = "/api/v1/nodes/n1"
PODS = "/api/v1/pods"


async def is_in_time(found: Arena) -> None:
    reference = found.reference
    assert await sent_in_time(found) == 201
    assert await reference.until(lambda: reference.is_bound("first"), found.pace.settles_s)
    assert await reference.until(lambda: not reference.overlooked(), found.pace.settles_s)
    assert (reference.is_bound("second"), reference.problems) == (False, [])


@LONG
def test_a_successor_waits_for_what_its_predecessor_sent_last(play: Play) -> None:
    play(is_in_time, ONE_CARD, elect=True)


class Deaf(Weather):
    """Watches of pods fall silent soon after their list."""

    def next(self, method: str, path: str, *, is_watch: bool) -> Fault | None:
        return Fault(kind=Kind.SILENT, amount=0.1) if is_watch and path == PODS else None


async def is_listed(found: Arena) -> None:
    """The successor has not heard that the card was given to `urgent`; it knows `patient`."""
    reference, patch = found.reference, found.ground.client.merge_patch
    found.schedulers.start(0)
    await patch(NODE, {"spec": {"unschedulable": True}})
    await found.create(pod("patient", share("0.7")))
    assert await reference.until(lambda: reference.reason("patient") != "", found.pace.settles_s)
    found.proxy.weather = Deaf(0)
    found.schedulers.start(1)
    await asyncio.sleep(0.2 * found.pace.longest_watch_s)
    assert found.proxy.counts[Kind.SILENT] == 1
    await found.create(pod("urgent", share("0.7", priority="100")))
    await patch(NODE, {"spec": {"unschedulable": None}})
    assert await reference.until(lambda: reference.is_bound("urgent"), found.pace.settles_s)
    await found.schedulers.kill(0)
    found.proxy.calm()
    await found.create(pod("small", share("0.1")))
    assert await reference.until(lambda: reference.is_bound("small"), found.pace.settles_s)
    assert (reference.is_bound("patient"), reference.problems) == (False, [])


@LONG
def test_a_successor_asks_what_it_may_not_have_heard_while_it_stood_by(play: Play) -> None:
    play(is_listed, ONE_CARD, elect=True)


async def is_reported(found: Arena) -> None:
    reference = found.reference
    assert await sent_late(found) == 201
    assert await reference.until(lambda: reference.bound() == 2, found.pace.settles_s)
    [card] = reference.cards
    assert reference.problems[0] == f"{card} gives 1400 milli"
    await expect_overcommitted(found, 1)
    [said] = found.schedulers.said("overcommit")
    assert said["card"] == card
    assert "default/first, default/second" in said["message"]
    await found.delete("first")
    await expect_overcommitted(found, 0)


def test_a_card_that_a_deposed_leader_gave_away_as_well_is_reported(play: Play) -> None:
    play(is_reported, ONE_CARD, elect=True)


async def is_led_all_the_same(found: Arena) -> None:
    """What somebody wrote is as wrong as an API server stores it."""
    forged = {
        "leaseDurationSeconds": 2**31 - 1,
        "leaseTransitions": 2**31 - 1,
        "renewTime": "9999-12-31T23:59:59.999999Z",
    }
    await ship_lease(found.ground.client)
    await found.ground.client.merge_patch(LEASE, {"spec": forged})
    found.schedulers.start(0)
    await found.create(pod("first", share("0.7")))
    assert await found.reference.until(
        lambda: found.reference.is_bound("first"), found.pace.settles_s
    )

    async def is_mended() -> bool:
        spec = (await found.ground.client.get(LEASE))["spec"]
        return bool(spec["leaseTransitions"] == 0 and spec["leaseDurationSeconds"] < 20)

    assert await is_mended()
    await found.ground.client.merge_patch(LEASE, {"spec": {"leaseTransitions": 2**31 - 1}})
    await expect_eventually(found, is_mended)
    assert (found.schedulers.resigned, found.reference.problems) == (0, [])


def test_numbers_that_somebody_forged_on_the_lease_keep_nobody_from_leading(play: Play) -> None:
    play(is_led_all_the_same, ONE_CARD, elect=True)
