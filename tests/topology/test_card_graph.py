"""Cards of a node as a graph, and the bandwidth between them that comes of it."""

import networkx as nx
import pytest

from kubeshare_py.domain.card_reading import CardLink
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.topology.card_graph import NODE, card_graph
from kubeshare_py.topology.node_topology import topology_of
from kubeshare_py.topology.wiring import BUS_PERCENT, nvlinks, speed, with_links
from tests.making import a_gpu
from tests.topology.boards import BOARDS, board, linked, uuid


def kinds(cards: tuple[Gpu, ...]) -> dict[str, int]:
    """How many vertices of each kind."""
    found: dict[str, int] = {}
    for kind, _ in card_graph(cards):
        found[kind] = found.get(kind, 0) + 1
    return found


def between(links: dict[tuple[int, int], tuple[str, int]], count: int = 2) -> int:
    return topology_of(linked(count, links)).bandwidth[0][1]


def test_cards_behind_switches_hang_on_one_and_not_on_each_other() -> None:
    assert kinds(BOARDS["dgx-a100"]) == {"card": 8, "nvswitch": 1, "numa": 2, "node": 1}
    graph = card_graph(BOARDS["dgx-a100"])
    assert not any({one[0], other[0]} == {"card"} for one, other in graph.edges)


def test_cards_of_a_cube_mesh_are_linked_to_each_other() -> None:
    graph = card_graph(BOARDS["dgx-1v"])
    direct = [edge for edge in graph.edges if {end[0] for end in edge} == {"card"}]
    assert len(direct) == 16
    assert "nvswitch" not in kinds(BOARDS["dgx-1v"])


def test_four_cards_that_are_linked_each_to_each_need_no_switch() -> None:
    assert "nvswitch" not in kinds(BOARDS["hgx-a100-4"])


def test_the_bus_is_a_tree_of_switches_and_bridges() -> None:
    assert kinds(BOARDS["t4-box"]) == {
        **dict.fromkeys(("PIX", "PXB", "PHB", "NODE", "SYS", "node"), 1),
        "card": 6,
    }
    graph = card_graph(BOARDS["t4-box"])
    assert nx.is_tree(graph)
    assert nx.shortest_path(graph, ("card", 0), ("card", 5))[1:-1] == [
        ("PIX", 0), ("PXB", 0), ("PHB", 0), ("NODE", 0), ("SYS", 0)
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_every_card_is_in_the_node(name: str) -> None:
    graph = card_graph(BOARDS[name])
    assert nx.is_connected(graph)
    assert NODE in graph


def test_nearer_cards_have_more_of_the_same_bus() -> None:
    row = board("t4-box").bandwidth[0]
    assert row == (0, 32_000, 28_800, 24_000, 20_800, 16_000)
    assert list(BUS_PERCENT.values()) == sorted(BUS_PERCENT.values(), reverse=True)


def test_nvlink_is_as_fast_as_it_says_or_else_by_the_number_of_links() -> None:
    """Two links are twice as fast as one where their speed is not known."""
    assert between({(0, 1): ("NV2", 51_562)}) == 51_562
    assert between({(0, 1): ("NV2", 0)}) == 100_000


def test_over_a_switch_the_card_with_fewer_links_decides() -> None:
    """Through NVSwitch a pair has as many links as the card of both that has fewer."""
    matrix = board("dgx-a100-links-down").bandwidth
    assert matrix[0] == (0, 600_000, 600_000, 500_000, 600_000, 600_000, 600_000, 600_000)
    assert set(matrix[3]) == {0, 500_000}


def test_a_card_is_no_way_for_others() -> None:
    # 0 and 5 of a DGX-1V have NVLink to 1 and 4, not to each other.
    assert board("dgx-1v").bandwidth[0][5] == 16_000
    three = {(0, 1): ("SYS", 32_000), (0, 2): ("NV4", 200_000), (1, 2): ("NV4", 200_000)}
    assert between(three, 3) == 16_000


def test_the_slower_bus_decides() -> None:
    links = {(0, 1): ("PIX", 16_000), (0, 2): ("PIX", 16_000), (1, 2): ("PIX", 64_000)}
    matrix = topology_of(linked(3, links)).bandwidth
    assert matrix == ((0, 16_000, 16_000), (16_000, 0, 64_000), (16_000, 64_000, 0))


def test_where_the_ends_differ_the_lesser_counts() -> None:
    cards = [
        a_gpu("a", index=0, links=(PeerLink(1, "NV4", 0),)),
        a_gpu("b", index=1, links=(PeerLink(0, "NV2", 0), PeerLink(7, "NV4", 0))),
    ]
    assert topology_of(cards).bandwidth[0][1] == 100_000


def test_words_that_nobody_knows_are_no_links() -> None:
    assert between({(0, 1): ("warp", 9_000)}) == 0
    assert speed(PeerLink(1, "warp", 9_000)) == 0
    assert (nvlinks("NV12"), nvlinks("NV"), nvlinks("NVX"), nvlinks("SYS")) == (12, 0, 0, 0)


def test_of_one_numa_node_is_better_than_nothing() -> None:
    cards = [a_gpu(uuid(at), index=at, numa_node=(0, 1, 0, None)[at]) for at in range(4)]
    assert topology_of(cards).bandwidth == ((0, 0, 1, 0), (0, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0))


def test_links_are_told_by_uuid_and_kept_by_index() -> None:
    cards = [a_gpu("b", index=4), a_gpu("a", index=2), a_gpu("MIG", index=7, parent="c")]
    told = [("a", "b"), ("b", "a"), ("a", "gone"), ("gone", "a"), ("a", "a"), ("MIG", "a")]
    links = [
        CardLink(uuid=GpuUuid(one), peer=GpuUuid(other), kind="NV4", speed=5) for one, other in told
    ]
    b, a, part = with_links(cards, links)
    assert (a.links, b.links) == ((PeerLink(4, "NV4", 5),), (PeerLink(2, "NV4", 5),))
    assert part.links == ()
    assert with_links([a], []) == (a_gpu("a", index=2),)


def test_equal_links_are_kept_once() -> None:
    one, other = (with_links(BOARDS["dgx-a100"], again("dgx-a100")) for _ in range(2))
    assert one == other
    assert all(a.links is b.links for a, b in zip(one, other, strict=True))


def again(name: str) -> list[CardLink]:
    cards = {card.index: card for card in BOARDS[name]}
    return [
        CardLink(uuid=card.uuid, peer=cards[link.peer].uuid, kind=link.kind, speed=link.speed)
        for card in cards.values()
        for link in card.links
    ]
