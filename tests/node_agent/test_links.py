"""How cards reach each other."""

from typing import Any

from kubeshare_py.domain.card_reading import BusPath, CardReading, Fabric, FarEnd, OwnLink
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.links import card_links
from tests.node_agent.readings import a_card

SWITCH = OwnLink(far_end=FarEnd.SWITCH, speed=50_000)
READY = Fabric(cluster="", clique=0, is_ready=True)


def two(one: dict[str, Any], other: dict[str, Any]) -> list[CardReading]:
    """Two cards with a switch between them."""
    path = BusPath.PIX
    a = {"bus": "a", "bus_speed": 64_000, "paths": ((GpuUuid("GPU-b"), path),), **one}
    b = {"bus": "b", "bus_speed": 32_000, "paths": ((GpuUuid("GPU-a"), path),), **other}
    return [a_card("GPU-a", **a), a_card("GPU-b", **b)]


def kinds(cards: list[CardReading]) -> dict[tuple[str, str], tuple[str, int]]:
    return {(link.uuid, link.peer): (link.kind, link.speed) for link in card_links(cards)}


def both(cards: list[CardReading]) -> tuple[str, int]:
    """What is said of both directions."""
    found = kinds(cards)
    assert found.keys() == {("GPU-a", "GPU-b"), ("GPU-b", "GPU-a")}
    (answer,) = {*found.values()}
    return answer


def direct(bus: str, count: int) -> tuple[OwnLink, ...]:
    return (OwnLink(far_end=FarEnd.CARD, speed=50_000, bus=bus),) * count


def test_without_links_of_their_own_it_is_the_bus_as_fast_as_the_slower_one() -> None:
    assert both(two({}, {})) == ("PIX", 32_000)


def test_direct_links_are_counted() -> None:
    assert both(two({"links": direct("b", 2)}, {"links": direct("a", 2)})) == ("NV2", 100_000)


def test_direct_links_to_others_do_not_count() -> None:
    assert both(two({"links": direct("c", 2)}, {"links": direct("d", 2)})) == ("PIX", 32_000)


def test_over_switches_the_card_with_fewer_links_decides() -> None:
    cards = two({"links": (SWITCH,) * 12}, {"links": (SWITCH,) * 10})
    assert both(cards) == ("NV10", 500_000)


def test_a_card_without_a_link_that_is_up_is_reached_over_the_bus() -> None:
    assert both(two({"links": (SWITCH,) * 12}, {})) == ("PIX", 32_000)


def test_cards_of_one_clique_reach_each_other() -> None:
    own = {"links": (SWITCH,), "fabric": READY}
    assert both(two(own, own))[0] == "NV1"


def test_cards_of_different_cliques_do_not() -> None:
    own = {"links": (SWITCH,), "fabric": READY}
    other = {"links": (SWITCH,), "fabric": Fabric(cluster="", clique=1, is_ready=True)}
    assert both(two(own, other))[0] == "PIX"


def test_a_fabric_that_is_not_ready_is_no_way() -> None:
    own = {"links": (SWITCH,), "fabric": Fabric(cluster="", clique=0, is_ready=False)}
    assert both(two(own, own))[0] == "PIX"
    assert both(two(own, {"links": (SWITCH,)}))[0] == "PIX"


def test_a_divided_card_has_no_use_of_its_links() -> None:
    own = {"links": direct("b", 2), "divided": True}
    assert both(two(own, {"links": direct("a", 2)})) == ("PIX", 32_000)


def test_instances_have_no_links() -> None:
    instance = a_card("MIG-1", parent="GPU-a")
    assert len(kinds([*two({}, {}), instance])) == 2


def test_what_nobody_says_is_not_told() -> None:
    assert kinds(two({"paths": ()}, {"paths": ()})) == {}


def test_a_bus_of_unknown_speed_is_0() -> None:
    assert both(two({"bus_speed": None}, {})) == ("PIX", 0)
