"""Members of a gang go near each other: one node, rack, zone or region where there is room."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import InventoryRead, NodeSeen, NodesListed
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.topology.topology_labels import CLIQUE
from tests.making import Driver, a_claim, a_group, a_node, a_pod, a_shape, members, some_gpus, whole
from tests.scale import examples

ZONE, RACK = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
SCORES_ALONE = {
    "apiVersion": "kubeshare.io/v1",
    "kind": "KubeShareSchedulerConfiguration",
    "profiles": [{"plugins": {"locality": {"disabled": [{"name": "*"}]}}}],
}


def cluster(places: Mapping[str, tuple[str, str, int]], document: object = None) -> Driver:
    """Nodes by name: zone, rack, cards."""
    driver = Driver({}, document)
    nodes = tuple(
        a_node(name, labels={key: value for key, value in ((ZONE, zone), (RACK, rack)) if value})
        for name, (zone, rack, _) in places.items()
    )
    cards = tuple(
        (NodeName(name), some_gpus(name, count)) for name, (_, _, count) in places.items()
    )
    driver.tell(NodesListed(nodes), InventoryRead(cards))
    return driver


def four_racks(cards: int = 2, document: object = None) -> Driver:
    """Two zones of two racks of two nodes."""
    return cluster(
        {
            f"{zone}{rack}{node}": (zone, f"r{rack}", cards)
            for node in (0, 1)
            for rack in (0, 1)
            for zone in ("a", "b")
        },
        document,
    )


def nodes_of(binds: list[Bind]) -> set[str]:
    return {str(bind.node) for bind in binds}


@pytest.mark.parametrize(
    ("cards", "count", "chosen"),
    [
        pytest.param({"n1": 1, "n2": 4, "n3": 1}, 4, {"n2"}, id="the one node that holds it"),
        pytest.param({"n1": 8, "n2": 3, "n3": 4}, 3, {"n2"}, id="the one that is then fullest"),
        pytest.param(
            {"n1": 4, "n2": 1, "n3": 1, "n4": 3, "n5": 1}, 6, {"n1", "n4"}, id="few nodes"
        ),
        pytest.param(
            {"n1": 4, "n2": 4, "n3": 2, "n4": 3}, 6, {"n1", "n3"}, id="the rest where it fits best"
        ),
    ],
)
@pytest.mark.parametrize("labelled", [True, False], ids=["in one rack", "without labels"])
def test_a_gang_gets_nodes_that_it_fills(
    cards: dict[str, int], count: int, chosen: set[str], labelled: bool
) -> None:
    in_rack = {name: ("a", "r", free) for name, free in cards.items()}
    driver = cluster(in_rack) if labelled else Driver(cards)
    assert nodes_of(driver.show(*members(a_group(count), count))) == chosen


def test_a_gang_that_fits_one_rack_gets_one() -> None:
    driver = four_racks()
    binds = driver.show(*members(a_group(4), 4))
    assert len({node[:2] for node in nodes_of(binds)}) == 1
    assert len(binds) == 4


def test_a_gang_that_fits_one_zone_gets_one() -> None:
    driver = four_racks()
    binds = driver.show(*members(a_group(6), 6))
    assert len({node[0] for node in nodes_of(binds)}) == 1
    assert len(nodes_of(binds)) == 3


def test_racks_of_two_zones_are_two_though_they_have_one_name() -> None:
    driver = cluster({"a1": ("a", "r", 1), "b1": ("b", "r", 1), "b2": ("b", "r", 1)})
    assert nodes_of(driver.show(*members(a_group(2), 2))) == {"b1", "b2"}


def test_a_gang_that_no_place_holds_uses_few_of_them() -> None:
    driver = four_racks()
    binds = driver.show(*members(a_group(10), 10))
    racks = {node[:2] for node in nodes_of(binds)}
    assert (len(binds), len(racks), len({rack[0] for rack in racks})) == (10, 3, 2)


def test_nodes_without_labels_are_used_as_well() -> None:
    driver = cluster({"a1": ("a", "r", 1), "x1": ("", "", 1), "x2": ("", "", 1)})
    assert len(driver.show(*members(a_group(3), 3))) == 3


def test_pods_of_several_cards_go_near_each_other_too() -> None:
    driver = four_racks(4)
    binds = driver.show(*members(a_group(2), 2, whole(4)))
    assert len({node[:2] for node in nodes_of(binds)}) == 1


def test_members_of_different_shapes_stay_in_one_rack() -> None:
    driver = four_racks()
    pods = [*members(a_group(3), 1, whole(2)), *members(a_group(3), 2, start=1)]
    binds = driver.show(*pods)
    assert len(binds) == 3
    assert len({node[:2] for node in nodes_of(binds)}) == 1


def test_members_that_want_no_card_leave_the_choice_to_scores() -> None:
    driver = cluster({"a-gpu": ("a", "r", 4), "cpu1": ("a", "r", 0), "cpu2": ("b", "r", 0)})
    group = a_group(2)
    pods = [a_pod(f"c{number}", a_shape(), group=group) for number in range(2)]
    assert "a-gpu" not in nodes_of(driver.show(*pods))


def test_members_above_the_minimum_go_near_the_others() -> None:
    driver = four_racks()
    pods = members(a_group(3, headcount=4), 3)
    binds = driver.show(*pods)
    assert {node[:2] for node in nodes_of(binds)} == {"a0"}
    # Alone it would go where a card is in use already.
    other = a_pod("s", a_shape(a_claim(400), node_selector=((ZONE, "b"),)))
    driver.show(other)
    [late] = driver.show(*members(a_group(3, headcount=4), 1, a_claim(500), start=3))
    assert str(late.node)[:2] == "a0"


def test_a_member_that_replaces_a_dead_one_goes_near_the_others() -> None:
    driver = four_racks()
    pods = members(a_group(4), 4)
    binds = driver.show(*pods)
    driver.bound(binds, *pods)
    driver.gone(pods[0])
    # Alone it would go where a card is in use already.
    driver.show(a_pod("s", a_shape(a_claim(400), node_selector=((ZONE, "b"),))))
    [again] = driver.show(*members(a_group(4), 1, a_claim(500), start=4))
    assert str(again.node)[:2] in {node[:2] for node in nodes_of(binds)}


def test_the_rest_of_an_interrupted_start_goes_near_what_is_bound() -> None:
    driver = cluster({"a1": ("a", "r", 1), "b1": ("b", "r", 1), "b2": ("b", "r", 1)})
    group = a_group(2)
    pods = members(group, 2)
    binds = driver.show(*pods)
    driver.bound(binds[:1], *pods)
    driver.gone(pods[1])
    [again] = driver.show(*members(group, 1, start=2))
    assert {str(binds[0].node), str(again.node)} == {"b1", "b2"}


def test_without_the_plugin_scores_alone_decide() -> None:
    cards = {"n1": ("a", "r", 1), "n2": ("b", "r", 1), "n3": ("b", "s", 4)}
    alone, near = cluster(cards, SCORES_ALONE), cluster(cards)
    assert "n3" not in nodes_of(alone.show(*members(a_group(2), 2)))
    assert nodes_of(near.show(*members(a_group(2), 2))) == {"n3"}


def test_a_fabric_is_one_place_across_racks() -> None:
    driver = cluster({"a1": ("a", "r", 1), "a2": ("a", "r", 1), "a3": ("a", "s", 1)})
    for name, rack, clique in (("a1", "r", "c1"), ("a2", "r", "c2"), ("a3", "s", "c1")):
        labels = {ZONE: "a", RACK: rack, CLIQUE: clique}
        driver.tell(NodeSeen(a_node(name, labels=labels)))
    assert nodes_of(driver.show(*members(a_group(2), 2))) == {"a1", "a3"}


def test_places_follow_the_labels_of_nodes() -> None:
    driver = cluster({"n1": ("a", "r1", 1), "n2": ("a", "r2", 1), "n3": ("a", "r3", 1)})
    first = members(a_group(2, "before"), 2)
    driver.show(*first)
    driver.gone(*first)
    labels = {ZONE: "a", RACK: "r3"}
    driver.tell(NodeSeen(a_node("n1", labels=labels)))
    assert nodes_of(driver.show(*members(a_group(2), 2))) == {"n1", "n3"}


@dataclass(frozen=True)
class Site:
    """A node of the property: where it is, and how many cards are free."""

    zone: str
    rack: str
    cards: int


SITES = st.lists(
    st.builds(
        Site, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "r", "s"]), st.integers(0, 4)
    ),
    min_size=1,
    max_size=10,
)


@examples(150)
@given(SITES, st.integers(2, 8), st.sampled_from([(a_claim(1000), 1), (a_claim(500), 2)]))
def test_if_one_place_can_hold_a_gang_it_uses_no_other(
    sites: list[Site], count: int, asked: tuple[GpuClaim, int]
) -> None:
    claim, a_card = asked
    named = {f"n{number}": site for number, site in enumerate(sites)}
    driver = cluster({name: (one.zone, one.rack, one.cards) for name, one in named.items()})
    binds = driver.show(*members(a_group(count), count, claim))
    total = sum(site.cards for site in sites) * a_card
    assert len(binds) == (count if total >= count else 0)
    for level in (_node, _rack, _zone):
        room: dict[object, int] = {}
        for name, site in named.items():
            if (place := level(name, site)) is not None:
                room[place] = room.get(place, 0) + site.cards * a_card
        if any(free >= count for free in room.values()):
            assert len({level(str(bind.node), named[str(bind.node)]) for bind in binds}) == 1
            return


def _node(name: str, site: Site) -> object:
    return name


def _rack(name: str, site: Site) -> object:
    return (site.zone, site.rack) if site.rack else None


def _zone(name: str, site: Site) -> object:
    return site.zone or None
