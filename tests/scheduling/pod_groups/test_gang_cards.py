"""Members of a gang get cards that are near each other, and near those that it has."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest

from kubeshare_py.domain.events import InventoryRead, NodeSeen, PodSeen
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from tests.making import MODEL, Driver, a_claim, a_group, a_node, a_pod, a_shape, members, whole
from tests.making.boards import boarded, cards_of, on, started
from tests.making.driver import Cards
from tests.topology.boards import BOARDS

DGX, PCIE, BRIDGES = BOARDS["dgx-1v"], BOARDS["pcie"], BOARDS["bridges"]
QUADS = (on("n", 0, 1, 2, 3), on("n", 4, 5, 6, 7))
DOUBLES = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
ONE, HALF = a_claim(1000), a_claim(500)


def without(point: str, *names: str) -> dict[str, object]:
    disabled = [{"name": name} for name in names]
    return {"profiles": [{"plugins": {point: {"disabled": disabled}}}]}


NO_LOCALITY = without("locality", "*")


def one(board: Iterable[Gpu] = DGX, **fields: Any) -> Driver:
    """A cluster of one node."""
    return boarded({"n": board}, **fields)


def together(found: list[Cards]) -> Cards:
    return {card for cards in found for card in cards}


@pytest.mark.parametrize("claim", [ONE, whole(1)])
def test_four_members_of_one_card_get_a_quad(claim: GpuClaim) -> None:
    driver = one()
    assert together(started(driver, *members(a_group(4), 4, claim))) == QUADS[0]
    driver = one()
    driver.use("n", 2)
    assert together(started(driver, *members(a_group(4), 4, claim))) == QUADS[1]


def test_pods_without_a_group_keep_out_of_the_intact_quad() -> None:
    driver = one()
    driver.use("n", 2)
    found = together([cards_of(driver.place(a_pod(f"p{at}", a_shape(ONE)))) for at in range(3)])
    assert found == on("n", 0, 1, 3)


def test_two_members_of_two_cards_get_pairs_of_one_quad() -> None:
    driver = one()
    driver.use("n", 6)
    found = started(driver, *members(a_group(2), 2, whole(2)))
    assert together(found) == QUADS[0]
    assert all(tuple(sorted(index for _, index in cards)) in DOUBLES for cards in found)


def test_members_that_share_cards_break_the_best_set_of_them() -> None:
    driver = one()
    driver.use("n", 6)
    found = together(started(driver, *members(a_group(4), 4, HALF)))
    # Two cards for four halves: those that a pod of two would get.
    assert found == on("n", 4, 7)
    driver = one()
    driver.use("n", 6, milli=500)
    each = started(driver, *members(a_group(3), 3, HALF))
    # The fullest card that fits comes first, and counts as the gang's.
    assert on("n", 6) in each
    assert together(each) - on("n", 6) in (on("n", 5), on("n", 7))


def test_of_equally_full_cards_a_gang_s_own_and_the_nearest_come_first() -> None:
    driver = one()
    pods = members(a_group(2, headcount=9), 2, a_claim(600))
    found = together(started(driver, *pods))
    driver.use("n", *{*range(8)} - {index for _, index in found}, milli=600)
    [third] = started(driver, *members(a_group(2, headcount=9), 1, a_claim(400), start=2))
    assert third < found
    [fourth] = started(driver, *members(a_group(2, headcount=9), 1, a_claim(400), start=3))
    assert third | fourth == found
    [fifth] = started(driver, *members(a_group(2, headcount=9), 1, a_claim(400), start=4))
    (quad,) = (quad for quad in QUADS if found <= quad)
    assert fifth < quad


def test_members_of_different_sizes_stay_in_one_quad() -> None:
    driver = one()
    driver.use("n", 1)
    pods = [*members(a_group(3), 1, whole(2)), *members(a_group(3), 2, ONE, start=1)]
    assert together(started(driver, *pods)) == QUADS[1]


def test_over_the_bus_members_get_cards_of_one_switch_then_of_one_socket() -> None:
    driver = one(PCIE)
    driver.use("n", 1)
    assert together(started(driver, *members(a_group(2), 2))) == on("n", 2, 3)
    assert together(started(driver, *members(a_group(4, "more"), 4))) == on("n", 4, 5, 6, 7)


def test_each_member_of_two_cards_gets_a_bridge() -> None:
    driver = one(BRIDGES)
    driver.use("n", 1, 6)
    found = started(driver, *members(a_group(2), 2, whole(2)))
    assert sorted(map(sorted, found)) == [sorted(on("n", 2, 3)), sorted(on("n", 4, 5))]


def test_a_node_with_too_few_cpus_for_all_of_its_cards_gives_near_ones() -> None:
    driver = boarded({"a": PCIE, "b": PCIE}, cpu=200)
    for node in ("a", "b"):
        driver.use(node, 1)
    found = together(started(driver, *members(a_group(4), 4)))
    # Two on each, where a pair of the broken half is left.
    assert found == on("a", 2, 3) | on("b", 2, 3)


def test_only_cards_of_the_model_are_looked_at() -> None:
    driver = one()
    mixed = tuple(
        replace(card, model="T4" if card.index in (0, 5, 6) else MODEL)
        for card in driver.cards_on("n")
    )
    driver.tell(InventoryRead(((NodeName("n"), mixed),)))
    found = together(started(driver, *members(a_group(2), 2, a_claim(1000, models=("T4",)))))
    assert found == on("n", 5, 6)


@pytest.mark.parametrize("claim", [ONE, whole(1)])
def test_who_replaces_a_dead_member_gets_the_nearest_card(claim: GpuClaim) -> None:
    driver = one()
    pods = members(a_group(3), 3, claim)
    found = started(driver, *pods)
    (home,) = (one for one in QUADS if together(found) < one)
    driver.gone(pods[1])
    # Alone it would get one of the other quad, which is broken more.
    driver.use("n", *[index for quad in QUADS if quad != home for _, index in sorted(quad)][:3])
    [again] = started(driver, *members(a_group(3), 1, claim, start=3))
    assert again < home


def test_members_above_the_minimum_get_near_cards_all_together() -> None:
    driver = one()
    group = a_group(2, headcount=4)
    first = together(started(driver, *members(group, 2)))
    assert first < QUADS[0]
    # Alone they would be spread over both quads.
    driver.use("n", 5, 6)
    more = together(started(driver, *members(group, 2, start=2)))
    assert first | more == QUADS[0]


def test_of_nodes_with_members_the_one_with_the_nearest_card_is_taken() -> None:
    driver = boarded({"a": DGX, "b": DGX})
    driver.use("a", 1, 2, 3, 5, 6)
    driver.use("b", 4, 5, 6)
    group = a_group(8, headcount=9)
    pods = members(group, 8)
    found = started(driver, *pods)
    assert len(together(found)) == 8
    # One dies on each node; others take what they had next to those of the gang.
    dead = [pods[found.index(on("a", 0))], pods[found.index(on("b", 2))]]
    driver.gone(*dead)
    [again] = started(driver, *members(group, 1, start=8))
    # 2 of b has three cards of its quad beside it; 0 of a one card over NVLink.
    assert again == on("b", 2)


def test_a_card_that_a_member_shares_is_nearer_than_any_other() -> None:
    driver = boarded({"a": DGX, "b": DGX})
    for node in ("a", "b"):
        driver.use(node, 1, 2, 3, 4, 5, 6, 7)
    group = a_group(2, headcount=3)
    assert together(started(driver, *members(group, 2, a_claim(600)))) == on("a", 0) | on("b", 0)
    driver.use("b", 0, milli=400)
    driver.unuse("b", 3)
    [third] = started(driver, *members(group, 1, a_claim(400), start=2))
    assert third == on("a", 0)


def test_after_a_restart_a_member_comes_back_to_the_others() -> None:
    driver = one()
    pods = members(a_group(3), 3)
    found = started(driver, *pods)
    fresh = one()
    fresh.use("n", 5)
    for pod in pods[:2]:
        record = driver.machine.records[pod.uid]
        fresh.tell(PodSeen(replace(pod, node_name=record.node, allocation=record.allocation)))
    [again] = started(fresh, *members(a_group(3), 1, start=3))
    (home,) = (quad for quad in QUADS if together(found) < quad)
    assert again < home


def test_without_locality_or_topology_cards_come_in_the_order_of_other_pods() -> None:
    for document in (NO_LOCALITY, without("cardScore", "Topology")):
        driver, alone = one(document=document), one(document=document)
        for cluster in (driver, alone):
            cluster.use("n", 2)
        found = together(started(driver, *members(a_group(3), 3)))
        pods = [a_pod(f"p{at}", a_shape(ONE)) for at in range(3)]
        assert found == together([cards_of(alone.place(pod)) for pod in pods])
        assert found != QUADS[1]


def test_without_locality_members_that_must_be_in_one_place_get_cards_in_order_too() -> None:
    found = []
    for document in (NO_LOCALITY, None):
        driver = one(document=document)
        driver.tell(NodeSeen(a_node("n", labels={"zone": "z"})))
        group = replace(a_group(2, headcount=3), within="zone")
        driver.use("n", 4, 5)
        assert together(started(driver, *members(group, 2))) == on("n", 6, 7)
        found += started(driver, *members(group, 1, start=2))
    # 0 is the first of an intact quad; 2 and 3 have links to 6 and 7.
    assert found[0] == on("n", 0)
    assert found[1] in (on("n", 2), on("n", 3))


def test_nearness_keeps_nobody_waiting() -> None:
    driver = one()
    driver.use("n", 1, 6)
    found = started(driver, *members(a_group(6), 6))
    assert len(together(found)) == 6


def test_cards_that_left_the_inventory_are_not_near_anybody() -> None:
    driver = one()
    group = a_group(2, headcount=3)
    found = started(driver, *members(group, 2))
    ((_, gone),) = found[0]
    rest = tuple(card for card in driver.cards_on("n") if card.index != gone)
    driver.tell(InventoryRead(((NodeName("n"), rest),)))
    [late] = started(driver, *members(group, 1, start=2))
    assert len(late) == 1


def test_every_pair_of_nodes_with_equal_cards_decides_alike() -> None:
    def run() -> list[Cards]:
        driver = boarded({"a": DGX, "b": PCIE})
        driver.use("a", 3)
        pods: list[Pod] = [*members(a_group(3), 1, whole(2)), *members(a_group(3), 2, HALF, 1)]
        return started(driver, *pods)

    assert all(one == other for one, other in combinations([run() for _ in range(3)], 2))


def two_pairs_or_a_quad(document: object = None, *more: str) -> Driver:
    """Of p two idle cards of each quad without links, of q an intact quad and one card more."""
    driver = boarded(dict.fromkeys(("p", "q", *more), DGX), document)
    driver.use("p", 2, 3, 4, 5)
    driver.use("q", 5, 6, 7)
    return driver


@pytest.mark.parametrize("claim", [ONE, a_claim(800), whole(1)])
def test_a_gang_goes_to_the_node_with_an_intact_quad(claim: GpuClaim) -> None:
    driver = two_pairs_or_a_quad()
    # It would be fuller on p, where its ring had to go over the bus.
    assert together(started(driver, *members(a_group(4), 4, claim))) == on("q", 0, 1, 2, 3)


def test_two_members_of_two_cards_go_there_too() -> None:
    driver = two_pairs_or_a_quad()
    found = together(started(driver, *members(a_group(2), 2, whole(2))))
    assert found == on("q", 0, 1, 2, 3)


def test_members_of_different_sizes_go_there_too() -> None:
    driver = two_pairs_or_a_quad()
    pods = [*members(a_group(3), 1, whole(2)), *members(a_group(3), 2, ONE, start=1)]
    assert together(started(driver, *pods)) == on("q", 0, 1, 2, 3)


def test_of_nodes_that_are_equally_good_the_fuller_is_taken() -> None:
    driver = boarded({"a": DGX, "b": DGX, "c": DGX, "d": DGX})
    driver.use("a", *range(7))
    driver.use("c", 4, 5)
    driver.use("d", 4, 5, 6, 7)
    assert together(started(driver, *members(a_group(4), 4))) == on("d", 0, 1, 2, 3)
    assert {node for node, _ in together(started(driver, *members(a_group(4, "h"), 4)))} == {"c"}


def test_faster_cards_of_an_emptier_node_are_left_to_others_if_the_rest_is_equal() -> None:
    driver = boarded({"fast": BOARDS["dgx-a100"], "full": PCIE})
    driver.use("fast", 0)
    driver.use("full", 2, 3, 4, 5, 6, 7)
    assert together(started(driver, *members(a_group(2), 2))) == on("full", 0, 1)


def test_only_those_that_must_start_together_are_counted() -> None:
    driver = two_pairs_or_a_quad()
    found = [cards_of(bind) for bind in driver.show(*members(a_group(4, headcount=6), 6))]
    assert on("q", 0, 1, 2, 3) <= together(found)


def test_shares_go_to_the_fullest_node_however_its_cards_are_joined() -> None:
    driver = boarded({"p": DGX, "q": DGX})
    driver.use("p", 1, 2, 4, 5, 6, 7)
    driver.use("q", 4, 5, 6)
    assert {node for node, _ in together(started(driver, *members(a_group(4), 4, HALF)))} == {"p"}


def test_without_topology_at_score_the_fullest_node_is_taken() -> None:
    driver = two_pairs_or_a_quad(without("score", "Topology"))
    assert {node for node, _ in together(started(driver, *members(a_group(4), 4)))} == {"p"}


def test_that_must_be_in_one_zone_it_goes_to_the_best_node_of_those_too() -> None:
    driver = two_pairs_or_a_quad(None, "r")
    for node in ("p", "q"):
        driver.tell(NodeSeen(a_node(node, labels={"zone": "z"})))
    group = replace(a_group(4), within="zone")
    assert together(started(driver, *members(group, 4))) == on("q", 0, 1, 2, 3)
