"""What is reported of cards that fail, come back or vanish."""

from kubeshare_py.domain.effects import CardChange, ReportCardChange
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    InventoryRead,
    NodeGone,
    NodesListed,
    PodsListed,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.charges.overcommitment import REPORTS_PER_ITERATION
from tests.making import Driver, a_gpu, a_machine, a_node, a_share, of

N1 = NodeName("n1")


def listed(driver: Driver, *gpus: Gpu) -> list[ReportCardChange]:
    """What is reported once the node lists these cards."""
    effects = driver.tell(InventoryRead(((N1, gpus),)))
    while (wake_at := driver.machine.wake_at(driver.now)) is not None and wake_at <= driver.now:
        effects += driver.tell(BindSlotsFree(8))
    return of(ReportCardChange, effects)


def a_leader(cards: int) -> Driver:
    """A machine that decides, on one node with so many cards."""
    driver = Driver({"n1": cards})
    driver.decide()
    return driver


def cards(driver: Driver) -> tuple[Gpu, ...]:
    return driver.machine.ledger.inventory[N1]


def sick(gpu: Gpu) -> Gpu:
    return replace(gpu, healthy=False)


def test_a_card_that_fails_is_reported_once_with_the_pods_that_hold_it() -> None:
    driver = a_leader(2)
    held = [a_share("a", 500), a_share("b", 500)]
    driver.bound(driver.show(*held), *held)
    where = {one.allocation.cards[0].uuid for one in driver.machine.records.values()}  # type: ignore[union-attr]
    assert len(where) == 1
    first, second = sorted(cards(driver), key=lambda gpu: gpu.uuid not in where)
    [report] = listed(driver, sick(first), second)
    assert (report.node, report.uuid, report.change) == (N1, first.uuid, CardChange.FAILED)
    assert report.card == f"GPU {first.index} ({first.model}, {first.uuid})"
    assert [str(key) for key, _ in report.pods] == ["default/a", "default/b"]
    assert listed(driver, sick(first), second) == []
    [report] = listed(driver, first, second)
    assert report.change is CardChange.RECOVERED
    assert listed(driver, first, sick(second))[0].pods == ()


def test_a_card_that_vanishes_and_returns_is_reported() -> None:
    driver = a_leader(2)
    first, second = cards(driver)
    assert [one.change for one in listed(driver, first)] == [CardChange.VANISHED]
    assert [one.change for one in listed(driver, first, second)] == [CardChange.RETURNED]
    listed(driver, first)
    assert [one.change for one in listed(driver, first, sick(second))] == [CardChange.FAILED]


def test_what_was_so_before_and_what_is_new_is_no_change() -> None:
    driver = a_leader(2)
    first, second = cards(driver)
    new = a_gpu("GPU-new", index=7)
    assert listed(driver, first, second, sick(new)) == []
    assert listed(driver, first, second) != []
    late = a_leader(1)
    effects = late.tell(InventoryRead(((NodeName("n2"), (sick(new),)),)))
    assert not of(ReportCardChange, effects)


def test_a_scheduler_that_starts_reports_no_card_that_is_unhealthy() -> None:
    machine, inventory = a_machine(), InventoryRead(((N1, (sick(a_gpu("GPU-1")),)),))
    start: list[Event] = [
        PodsListed((), 0.0),
        NodesListed((a_node("n1"),)),
        inventory,
        BindSlotsFree(8),
    ]
    effects = [effect for event in start for effect in machine.handle(event, 0.0)]
    assert not of(ReportCardChange, effects)


def test_while_another_scheduler_decides_nothing_is_kept_for_later() -> None:
    driver = Driver({"n1": 2})
    driver.tell(InventoryRead(((N1, ()),)), InventoryRead(()))
    assert listed(driver) == []


def test_cards_leave_with_their_node_without_a_word() -> None:
    driver = a_leader(2)
    driver.tell(NodeGone(N1))
    assert listed(driver) == []


def test_many_changes_are_reported_in_portions() -> None:
    driver = a_leader(1)
    many = tuple(a_gpu(f"GPU-{n}", index=n) for n in range(2 * REPORTS_PER_ITERATION))
    listed(driver, *many)
    effects = driver.tell(InventoryRead(((N1, ()),)), BindSlotsFree(8))
    assert len(of(ReportCardChange, effects)) == (REPORTS_PER_ITERATION)
    assert len(listed(driver)) == REPORTS_PER_ITERATION
