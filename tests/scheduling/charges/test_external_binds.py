"""What others did to bound pods past this scheduler is told, and charged as it says."""

from typing import Any

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Effect, PodWarning, ReportPodWarning
from kubeshare_py.domain.events import BindRefused, Bound, PodSeen, PodsListed, Refusal
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import MAX_MESSAGE
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_pod, a_share, of

N1 = NodeName("n1")
THEIRS = Allocation(token=DecisionToken("theirs"), cards=(CardCharge(GpuUuid("GPU-n1-0"), 500, 1),))


def troubles(effects: list[Effect]) -> list[tuple[str, PodWarning]]:
    return [(one.key.name, one.warning) for one in effects if isinstance(one, ReportPodWarning)]


def a_leader() -> Driver:
    driver = Driver({"n1": 2})
    driver.decide()
    return driver


def share(name: str = "a", **fields: Any) -> Pod:
    return a_share(name, 500, **fields)


def test_a_pod_created_on_a_node_with_an_allocation_is_charged_and_told() -> None:
    driver = a_leader()
    pod = share(node_name=N1, allocation=THEIRS)
    effects = driver.tell(PodSeen(pod))
    assert troubles(effects) == [("a", PodWarning.NOT_OURS)]
    [report] = of(ReportPodWarning, effects)
    assert report.note == "another client placed it on n1 with GPU-n1-0: charged as it says"
    charge = driver.machine.ledger.charge_of(pod.uid)
    assert charge is not None
    assert charge.allocation == THEIRS


def test_a_note_is_not_as_long_as_a_name_in_it() -> None:
    pod = share(node_name=NodeName(9000 * "n"), allocation=THEIRS)
    effects = a_leader().tell(PodSeen(pod))
    notes = [one.note for one in effects if isinstance(one, ReportPodWarning)]
    assert {len(note) for note in notes} == {MAX_MESSAGE + 1}


def test_whoever_schedules_it() -> None:
    pod = share(scheduler_name="default-scheduler", node_name=N1, allocation=THEIRS)
    assert troubles(a_leader().tell(PodSeen(pod))) == [("a", PodWarning.NOT_OURS)]


def test_a_pod_that_somebody_else_was_faster_to_bind_is_told() -> None:
    driver = a_leader()
    (bind,) = driver.seen(share())
    theirs = share(node_name=N1, allocation=THEIRS)
    assert troubles(driver.tell(PodSeen(theirs))) == [("a", PodWarning.NOT_OURS)]
    assert troubles(driver.answer(bind, BindRefused(Refusal.ASSIGNED, "too late"))) == []


def test_our_own_binds_are_nobodys_trouble() -> None:
    driver = a_leader()
    (bind,) = driver.seen(share())
    echo = PodSeen(share(node_name=bind.node, allocation=bind.allocation))
    assert troubles([*driver.answer(bind, Bound()), *driver.tell(echo, echo)]) == []


def test_before_it_leads_binds_of_the_leader_are_nobodys_trouble() -> None:
    driver = Driver({"n1": 2})
    theirs = share(node_name=N1, allocation=THEIRS)
    lists = [PodsListed((theirs,), 0.0), PodsListed((theirs,), 1.0)]
    assert troubles(driver.tell(*lists)) == []
    driver.decide()
    assert troubles(driver.tell(PodSeen(theirs))) == []


def test_a_list_after_a_gap_brings_to_light_what_happened_meanwhile() -> None:
    driver = a_leader()
    theirs = share(node_name=N1, allocation=THEIRS)
    assert troubles(driver.tell(PodsListed((theirs,), 1.0))) == [("a", PodWarning.NOT_OURS)]


def test_an_allocation_that_cannot_be_read_is_told_once() -> None:
    driver = a_leader()
    pod = share(node_name=N1, allocation_problem="no JSON")
    assert troubles(driver.tell(PodSeen(pod), PodSeen(pod))) == [("a", PodWarning.UNREADABLE)]


