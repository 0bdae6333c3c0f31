"""A big gang is not starved by small pods: capacity comes to belong to it while it waits."""

import pytest

from kubeshare_py.domain.effects import Bind, ReportOvercommit
from kubeshare_py.domain.events import InventoryRead, NodeGone, PodSeen
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.explain.explanation import cluster_view, why
from kubeshare_py.scheduling.explain.figures import card_figures, ledger_figures
from tests.making import (
    Driver,
    a_claim,
    a_cluster,
    a_group,
    a_machine,
    a_pod,
    a_shape,
    members,
    names,
    of,
    some_gpus,
    whole,
)

AFTER_S = 60.0


def a_driver(cards: dict[str, int], after_s: float = AFTER_S) -> Driver:
    driver = Driver({})
    driver.machine = a_machine(reservation_after_s=after_s)
    driver.tell(*a_cluster(cards))
    return driver


def small(number: int, claim: GpuClaim | None = None) -> Pod:
    return a_pod(f"s{number}", a_shape(claim or a_claim(500)), created=f"9{number:05d}")


class Stream:
    """Small pods come for ever, two at a time; each is gone some rounds after it was placed."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.running: list[tuple[int, Pod]] = []
        self.placed: list[str] = []
        self.number = 0

    def run(self, rounds: int) -> list[str]:
        """Who was placed so far."""
        for _ in range(rounds):
            self.number += 1
            self.driver.now += 5
            for one in [one for one in self.running if one[0] <= self.number]:
                self.running.remove(one)
                self._bound(self.driver.gone(one[1]))
            fresh = small(2 * self.number), small(2 * self.number + 1)
            self._bound(self.driver.show(*fresh))
        return self.placed

    def _bound(self, binds: list[Bind]) -> None:
        while binds:
            self.placed += names(binds)
            pods = [self.driver.machine.records[bind.uid].pod for bind in binds]
            self.running += [(self.number + 4, pod) for pod in pods]
            binds = self.driver.bound(binds)


def a_big_pod_with_reservations(driver: Driver) -> Pod:
    """One that wants two cards, of which a tenant has one."""
    tenant = small(0)
    driver.bound(driver.show(tenant), tenant)
    big = a_pod("big", a_shape(whole(2)), created="1")
    driver.show(big)
    driver.later(AFTER_S)
    return big


def no_reservations(driver: Driver) -> bool:
    columns = driver.machine.ledger.columns
    nothing = not columns.reservations.any() and not columns.reserved_milli.any()
    return nothing and not driver.machine.ledger.reservations and not driver.machine.reservations


def test_an_endless_stream_of_small_pods_does_not_starve_a_gang() -> None:
    driver = a_driver({"n1": 2, "n2": 2})
    stream = Stream(driver)
    stream.run(8)
    driver.show(*members(a_group(3), 3, created="1"))
    assert {"g-0", "g-1", "g-2"} <= {*stream.run(12 + 5)}, "its time, and that of a small pod"
    stream.run(1)
    assert no_reservations(driver)


@pytest.mark.slow
def test_without_reservations_it_is_starved() -> None:
    driver = a_driver({"n1": 2, "n2": 2}, after_s=0)
    stream = Stream(driver)
    stream.run(8)
    driver.show(*members(a_group(3), 3, created="1"))
    assert "g-0" not in stream.run(200)


def test_a_pod_of_a_whole_node_is_not_starved_either() -> None:
    driver = a_driver({"n1": 2, "n2": 2})
    stream = Stream(driver)
    stream.run(8)
    driver.show(a_pod("big", a_shape(whole(2)), created="1"))
    assert "big" in stream.run(12 + 5)
    stream.run(1)
    assert no_reservations(driver)


def a_waiting_gang(driver: Driver) -> tuple[list[Pod], list[Pod]]:
    """Two cards, one of them in use; a gang that needs both, and has the reservations."""
    tenant = small(0, a_claim(1000))
    driver.bound(driver.show(tenant), tenant)
    gang = members(a_group(2), 2, created="1")
    driver.show(*gang)
    driver.later(AFTER_S)
    return [tenant], gang


def test_until_its_time_nobody_has_reservations() -> None:
    driver = a_driver({"n1": 2})
    tenant = small(0, a_claim(1000))
    driver.bound(driver.show(tenant), tenant)
    driver.show(*members(a_group(2), 2, created="1"))
    driver.later(AFTER_S - 1)
    assert names(driver.show(small(1))) == ["s1"]


def test_what_is_reserved_no_later_pod_takes() -> None:
    driver = a_driver({"n1": 2})
    (tenant,), _ = a_waiting_gang(driver)
    assert driver.show(small(1)) == []
    assert names(driver.gone(tenant)) == ["g-0", "g-1"]


def test_an_reservation_is_no_over_commitment() -> None:
    driver = a_driver({"n1": 2})
    a_waiting_gang(driver)
    assert driver.machine.ledger.columns.free_milli.min() < 0
    assert list(driver.machine.ledger.overcommitted()) == []
    driver.now += 30
    assert not of(ReportOvercommit, driver.tell(*a_cluster({})[:0]))
    assert not driver.machine.ledger.overdrafts


def test_an_earlier_pod_takes_what_is_reserved() -> None:
    driver = a_driver({"n1": 2})
    (tenant,), _ = a_waiting_gang(driver)
    urgent = replace(small(1), priority=5)
    assert names(driver.show(urgent)) == ["s1"]
    assert driver.gone(tenant) == []
    assert driver.show(small(2)) == [], "half of the card's rest is the gang's again"


def test_an_earlier_pod_of_a_shape_that_waits_takes_it_too() -> None:
    driver = a_driver({"n1": 2})
    a_waiting_gang(driver)
    assert driver.show(small(1)) == []
    assert names(driver.show(replace(small(2), priority=5))) == ["s2"]


@pytest.mark.parametrize("how", ["deleted", "gated", "smaller"])
def test_nothing_is_left_when_the_holder_is_not_what_it_was(how: str) -> None:
    driver = a_driver({"n1": 2})
    _, gang = a_waiting_gang(driver)
    if how == "deleted":
        driver.gone(*gang)
    elif how == "gated":
        driver.show(*(replace(pod, gates=("wait",)) for pod in gang))
    else:
        driver.show(*(replace(pod, shape=a_shape(a_claim(400))) for pod in gang))
    assert no_reservations(driver)


def test_who_fits_when_the_holder_is_gone_is_woken_at_once() -> None:
    driver = a_driver({"n1": 2})
    _, gang = a_waiting_gang(driver)
    driver.show(small(1))
    assert names(driver.gone(gang[0])) == ["s1"]


def test_a_pod_that_has_reservations_and_is_deleted_leaves_nothing() -> None:
    driver = a_driver({"n1": 2})
    big = a_big_pod_with_reservations(driver)
    assert driver.show(small(1)) == []
    assert names(driver.gone(big)) == ["s1"]
    assert no_reservations(driver)


def test_a_gang_that_could_never_fit_keeps_nothing_from_others() -> None:
    driver = a_driver({"n1": 2})
    driver.show(*members(a_group(3), 3, created="1"))
    driver.later(10 * AFTER_S)
    assert no_reservations(driver)
    assert names(driver.show(small(1), small(2))) == ["s1", "s2"]


def test_behind_one_that_could_never_fit_the_next_gets_its_turn() -> None:
    driver = a_driver({"n1": 2})
    driver.show(*members(a_group(3, "huge"), 3, created="0"))
    (tenant,), _ = a_waiting_gang(driver)
    assert driver.show(small(1)) == []
    assert names(driver.gone(tenant)) == ["g-0", "g-1"]


def test_behind_many_that_could_never_fit_too() -> None:
    driver = a_driver({"n1": 2})
    for number in range(3, 9):
        driver.show(*members(a_group(number, f"huge{number}"), number, created="0"))
    a_waiting_gang(driver)
    assert driver.show(small(1)) == []


def test_who_comes_before_one_that_waited_for_long_has_to_wait_as_long() -> None:
    driver = a_driver({"n1": 2})
    tenant = small(0, a_claim(1000))
    driver.bound(driver.show(tenant), tenant)
    driver.show(*members(a_group(2, "b"), 2, created="2"))
    driver.later(AFTER_S - 1)
    driver.show(*members(a_group(2, "a"), 2, created="1"))
    driver.later(AFTER_S - 1)
    assert no_reservations(driver)
    driver.later(2)
    assert {uid.split("-")[1] for uid in driver.machine.ledger.reservations} == {"a"}


def test_reservations_are_those_of_members_that_are_there() -> None:
    driver = a_driver({"n1": 2})
    tenant = small(0, a_claim(1000))
    driver.bound(driver.show(tenant), tenant)
    gang = members(a_group(2, headcount=3), 3, created="1")
    driver.show(*gang)
    driver.later(AFTER_S)
    driver.gone(gang[0])
    assert {*driver.machine.ledger.reservations} == {gang[1].uid, gang[2].uid}
    assert driver.show(small(1)) == []


def test_only_the_first_gang_has_reservations() -> None:
    driver = a_driver({"n1": 2, "n2": 2})
    running = [small(number, a_claim(1000)) for number in range(3)]
    driver.bound(driver.show(*running), *running)
    driver.show(
        *members(a_group(2, "b"), 2, created="2"), *members(a_group(3, "a"), 3, created="1")
    )
    driver.later(AFTER_S)
    assert {uid.split("-")[1] for uid in driver.machine.ledger.reservations} == {"a"}


def test_reservations_on_a_node_that_left_are_planned_elsewhere() -> None:
    driver = a_driver({"n1": 2, "n2": 2})
    running = [small(number, a_claim(1000)) for number in range(3)]
    driver.bound(driver.show(*running), *running)
    driver.show(*members(a_group(2), 2, created="1"))
    driver.later(AFTER_S)
    gone = next(iter(driver.machine.ledger.reservations.values())).node
    driver.tell(NodeGone(gone))
    driver.turn()
    left = {charge.node for charge in driver.machine.ledger.reservations.values()}
    assert left == {NodeName("n1"), NodeName("n2")} - {gone}


def test_reservations_on_a_card_that_left_are_dissolved() -> None:
    driver = a_driver({"n1": 2})
    a_waiting_gang(driver)
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 1)),)))
    driver.turn()
    assert no_reservations(driver)


def test_one_event_that_makes_room_elsewhere_is_enough() -> None:
    driver = a_driver({"n1": 2, "n2": 2})
    running = [small(number, a_claim(1000)) for number in range(4)]
    driver.bound(driver.show(*running), *running)
    driver.show(*members(a_group(2), 2, created="1"))
    driver.later(AFTER_S)
    nodes = {charge.node for charge in driver.machine.ledger.reservations.values()}
    others = [pod for pod in running if driver.machine.records[pod.uid].node not in nodes]
    assert driver.gone(others[0]) == []
    assert names(driver.gone(others[1])) == ["g-0", "g-1"]
    assert no_reservations(driver)


def test_a_foreign_binding_of_a_holder_leaves_nothing() -> None:
    driver = a_driver({"n1": 2})
    big = a_big_pod_with_reservations(driver)
    driver.tell(PodSeen(replace(big, node_name=NodeName("n1"))))
    driver.turn()
    assert no_reservations(driver)


def test_other_profiles_begin_without_reservations() -> None:
    driver = a_driver({"n1": 2})
    a_waiting_gang(driver)
    driver.machine.handle(ProfilesReplaced((*driver.machine.profiles.values(),)), driver.now)
    assert no_reservations(driver)


def test_who_waits_because_of_reservations_is_told_so() -> None:
    driver = a_driver({"n1": 2})
    a_waiting_gang(driver)
    driver.show(small(1))
    assert driver.told["s1"] == "0/1 nodes are available: 1 GPU reserved for other pods."
    driver.now += 5
    found = why(driver.machine, PodKey("default", "s1"))
    driver.turn()
    assert found is not None
    text = '2 cards are reserved for pod group "default/g", for 0 s now'
    assert text in found.advice


def test_who_has_reservations_is_told_that_they_are_its_own() -> None:
    driver = a_driver({"n1": 2})
    a_waiting_gang(driver)
    (uid, *_) = driver.machine.reservations.holders[0].uids
    found = why(driver.machine, driver.machine.records[uid].pod.key)
    assert found is not None
    text = "2 cards are reserved for it, for 0 s now: it starts when those who hold them end"
    assert text in found.advice


def test_an_reservation_is_shown_apart_from_what_is_in_use() -> None:
    driver = a_driver({"n1": 2})
    a_waiting_gang(driver)
    (node,) = cluster_view(driver.machine).nodes
    assert sorted(card.used_milli for card in node.cards) == [0, 1000]
    assert [card.reserved_milli for card in node.cards] == [1000, 1000]
    assert {card.reserved_for for card in node.cards} == {('pod group "default/g"',)}
    (figures,) = card_figures(driver.machine)
    assert sorted(figures.allocated_milli) == [0, 1000]
    assert sorted(figures.tenants) == [0, 1]
    assert ledger_figures(driver.machine).reserved_cards == 2
    assert ledger_figures(driver.machine).overcommitted_cards == 0
