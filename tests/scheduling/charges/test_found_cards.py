"""Pods that a former scheduler bound to cards by their index: gpushare's and nano-gpu's."""

from collections.abc import Sequence
from typing import Any

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Effect, PodWarning, ReportPodWarning
from kubeshare_py.domain.events import InventoryRead, NodeSeen, PodGone, PodSeen, PodsListed
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey, PodUid, card_at
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.machine import known_events
from tests.making import (
    Driver,
    a_gpu,
    a_machine,
    a_node,
    a_share,
    of,
    some_gpus,
)

N1 = NodeName("n1")


def of_former(name: str, *indices: int, milli: int = 500, **fields: Any) -> Pod:
    """A pod on n1 that another scheduler bound, with a share of these cards."""
    cards = tuple(CardCharge(card_at(index), milli, 1) for index in indices)
    given: dict[str, Any] = {"scheduler_name": "default-scheduler", "node_name": N1, **fields}
    allocation = Allocation(token=DecisionToken(""), dialect="gpushare", cards=cards)
    return a_share(name, milli, allocation=allocation, **given)


def a_driver(cards: int = 2) -> Driver:
    """It decides already; the pods of its list were bound before."""
    driver = Driver({"n1": cards})
    driver.decide()
    return driver


def cards_are(driver: Driver, *gpus: Gpu) -> list[ReportPodWarning]:
    return warnings(driver.tell(InventoryRead(((N1, gpus),))))


def warnings(effects: Sequence[Effect]) -> list[ReportPodWarning]:
    return of(ReportPodWarning, effects)


def uuids(driver: Driver, name: str) -> list[str]:
    record = driver.machine.records[PodUid(f"uid-{name}")]
    charge = driver.machine.ledger.charge_of(record.pod.uid)
    assert charge is not None
    assert record.allocation == charge.allocation
    assert record.allocation is not None
    return [card.uuid for card in record.allocation.cards]


def test_what_they_hold_is_not_given_away() -> None:
    """Use of each GPU is the sum of what pods of the former scheduler hold."""
    driver = a_driver()
    driver.tell(PodSeen(of_former("a", 1)), PodSeen(of_former("b", 1, milli=300)))
    assert uuids(driver, "a") == uuids(driver, "b") == ["GPU-n1-1"]
    (bind,) = driver.seen(a_share("p", 400))
    assert bind.allocation.cards[0].uuid == "GPU-n1-0"


def test_pods_that_are_listed_before_the_cards_hold_them_from_the_first_list_on() -> None:
    """A restarted scheduler has the same free vector."""
    driver = Driver({})
    machine = driver.machine
    driver.tell(PodsListed((of_former("a", 1), of_former("b", 5)), driver.now))
    assert uuids(driver, "a") == ["index 1"]
    (missing,) = cards_are(driver, *some_gpus("n1", 2))
    assert uuids(driver, "a") == ["GPU-n1-1"]
    assert (missing.key.name, missing.warning) == ("b", PodWarning.UNKNOWN_CARDS)
    assert missing.note == "n1 does not have index 5: charged once it has them"
    assert [one.key.name for one in machine.standing_warnings()] == ["b"], "for a new leader"
    assert cards_are(driver, *some_gpus("n1", 6)) == []
    assert uuids(driver, "b") == ["GPU-n1-5"]
    assert [*machine.standing_warnings()] == []


def test_an_index_that_the_node_does_not_have_is_reported_at_once_and_charged_to_no_card() -> None:
    """IDX is 5 on a node with two GPUs."""
    driver = a_driver()
    reports = warnings(driver.tell(PodsListed((of_former("a", 5),), driver.now)))
    assert [one.warning for one in reports] == [PodWarning.NOT_OURS, PodWarning.UNKNOWN_CARDS]
    assert reports[1].note == "n1 does not have index 5: charged once it has them"
    assert len(driver.seen(a_share("p"))) == 1
    assert len(driver.seen(a_share("q"))) == 1


def test_a_pod_that_was_bound_before_the_start_is_reported_too() -> None:
    driver = Driver({"n1": 2})
    (report,) = warnings(driver.tell(PodsListed((of_former("a", 5),), driver.now)))
    assert report.warning is PodWarning.UNKNOWN_CARDS


def test_a_report_of_a_pod_that_another_client_bound_names_the_card_that_is_charged() -> None:
    (report,) = warnings(a_driver().tell(PodSeen(of_former("a", 1))))
    assert report.warning is PodWarning.NOT_OURS
    assert report.note == "another client placed it on n1 with GPU-n1-1: charged as it says"


def test_a_running_pod_stays_with_its_card_when_another_one_gets_its_index() -> None:
    driver = a_driver()
    driver.tell(PodSeen(of_former("a", 1)))
    cards_are(driver, a_gpu("GPU-n1-0"), a_gpu("GPU-new", index=1))
    driver.tell(PodSeen(of_former("a", 1, label_priority=1)))
    assert uuids(driver, "a") == ["GPU-n1-1"]
    placed = [driver.seen(a_share(name)) for name in ("p", "q")]
    assert len([bind for binds in placed for bind in binds]) == 2, "GPU-new is free"


def test_a_pod_that_was_deleted_by_force_keeps_the_card_that_is_found_later() -> None:
    """The containers may still run."""
    driver = Driver({})
    driver.tell(PodsListed((of_former("a", 1, grace_s=30),), driver.now))
    driver.tell(NodeSeen(a_node("n1")))
    driver.tell(PodGone(PodUid("uid-a")))
    assert [*driver.machine.ledger.lingering] == ["uid-a"]
    cards_are(driver, *some_gpus("n1", 2))
    (lingers,) = driver.machine.lingering.pods()
    assert lingers.record.allocation is not None
    assert [card.uuid for card in lingers.record.allocation.cards] == ["GPU-n1-1"]
    assert driver.machine.ledger.columns.free_milli[0, :2].tolist() == [1000, 500]


def test_people_see_the_card_and_before_that_its_index() -> None:
    driver = Driver({})
    pod = of_former("a", 1, scheduler_name=SCHEDULER_NAME)
    driver.tell(NodeSeen(a_node("n1")), PodsListed((pod,), driver.now))
    for expected in (("index 1", -1), ("GPU-n1-1", 1)):
        found = why(driver.machine, PodKey("default", "a"))
        assert found is not None
        assert [(one.uuid, one.index) for one in found.pod.holds] == [expected]
        cards_are(driver, *some_gpus("n1", 2))


def test_a_machine_that_is_told_what_this_one_knows_has_the_same_charges() -> None:
    driver = a_driver()
    driver.tell(PodSeen(of_former("a", 1)), PodSeen(of_former("b", 7)))
    other = a_machine()
    for event in known_events(driver.machine, driver.now):
        other.handle(event, driver.now)
    for name in ("a", "b"):
        uid = PodUid(f"uid-{name}")
        charges = [one.ledger.charge_of(uid) for one in (driver.machine, other)]
        assert charges[0] == charges[1]
