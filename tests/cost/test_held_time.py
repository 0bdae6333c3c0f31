"""What the scheduler's loop pays for counting how long cards are held, in function calls."""

import pytest

from benchmarks import cost
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.events import Event, NodeSeen, ObjectSeen, TimePassed
from kubeshare_py.scheduling.explain.held_time import FollowedHoldings, HeldTime
from kubeshare_py.scheduling.machine import MachineEvent
from tests.making import a_node
from tests.making.devices import a_claim_of, device_driver

#: The calls for a pod's whole life: seen, decided, answered, seen bound, and gone.
CEILINGS = {"half a card": 40, "without GPU": 22, "gang of 4": 39}


class Followed(cost.Pods):
    """Pods whose holdings are counted; `counted` are the calls of that."""

    def __init__(self, kind: str) -> None:
        self.counted = cost.Count()
        self.held: HeldTime | None = None
        super().__init__(40, cost.KINDS[kind])
        self.held = HeldTime(self.machine)
        self.held.begin(self.now)

    def _handle(self, event: Event) -> list[Effect]:
        effects = super()._handle(event)
        held = self.held
        assert held is not None
        self.counted.of(lambda: held.handled(event, lambda: self.now))
        # One call is that of the lambda.
        self.counted.calls -= self.counted.is_on
        return effects


@pytest.mark.parametrize("kind", CEILINGS)
def test_a_pod_costs_no_more_calls_than_it_may(kind: str) -> None:
    load = Followed(kind)
    for _ in range(cost.WARM_UP):
        load.come()
    before, load.counted.is_on = load.placed, True
    for _ in range(40):
        load.come()
    assert round(load.counted.calls / (load.placed - before)) <= CEILINGS[kind]
    assert load.held is not None
    assert bool(load.held.seconds(load.now)) is (kind != "without GPU")


class Claims:
    """Claims that hold the cards of one node, and what a look at an event costs."""

    def __init__(self, many: int) -> None:
        self.driver = device_driver({"n1": 1, "n2": many})
        self.followed = FollowedHoldings(self.driver.machine)
        for at in range(many):
            self.calls(ObjectSeen(a_claim_of(f"gpu-{at}", node="n2", name=f"c{at}")))
        assert len(self.followed.now) == many

    def calls(self, event: MachineEvent) -> int:
        """The calls of a look at what is different after this event."""
        self.driver.tell(event)
        count = cost.Count()
        count.is_on = True
        count.of(lambda: self.followed.changes(event))
        return count.calls


def test_an_event_costs_no_more_calls_where_many_claims_hold_cards() -> None:
    events = (
        TimePassed(),
        NodeSeen(a_node("n1", labels={"a": "b"})),
        ObjectSeen(a_claim_of("gpu-0", name="new")),
    )
    few, many = Claims(2), Claims(20)
    assert [few.calls(event) for event in events] == [many.calls(event) for event in events]
