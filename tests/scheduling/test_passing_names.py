"""Decisions stay right while resources, models and labels come and go."""

import pytest

from kubeshare_py.cluster.columns import SPARE_VALUES
from kubeshare_py.cluster.usage_accounting import MAX_STRAYS
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import PodWarning, ReportPodWarning
from kubeshare_py.domain.events import InventoryRead, NodeSeen, PodGone, PodSeen
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import why
from tests.making import Driver, a_claim, a_gpu, a_node, a_pod, a_shape, a_share

N1 = NodeName("n1")
NIC, FPGA = "example.com/nic", "example.com/fpga"


def asking(name: str, resource: str) -> Pod:
    return a_pod(name, a_shape(resources=(("cpu", 100), (resource, 1))))


def offering(*resources: str) -> NodeSeen:
    node = a_node("n1")
    return NodeSeen(replace(node, allocatable=(*node.allocatable, *((r, 1) for r in resources))))


def said(driver: Driver, pod: str) -> str:
    view = why(driver.machine, PodKey("default", pod))
    assert view is not None
    return view.message


def test_a_pod_that_asks_for_what_no_node_has_waits_and_says_so() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    assert driver.seen(asking("p", NIC)) == []
    counted = f"0/2 nodes are available: 2 Insufficient {NIC}."
    assert said(driver, "p") == f"{counted} no new claims to deallocate"
    assert NIC not in driver.machine.ledger.columns.resources
    driver.tell(offering(NIC))
    assert [bind.node for bind in driver.decide()] == [N1]


def test_a_column_that_is_anothers_now_answers_for_the_other_alone() -> None:
    driver = Driver({"n1": 1})
    driver.tell(offering(NIC))
    assert [bind.uid for bind in driver.seen(asking("nic", NIC))] == ["uid-nic"]
    assert driver.seen(asking("again", NIC)) == driver.seen(asking("fpga", FPGA)) == []
    column = driver.machine.ledger.columns.resources[NIC]
    driver.tell(PodGone(asking("nic", NIC).uid), offering(), offering(FPGA))
    assert driver.machine.ledger.columns.resources[FPGA] == column
    assert [bind.uid for bind in driver.decide()] == ["uid-fpga"]
    assert f"1 Insufficient {NIC}" in said(driver, "again")


@pytest.mark.slow
def test_thousands_of_names_leave_the_tables_as_they_were() -> None:
    driver = Driver({"n1": 1})
    width = driver.machine.ledger.columns.free.shape
    for number in range(3000):
        pod = asking(f"p{number}", f"example.com/r{number}")
        driver.seen(pod)
        driver.tell(PodGone(pod.uid))
    assert driver.machine.ledger.columns.free.shape == width
    assert [bind.node for bind in driver.seen(a_pod("plain"))] == [N1]


def test_models_that_come_and_go_are_told_apart() -> None:
    driver = Driver({"n1": 0, "n2": 0})
    wanted = a_pod("p", a_shape(a_claim(500, models=("wanted",))))
    assert driver.seen(wanted) == []
    for number in range(2 * SPARE_VALUES):
        gpu = a_gpu("GPU-a", model=f"m{number}")
        driver.tell(InventoryRead(((N1, (gpu,)),)))
        if number % 256 == 0:
            assert driver.decide() == []
    assert len(driver.machine.ledger.columns.model_names) <= SPARE_VALUES + 8
    driver.tell(InventoryRead(((N1, (a_gpu("GPU-a", model="wanted"),)),)))
    assert [bind.node for bind in driver.decide()] == [N1]


def test_a_pod_that_others_placed_on_cards_that_are_not_there_is_told_and_charged() -> None:
    driver = Driver({"n1": 1})
    driver.decide()
    cards = tuple(CardCharge(GpuUuid(f"GPU-{at:03}"), 1000, 1) for at in range(100))
    theirs = a_share(
        "theirs",
        500,
        node_name=N1,
        allocation=Allocation(token=DecisionToken("theirs"), cards=cards),
    )
    effects = driver.tell(PodSeen(theirs))
    notes = {one.warning: one.note for one in effects if isinstance(one, ReportPodWarning)}
    named = ", ".join(f"GPU-{at:03}" for at in range(8))
    assert notes[PodWarning.UNKNOWN_CARDS] == (
        f"n1 does not have {named}, 92 more: charged once it has them"
    )
    assert driver.machine.ledger.columns.width == 1 + MAX_STRAYS
    charge = driver.machine.ledger.charge_of(theirs.uid)
    assert charge is not None
    assert charge.allocation == theirs.allocation
    # Cards that appear are held, also those that had no slot.
    driver.tell(InventoryRead(((N1, (a_gpu("GPU-000"), a_gpu("GPU-099", index=1))),)))
    assert driver.seen(a_share("p", 500)) == []
    driver.tell(PodGone(theirs.uid))
    assert [bind.node for bind in driver.decide()] == [N1]


def test_cards_that_are_there_are_no_trouble() -> None:
    driver = Driver({"n1": 1})
    driver.decide()
    held = Allocation(
        token=DecisionToken("theirs"), cards=(CardCharge(GpuUuid("GPU-n1-0"), 500, 1),)
    )
    pod = a_share("theirs", 500, node_name=N1, allocation=held)
    troubles = [
        one.warning for one in driver.tell(PodSeen(pod)) if isinstance(one, ReportPodWarning)
    ]
    assert troubles == [PodWarning.NOT_OURS]
