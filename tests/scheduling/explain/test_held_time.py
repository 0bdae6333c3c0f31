"""What is followed of holdings from event to event is what a look at the whole machine finds."""

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.events import InventoryRead, ObjectGone, ObjectSeen, PodSeen
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid, card_at
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.held_time import FollowedHoldings
from kubeshare_py.scheduling.machine import Machine, MachineEvent
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import Driver, a_gpu, a_pod
from tests.making.busy_world import BusyWorld
from tests.making.devices import (
    a_claim_of,
    a_claiming_pod,
    an_open_claim,
    as_written,
    card_slice,
    device_driver,
)
from tests.making.world import GANG_ACTIONS
from tests.scale import seeds
from tests.scheduling.pod_groups.test_any_gang_history import some_gang_steps

Held = dict[PodUid, tuple[NodeName, tuple[CardCharge, ...]]]


def whole_look(machine: Machine, before: Held) -> Held:
    """What bound pods, lingering ones that were held `before`, and claims that are shown hold."""
    found: Held = {}
    for row in machine.ledger.columns.row_of.values():
        for uid, charge in machine.ledger.charges_on_row(row).items():
            cards = charge.allocation.cards if charge.allocation is not None else ()
            held = tuple(card for card in cards if card.milli or card.memory_bytes)
            record, is_claim = machine.records.get(uid), machine.devices.key_of(uid) is not None
            counts = uid in before or (is_claim and not machine.devices.is_assumed(uid))
            if held and (counts if record is None else record.state is PodState.BOUND):
                found[uid] = charge.node, held
    return found


class FollowedWorld(BusyWorld):
    """Looks at the whole machine after each event."""

    def begin_anew(self) -> None:
        super().begin_anew()
        self.followed = FollowedHoldings(self.machine)

    def tell(self, event: MachineEvent) -> None:
        before = held_by(self.followed)
        super().tell(event)
        self.followed.changes(event)
        assert held_by(self.followed) == whole_look(self.machine, before)


def held_by(followed: FollowedHoldings) -> Held:
    return {uid: (one.node, one.cards) for uid, one in followed.now.items()}


def test_holdings_are_those_of_a_look_at_the_whole_machine() -> None:
    held = 0
    for seed in seeds(12):
        steps = some_gang_steps(seed, 90)
        # The scheduler does not die. Each event compares.
        lives = (one for one in steps if one[0] % GANG_ACTIONS != GANG_ACTIONS - 1)
        held += len(FollowedWorld().follow(lives).followed.now)
    assert held > 0


class FollowedDriver:
    """A driver whose events are followed."""

    def __init__(self, cards: dict[str, int]) -> None:
        self.driver: Driver = device_driver(cards)
        self.followed = FollowedHoldings(self.driver.machine)

    def tell(self, event: MachineEvent) -> list[str]:
        """Tell the machine; what is held now."""
        self.driver.tell(event)
        self.followed.changes(event)
        return sorted(str(one.key) for one in self.followed.now.values())


def test_a_claim_holds_its_cards_as_long_as_it_is_shown_allocated() -> None:
    world = FollowedDriver({"n1": 2, "n2": 1})
    first, second = a_claim_of("gpu-0"), a_claim_of("gpu-0", node="n2", name="d")
    assert world.tell(ObjectSeen(first)) == ["default/resourceclaim/c"]
    both = ["default/resourceclaim/c", "default/resourceclaim/d"]
    assert world.tell(ObjectSeen(second)) == both
    (card,) = world.driver.machine.ledger.inventory[NodeName("n2")]
    assert world.tell(InventoryRead(((NodeName("n2"), ()),))) == both[:1], "its card is gone"
    assert world.tell(InventoryRead(((NodeName("n2"), (card,)),))) == both
    assert world.tell(ObjectGone(second.kind, second.key)) == ["default/resourceclaim/c"]
    assert world.tell(ObjectSeen(an_open_claim())) == []


def test_a_claim_whose_allocation_is_being_written_holds_nothing_yet() -> None:
    world = FollowedDriver({"n1": 2})
    open_claim = an_open_claim()
    world.tell(ObjectSeen(open_claim))
    world.driver.show(a_claiming_pod())
    assert world.tell(ObjectSeen(card_slice(world.driver.machine, "n1"))) == []
    assert world.tell(ObjectSeen(a_claim_of("gpu-1", name="d"))) == ["default/resourceclaim/d"]
    (write,) = world.driver.requested
    both = ["default/resourceclaim/c", "default/resourceclaim/d"]
    assert world.tell(ObjectSeen(as_written(open_claim, write))) == both


def test_a_pod_that_names_a_card_by_index_holds_the_card_that_is_found() -> None:
    driver = Driver({"n1": 0})
    followed = FollowedHoldings(driver.machine)
    named = Allocation(token=DecisionToken("t"), cards=(CardCharge(card_at(0), 500, 1),))
    listed = InventoryRead(((NodeName("n1"), (a_gpu("GPU-a", index=0),)),))
    pod = replace(a_pod("p"), node_name=NodeName("n1"), allocation=named)
    for event in (PodSeen(pod), listed):
        driver.tell(event)
        followed.changes(event)
    (holding,) = followed.now.values()
    assert [card.uuid for card in holding.cards] == ["GPU-a"]
