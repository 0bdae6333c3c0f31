"""Which card is in which cell. Cases marked (fix) differ from KubeShare 2.0 on purpose."""

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.topology.card_sets import islands, members
from kubeshare_py.topology.cells import CardsInCells, Cells, leaves_by_node, with_cells
from kubeshare_py.topology.node_topology import topology_of
from tests.making import MODEL, a_gpu
from tests.topology.boards import BOARDS
from tests.topology.test_cells import a_type, cells

V100 = "Tesla-V100-PCIE-32GB"
GTX = "NVIDIA-GeForce-GTX-1080"
RACK = "- {cellType: RACK, cellChildren: [{cellId: juno}, {cellId: apple}, {cellId: banana}]}"
UBUNTU = "- {cellType: SOCKETS, cellChildren: [{cellId: ubuntu}, {cellId: ubuntu}]}"


def cards(count: int, model: str = V100, first: int = 0) -> list[Gpu]:
    """Cards u0, u1 …"""
    return [a_gpu(f"u{at}", index=at, model=model) for at in range(first, first + count)]


def placed(found: Cells, node: str, there: list[Gpu]) -> dict[str, str]:
    """The cell of each card that has one."""
    told = with_cells(leaves_by_node(found), NodeName(node), there).cards
    return {card.uuid: card.cell_id for card in told if card.cell_id}


def notes(listed: str, node: str, there: list[Gpu]) -> tuple[str, ...]:
    return with_cells(leaves_by_node(cells(listed)), NodeName(node), there).notes


def test_the_first_card_is_the_last_leaf() -> None:
    found = placed(cells("- {cellType: FOUR, cellId: node}"), "node", cards(4))
    assert found == {"u0": "node/4", "u1": "node/3", "u2": "node/2", "u3": "node/1"}


def test_over_several_levels_too() -> None:
    found = placed(cells("- {cellType: BOX, cellId: n}"), "n", cards(4, "A100"))
    assert found == {"u0": "n/2/4", "u1": "n/2/3", "u2": "n/1/2", "u3": "n/1/1"}


def test_cards_are_counted_by_index_and_not_by_its_digits() -> None:
    """(fix) Prometheus sorts 10 before 2, and KubeShare takes the cards as they come."""
    found = placed(cells(UBUNTU), "ubuntu", cards(8, first=4)[::-1])
    assert found["u4"] == "1/ubuntu/8"
    assert found["u11"] == "1/ubuntu/1"


def test_every_host_of_a_cell_over_several_gets_its_cards() -> None:
    """(fix) In KubeShare only the first host that is seen does."""
    rack = cells(RACK)
    assert [*leaves_by_node(rack)] == ["juno", "apple", "banana"]
    found = [placed(rack, node, cards(2, GTX)) for node in leaves_by_node(rack)]
    assert found == [
        {"u0": "1/juno/2", "u1": "1/juno/1"},
        {"u0": "1/apple/4", "u1": "1/apple/3"},
        {"u0": "1/banana/6", "u1": "1/banana/5"},
    ]


def test_a_leaf_gives_its_card_a_priority() -> None:
    listed = cells("- {cellType: FOUR, cellId: n}\n- {cellType: PAIR, cellId: n}")
    told = with_cells(
        leaves_by_node(listed), NodeName("n"), [*cards(4), *cards(2, GTX, 4), a_gpu("x", index=9)]
    )
    assert [card.cell_priority for card in told.cards] == [100, 100, 100, 100, 11, 11, 0]


def test_cards_of_other_nodes_are_in_no_cell() -> None:
    assert with_cells(leaves_by_node(cells(RACK)), NodeName("pear"), cards(2, GTX)) == CardsInCells(
        tuple(cards(2, GTX)), ()
    )


def test_leaves_without_a_card_have_none() -> None:
    """(fix) In KubeShare they take pods that ask for no memory."""
    listed = "- {cellType: FOUR, cellId: n}"
    assert placed(cells(listed), "n", cards(2)) == {"u0": "n/4", "u1": "n/3"}
    assert notes(listed, "n", cards(2)) == (f"cells[0]: node n has 2 of 4 {V100}",)