def test_of_an_allocation_of_another_version_whole_cards_are_charged_and_it_is_told() -> None:
    driver = a_leader()
    card = CardCharge(GpuUuid("GPU-n1-0"), 1000, 0, exclusive=True)
    whole = replace(THEIRS, cards=(card,))
    pod = share(node_name=N1, allocation=whole, allocation_problem="version 3 is not known")
    effects = driver.tell(PodSeen(pod))
    [note] = [
        one.note
        for one in effects
        if isinstance(one, ReportPodWarning) and one.warning is PodWarning.UNREADABLE
    ]
    assert note == (
        "all of GPU-n1-0 is charged, because it is not known how much of it the pod holds: "
        "version 3 is not known"
    )
    assert driver.place(share("b")).allocation.cards[0].uuid == "GPU-n1-1"
    assert driver.place(share("c")).allocation.cards[0].uuid == "GPU-n1-1"
    assert not driver.seen(share("d"))


def test_a_pod_of_ours_that_was_bound_without_cards_is_told() -> None:
    driver = a_leader()
    assert troubles(driver.tell(PodSeen(share(node_name=N1)))) == [("a", PodWarning.MISSING)]
    others = share("b", scheduler_name="other", node_name=N1)
    assert troubles(driver.tell(PodSeen(others))) == []
    assert troubles(driver.tell(PodSeen(a_pod("c", node_name=N1)))) == []


def bound(driver: Driver) -> Pod:
    """A pod that the driver's machine has bound."""
    bind = driver.place(share())
    return share(node_name=bind.node, allocation=bind.allocation)


def test_an_edited_allocation_is_told_and_changes_no_charge() -> None:
    driver = a_leader()
    pod = bound(driver)
    assert troubles(driver.tell(PodSeen(replace(pod, allocation=THEIRS)))) == [
        ("a", PodWarning.CHANGED)
    ]
    charge = driver.machine.ledger.charge_of(pod.uid)
    assert charge is not None
    assert charge.allocation == pod.allocation


def test_a_removed_allocation_is_told() -> None:
    driver = a_leader()
    pod = bound(driver)
    found = troubles(driver.tell(PodSeen(replace(pod, allocation=None))))
    assert found == [("a", PodWarning.CHANGED), ("a", PodWarning.MISSING)]


def test_containers_that_are_told_other_cards_are_told_about_once() -> None:
    driver = a_leader()
    pod = replace(bound(driver), mismatch="sharedgpu/gpu_uuid says GPU-b, the allocation GPU-a")
    ready = replace(pod, label_priority=1)
    assert troubles(driver.tell(PodSeen(pod), PodSeen(ready))) == [("a", PodWarning.MISMATCH)]


def test_labels_that_are_hardly_meant_are_told_once_and_again_when_they_change() -> None:
    driver = a_leader()
    pod = share(unlikely=("8 bytes", "no group"), gates=("held",))
    [report] = of(
        ReportPodWarning, driver.tell(PodSeen(pod), PodSeen(replace(pod, label_priority=1)))
    )
    assert (report.warning, report.note) == (PodWarning.UNLIKELY, "8 bytes; no group")
    found = driver.tell(PodSeen(replace(pod, unlikely=("9 bytes",))))
    assert troubles(found) == [("a", PodWarning.UNLIKELY)]
    assert troubles(driver.tell(PodSeen(replace(pod, unlikely=())))) == []


def test_a_new_leader_tells_what_labels_of_waiting_pods_hardly_mean() -> None:
    driver = Driver({"n1": 2})
    pods = [share("a", unlikely=("8 bytes",), gates=("held",)), share("b", gates=("held",))]
    driver.tell(PodsListed((*pods, share("c", unlikely=("8 bytes",), node_name=N1)), 0.0))
    told = [one for one in driver.machine.standing_warnings() if one.key.name != "c"]
    assert troubles([*told]) == [("a", PodWarning.UNLIKELY)]


@pytest.mark.parametrize(
    ("fields", "trouble"),
    [
        ({"allocation_problem": "no JSON"}, PodWarning.UNREADABLE),
        ({"mismatch": "others"}, PodWarning.MISMATCH),
        ({}, PodWarning.MISSING),
    ],
)
def test_a_new_leader_tells_what_shows_on_pods_that_were_bound_before(
    fields: dict[str, str], trouble: PodWarning
) -> None:
    driver = Driver({"n1": 2})
    driver.tell(PodSeen(share(node_name=N1, **fields)), PodSeen(share("waits")))
    machine = driver.machine
    assert troubles([*machine.standing_warnings()]) == [("a", trouble)]
