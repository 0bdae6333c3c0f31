"""Pods of the vendor's device plugin: nobody knows their cards, so idle ones are held back."""

from kubeshare_py.cluster.columns import HELD_BACK
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.quota import NATIVE_GPU
from tests.making import a_node, some_gpus

N1 = NodeName("n1")


def a_ledger(cards: int) -> Ledger:
    ledger = Ledger()
    ledger.put_node(a_node("n1"))
    ledger.put_cards(N1, some_gpus("n1", cards))
    return ledger


def native(ledger: Ledger, name: str, count: int) -> None:
    ledger.charge(PodUid(name), N1, ((NATIVE_GPU, count),), None)


def share(ledger: Ledger, name: str, card: int, milli: int = 500) -> None:
    charge = CardCharge(GpuUuid(f"GPU-n1-{card}"), milli, 1)
    ledger.charge(PodUid(name), N1, (), Allocation(token=DecisionToken(name), cards=(charge,)))


def open_cards(ledger: Ledger) -> list[int]:
    row = ledger.columns.row_of[N1]
    return [slot for slot, room in enumerate(ledger.columns.headroom[row].tolist()) if room >= 0]


def test_as_many_idle_cards_are_held_back_as_native_pods_hold() -> None:
    ledger = a_ledger(4)
    native(ledger, "a", 1)
    native(ledger, "b", 2)
    assert open_cards(ledger) == [0]
    assert ledger.held_back_on(N1) == 3


def test_cards_in_use_go_on_taking_shares_while_enough_are_idle() -> None:
    ledger = a_ledger(3)
    share(ledger, "s", 0)
    native(ledger, "a", 2)
    assert open_cards(ledger) == [0]


def test_with_fewer_idle_cards_the_node_takes_no_new_shares() -> None:
    ledger = a_ledger(3)
    share(ledger, "s", 0)
    share(ledger, "t", 1)
    native(ledger, "a", 2)
    assert open_cards(ledger) == []
    assert all(flags & HELD_BACK for flags in ledger.columns.flags[0, :3].tolist())


def test_the_node_opens_again_when_they_leave() -> None:
    ledger = a_ledger(2)
    share(ledger, "s", 0)
    native(ledger, "a", 2)
    ledger.release(PodUid("a"))
    assert open_cards(ledger) == [0, 1]
    assert ledger.held_back_on(N1) == 0


def test_a_share_that_leaves_makes_a_card_idle_that_may_be_held_back() -> None:
    ledger = a_ledger(2)
    share(ledger, "s", 0)
    native(ledger, "a", 2)
    ledger.release(PodUid("s"))
    assert open_cards(ledger) == []
    ledger.charge(PodUid("a"), N1, ((NATIVE_GPU, 1),), None)
    assert open_cards(ledger) == [0]


def test_cards_that_appear_later_are_held_back_too() -> None:
    ledger = Ledger()
    ledger.put_node(a_node("n1"))
    native(ledger, "a", 1)
    ledger.put_cards(N1, some_gpus("n1", 2))
    assert open_cards(ledger) == [0]


def test_a_card_that_is_held_back_breaks_its_island() -> None:
    ledger = a_ledger(3)
    row = ledger.columns.row_of[N1]
    native(ledger, "a", 1)
    assert ledger.columns.idle_cards[row] == 0b011
    assert ledger.columns.break_order[row].tolist()[:3] == [1, 2, 0]
    ledger.release(PodUid("a"))
    assert ledger.columns.idle_cards[row] == 0b111