def test_a_node_that_is_listed_twice_by_mistake_is_told_and_the_first_place_counts() -> None:
    copied = "- {cellType: RACK, cellChildren: [{cellId: juno}, {cellId: apple}, {cellId: juno}]}"
    assert placed(cells(copied), "juno", cards(2, GTX)) == {"u0": "1/juno/2", "u1": "1/juno/1"}
    assert notes(copied, "juno", cards(2, GTX)) == (
        "cells[0].cellChildren[2]: node juno is listed in cells[0].cellChildren[0] already, and "
        f"has no further {GTX}: the first place counts",
    )
    assert notes(copied, "juno", cards(4, GTX)) == ()


def test_a_node_that_is_listed_in_two_roots_by_mistake_is_told() -> None:
    listed = "- {cellType: FOUR, cellId: n}\n- {cellType: FOUR, cellId: n}"
    assert placed(cells(listed), "n", cards(4))["u0"] == "n/4"
    assert notes(listed, "n", cards(4)) == (
        f"cells[1]: node n is listed in cells[0] already, and has no further {V100}: the first "
        "place counts",
    )
    assert notes(listed, "n", cards(6)) == (f"cells[1]: node n has 2 of 4 {V100}",)


def test_a_model_that_nothing_has_is_noted_with_those_that_there_are() -> None:
    """(fix) In KubeShare its cells stay empty, without a word."""
    listed = f"{RACK}\n{UBUNTU}"
    assert notes(listed, "ubuntu", cards(8, "NVIDIA-A100")) == (
        f"cells[1].cellChildren[1]: node ubuntu has 0 of 8 {V100}; its cards are NVIDIA-A100",
        f"cells[1].cellChildren[0]: {', '.join(f'u{at}' for at in range(8))} are in no cell",
    )


def test_a_model_that_is_nearly_right_is_asked_for() -> None:
    (note, _) = notes(RACK, "apple", cards(2, "GeForce-GTX-1080"))
    assert note == (
        f"cells[0].cellChildren[1]: node apple has 0 of 2 {GTX}; is it GeForce-GTX-1080?"
    )


def test_cards_that_nobody_listed_are_noted() -> None:
    assert notes("- {cellType: ONE, cellId: c}", "c", cards(3, "NVIDIA-GeForce-RTX-2070")) == (
        "cells[0]: u1, u2 are in no cell",
    )


def levels(listed: str, node: str, there: list[Gpu]) -> list[list[tuple[int, ...]]]:
    told = with_cells(leaves_by_node(cells(listed)), NodeName(node), there).cards
    return [sorted(map(members, level)) for level in islands(topology_of(told).bandwidth)]


def test_where_no_links_are_told_cells_tell_what_is_near() -> None:
    assert levels(UBUNTU, "ubuntu", cards(8)) == [
        [(0, 1, 2, 3, 4, 5, 6, 7)],
        [(0, 1, 2, 3), (4, 5, 6, 7)],
    ]
    assert levels("- {cellType: BOX, cellId: n}", "n", cards(4, "A100"))[1] == [(0, 1), (2, 3)]


def test_three_levels_of_cells_in_a_node_are_three_distances() -> None:
    types = {
        "SWITCH": a_type("m", 2),
        "SOCKET": a_type("SWITCH", 2),
        "BOX": a_type("SOCKET", 2, node=True),
    }
    found = cells("- {cellType: BOX, cellId: n}", types)
    told = with_cells(leaves_by_node(found), NodeName("n"), cards(8, "m")).cards
    assert [link.kind for link in told[0].links] == ["PIX", "NODE", "NODE", *["SYS"] * 4]


def test_cards_directly_in_their_node_are_equally_near() -> None:
    told = with_cells(
        leaves_by_node(cells("- {cellType: FOUR, cellId: n}")), NodeName("n"), cards(4)
    ).cards
    assert {card.links for card in told} == {()}


def test_links_that_are_told_count_more_than_cells() -> None:
    there = [*BOARDS["pcie"]]
    types = {"N": a_type(MODEL, 8, node=True)}
    told = with_cells(
        leaves_by_node(cells("- {cellType: N, cellId: n}", types)), NodeName("n"), there
    ).cards
    assert [card.links for card in told] == [card.links for card in there]
    assert told[0].cell_id == "n/8"
