"""A pod pays for what it uses; tests/cost.toml bounds how much that is.

Nothing of gangs, claims, reservations, node locks, nominations or lingering pods is called for a
pod with half a card while no such thing exists.
"""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

import kubeshare_py.scheduling
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import Bound, PodSeen
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.machine import MachineEvent
from tests.making import Driver, a_claim, a_pod, a_shape, whole
from tests.making.calls import counted

HALF_A_CARD = a_shape(a_claim(500))
#: Classes of which nothing runs for such a pod.
OF_OTHERS = (
    "ClaimedDevices",
    "ConstrainedMembers",
    "EvictionsInFlight",
    "ExtenderBinds",
    "GangCycles",
    "GangPlan",
    "GangRepair",
    "Gangs",
    "GroupEdits",
    "GroupObjects",
    "LingeringPods",
    "NodeLine",
    "Nominations",
    "Overcommitment",
    "PluginRetries",
    "PreBindLimits",
    "PreemptionHold",
    "RefusedBinds",
    "ReservedSnapshots",
    "Reservations",
    "Resumption",
    "StrayPods",
    "WaitingPlacements",
)
#: They follow pods once the first one waits for a lock, or for a PreBind plugin, or are asked once
#: pods have claims.
FOLLOWERS = (
    "NodeTurns.changed",
    "PreBindCycles.changed",
    "PreBindCycles.ask",
)


class CountingDriver(Driver):
    """Counts the functions that run while events are handled, by their qualified names."""

    def __init__(self, cards: dict[str, int]) -> None:
        self.calls: Counter[str] = Counter()
        super().__init__(cards)

    def tell(self, *events: MachineEvent) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            found, calls = counted(partial(self.machine.handle, event, self.now))
            effects += found
            self.calls += calls
        return effects


@pytest.fixture
def calls() -> Counter[str]:
    """Those for one pod with half a card: it is seen, placed, answered, and seen bound."""
    driver = CountingDriver({f"n{number}": 4 for number in range(20)})
    for number in range(5):
        way_of(driver, f"before{number}")
    driver.calls = Counter()
    way_of(driver, "counted")
    return driver.calls


def way_of(driver: Driver, name: str) -> None:
    pod = a_pod(name, HALF_A_CARD)
    driver.tell(PodSeen(pod))
    (bind,) = driver.decide()
    driver.answer(bind, Bound())
    driver.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))


def test_each_class_that_is_named_is_there() -> None:
    folder = Path(kubeshare_py.scheduling.__file__).parent
    text = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    assert [name for name in OF_OTHERS if f"\nclass {name}:" not in text] == []


@pytest.mark.slow
def test_a_plain_pod_calls_nothing_of_what_it_has_not(calls: Counter[str]) -> None:
    assert calls["PodCycles.run"] == calls["Assumer.place"] == 1
    called = {name for name in calls if name.partition(".")[0] in OF_OTHERS or name in FOLLOWERS}
    assert called == set()


def calls_where_nothing_fits(bound: int) -> Counter[str]:
    """The calls for the first pod that finds no place, beside so many bound pods."""
    driver = CountingDriver({"n1": 4})
    for number in range(bound):
        driver.tell(PodSeen(a_pod(f"bound{number}", HALF_A_CARD, node_name="n1")))
    driver.calls.clear()
    driver.tell(PodSeen(a_pod("large", a_shape(whole(8)))))
    assert driver.decide() == []
    return driver.calls


def test_the_first_pod_without_a_place_leads_to_no_look_at_all_pods() -> None:
    """What is counted of bound pods is counted as they come: all at once take a long turn."""
    calls_where_nothing_fits(1)  # what a process keeps about each class is found out once
    assert calls_where_nothing_fits(60) == calls_where_nothing_fits(6)
