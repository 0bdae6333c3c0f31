"""Floods of the extender's port by clients without rights: victims wait as if there were none."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.attacks.attack import Attack
from tests.attacks.raw import answered, request, status
from tests.attacks.waits import Victims, flooded
from tests.controlplane.processes import most_resident_bytes
from tests.scale import is_full

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

#: The chart's limit (bytes).
LIMIT = 2**30
#: What floods of each kind are answered with; 0 is a closed connection, of which a client that does
#: not read hears nothing.
ANSWERS = {
    "types": {400, 429},
    "ports": {400, 429},
    "amounts": {400, 429},
    "names": {200, 429},
    "small": {200, 429},
    "watch": {400},
    "nul": {400},
    "unknown": {200, 429},
    "reviews": {200, 429},
    "unread reviews": set[int](),
}


#: Those with which most was found; `make prove` tries all.
WORST = ("types", "names", "watch", "unread reviews")


@pytest.fixture
async def victims(attack: Attack) -> AsyncIterator[Victims]:
    async with Victims.of(attack) as found:
        yield found


@pytest.mark.parametrize("kind", ANSWERS if is_full() else WORST)
async def test_victims_hardly_wait_while_the_extender_is_flooded(
    kind: str, attack: Attack, victims: Victims, full_scale: bool
) -> None:
    number = 300 if full_scale else 60
    rest = await victims.wait(number // 2)
    port = attack.attacked_cluster.extender_port
    async with flooded(kind, port) as answers:
        await asyncio.sleep(1)
        waits = await victims.wait(number)
        assert status(await answered(port, request("GET", "/livez"))) == 200
    rest += await victims.wait(number // 2)
    peak = most_resident_bytes(attack.attacked_cluster.scheduler.pid)
    print(f"{kind}: {waits}; at rest {rest}; {peak / 2**20:.0f} MiB; {answers}")
    assert {*answers} & ANSWERS[kind] or not ANSWERS[kind], answers
    assert {*answers} <= {0, *ANSWERS[kind]}, answers
    waits.expect_little_beside(rest)
    assert peak < LIMIT
