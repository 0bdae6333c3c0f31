"""Which cards of a board are taken."""

from itertools import combinations

import pytest

from kubeshare_py.topology.card_sets import (
    CardSets,
    PositionSet,
    broken,
    intact,
    islands,
    members,
    ring_bandwidths,
    totals,
)
from kubeshare_py.topology.node_topology import NodeTopology, topology_of
from tests.making import a_gpu
from tests.topology import plain
from tests.topology.boards import BOARDS, TWO_SOCKETS, bits, board, described, linked, uuid

EVERY = pytest.mark.parametrize("name", sorted(BOARDS))


def chosen(name: str, count: int, *taken: int) -> tuple[int, ...]:
    """What is chosen of a board when these are taken already."""
    sets = CardSets(board(name))
    idle = bits(*range(sets.board.count)) & ~bits(*taken)
    return members(sets.choose(PositionSet(idle), count))


@pytest.mark.slow
@EVERY
def test_all_sets_of_idle_cards_give_what_the_plain_way_gives(name: str) -> None:
    sets, matrix = CardSets(board(name)), board(name).bandwidth
    for idle in range(1 << len(matrix)):
        for count in range(1, len(matrix) + 1):
            found = frozenset(members(sets.choose(PositionSet(idle), count)))
            assert found == plain.best(matrix, members(PositionSet(idle)), count), (
                members(PositionSet(idle)),
                count,
            )
        assert [*sets.order(PositionSet(idle))] == plain.first_for_shares(
            matrix, members(PositionSet(idle))
        )


@EVERY
def test_nothing_has_a_faster_slowest_hop(name: str) -> None:
    sets, matrix = CardSets(board(name)), board(name).bandwidth
    everybody = range(len(matrix))
    for count in range(2, len(matrix) + 1):
        fastest = max(
            plain.slowest_hop(matrix, frozenset(one)) for one in combinations(everybody, count)
        )
        found = members(sets.choose(bits(*everybody), count))
        assert plain.slowest_hop(matrix, frozenset(found)) == fastest


def test_two_of_a_dgx_1v_share_two_nvlinks_and_a_quad() -> None:
    assert chosen("dgx-1v", 2) == (0, 3)
    assert chosen("dgx-1v", 2, 0, 3) == (1, 2)
    assert chosen("dgx-1v", 2, 0, 3, 1, 2) == (4, 7)


def test_four_of_a_dgx_1v_are_a_quad() -> None:
    assert chosen("dgx-1v", 4) == (0, 1, 2, 3)
    assert chosen("dgx-1v", 4, 2) == (4, 5, 6, 7)


def test_five_of_a_dgx_1v_go_round_without_leaving_nvlink() -> None:
    sets = CardSets(board("dgx-1v"))
    assert sets.slowest_hop(sets.choose(PositionSet(255), 5)) > 32_000


def test_a_single_card_of_a_dgx_1v_is_one_of_a_broken_quad() -> None:
    assert chosen("dgx-1v", 1, 6) == (5,)
    assert chosen("dgx-1v", 1, 6, 5) == (7,)


def test_behind_switches_the_lowest_cards_are_as_good_as_any() -> None:
    assert chosen("dgx-a100", 3) == (0, 1, 2)
    assert chosen("hgx-h100", 4, 0, 2) == (1, 3, 4, 5)


def test_the_card_with_links_down_is_used_for_single_cards_and_for_eight() -> None:
    assert chosen("dgx-a100-links-down", 1) == (3,)
    assert chosen("dgx-a100-links-down", 7) == (0, 1, 2, 4, 5, 6, 7)
    assert chosen("dgx-a100-links-down", 8) == (0, 1, 2, 3, 4, 5, 6, 7)


def test_a_pair_with_a_bridge_is_taken_whole() -> None:
    assert chosen("bridges", 2, 0) == (2, 3)
    assert chosen("bridges", 1, 0) == (1,)
    assert chosen("mixed", 2, 0) == (2, 3)
    assert chosen("mixed", 2, 0, 2) == (4, 6)


def test_over_pcie_the_nearest_are_taken_and_a_broken_switch_before_an_intact_one() -> None:
    assert chosen("pcie", 2) == (0, 1)
    assert chosen("pcie", 1, 5) == (4,)
    assert chosen("pcie", 4, 0) == (4, 5, 6, 7)
    assert chosen("t4-box", 2) == (0, 1)
    assert chosen("t4-box", 1) == (5,)


def test_without_any_link_told_the_lowest_are_taken() -> None:
    assert chosen("untold", 3, 1) == (0, 2, 3)
    assert chosen("single", 1) == (0,)


def test_nothing_is_chosen_of_too_few() -> None:
    assert chosen("dgx-1v", 5, 0, 1, 2, 3) == ()
    assert chosen("single", 1, 0) == ()
    assert CardSets(NodeTopology(())).choose(PositionSet(0), 1) == 0


def test_sixteen_cards_behind_switches_are_chosen_as_eight_are() -> None:
    sets = CardSets(topology_of(described(" ".join([TWO_SOCKETS, TWO_SOCKETS]), {"to_switch": 6})))
    assert members(sets.choose(PositionSet(0xFFFF), 10)) == tuple(range(10))
    assert members(sets.choose(PositionSet(0xFFFF & ~bits(0, 5)), 4)) == (1, 2, 3, 4)
    assert sets.choose(PositionSet(0xFF), 9) == 0
    assert sets.slowest_hop(PositionSet(0xFFFF)) == 6 * 50_000


def test_on_a_large_board_islands_are_kept_too() -> None:
    pairs = {f"{2 * pair}-{2 * pair + 1}": 4 for pair in range(8)}
    places = " ".join([*["0.0.0.0"] * 8, *["1.0.0.0"] * 8])
    sets = CardSets(topology_of(described(places, {"pairs": pairs})))
    assert members(sets.choose(PositionSet(0xFFFF & ~bits(3)), 2)) == (0, 1)
    assert members(sets.choose(PositionSet(0xFFFF & ~bits(3)), 1)) == (2,)
    assert members(sets.choose(PositionSet(0xFFFF & ~bits(3)), 8)) == (8, 9, 10, 11, 12, 13, 14, 15)
    assert sets.order(bits(0, 1, 2, 4, 5))[0] == 2


def instances(parents: int, each: int) -> NodeTopology:
    """Cards that are divided, four to a NUMA node."""
    return topology_of(
        [
            a_gpu(
                f"MIG-{parent}-{part}", index=parent, parent=f"GPU-{parent}", numa_node=parent // 4
            )
            for parent in range(parents)
            for part in range(each)
        ]
    )


def test_instances_are_taken_from_one_card_so_that_others_can_be_divided_anew() -> None:
    sets = CardSets(instances(8, 7))
    idle = bits(*range(56))
    assert members(sets.choose(PositionSet(idle), 3)) == (0, 1, 2)
    assert members(sets.choose(PositionSet(idle & ~bits(0, 1, 2)), 4)) == (3, 4, 5, 6)
    assert members(sets.choose(PositionSet(idle & ~bits(8)), 1)) == (7,)
    assert sets.order(PositionSet(idle & ~bits(50)))[0] == 49
    assert len(members(sets.choose(PositionSet(idle), 20))) == 20


def test_instances_and_whole_cards_share_a_node() -> None:
    whole = linked(4, {(2, 3): ("NV18", 900_000)})[2:]
    parts = [a_gpu(f"MIG-{part}", index=0, parent="GPU-00") for part in range(3)]
    sets = CardSets(topology_of([*whole, *parts]))
    assert members(sets.choose(PositionSet(0b11111), 2)) == (3, 4)
    assert members(sets.choose(PositionSet(0b11111), 1)) == (0,)
    assert members(sets.choose(PositionSet(0b10111), 2)) == (0, 1)


def test_the_choice_does_not_depend_on_the_order_in_which_cards_are_told() -> None:
    cards = BOARDS["dgx-1v"]
    assert topology_of(cards[::-1]) == topology_of(cards)
    assert uuid(3) == "GPU-03"


# --- Which cards form islands ---------------------------------------------------------------------


def levels(name: str) -> list[list[tuple[int, ...]]]:
    return [sorted(map(members, level)) for level in islands(board(name).bandwidth)]


ALL = tuple(range(8))
SOCKETS = [(0, 1, 2, 3), (4, 5, 6, 7)]
PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_a_cube_mesh_is_two_quads() -> None:
    assert levels("dgx-1v") == [[ALL], SOCKETS, [(0, 3), (1, 2), (4, 7), (5, 6)]]


def test_a_switch_makes_one_island() -> None:
    assert levels("dgx-a100") == levels("hgx-h100") == [[ALL]]


def test_a_card_with_links_down_is_outside_of_the_best_island() -> None:
    assert levels("dgx-a100-links-down") == [[ALL], [(0, 1, 2, 4, 5, 6, 7)]]


def test_on_the_bus_sockets_and_switches_are_islands() -> None:
    assert levels("pcie") == [[ALL], SOCKETS, PAIRS]


def test_bridges_make_pairs() -> None:
    assert levels("bridges") == [[ALL], SOCKETS, PAIRS]
    # A bridge from switch to switch joins two that are then no part of others.
    pairs = [(0, 1), (2, 3), (4, 6)]
    assert levels("mixed") == [[ALL], SOCKETS, pairs, pairs[:2]]


def test_without_links_all_cards_are_one_island_and_a_single_card_is_none() -> None:
    assert levels("untold") == [[tuple(range(6))]]
    assert levels("single") == []
    assert islands(()) == ()


def test_an_island_is_broken_by_taking_some_of_it_but_not_all() -> None:
    found = islands(board("pcie").bandwidth)
    idle = bits(*ALL) & ~bits(5)
    now = intact(found, PositionSet(idle))
    assert [sorted(map(members, level)) for level in now] == [
        [],
        [(0, 1, 2, 3)],
        [(0, 1), (2, 3), (6, 7)],
    ]
    assert broken(now, bits(4)) == (0, 0, 0)
    assert broken(now, bits(0, 1)) == (0, 1, 0)
    assert broken(now, bits(0, 2)) == (0, 1, 2)
    assert broken(now, bits(0, 1, 2, 3)) == (0, 0, 0)


def test_a_ring_is_as_fast_as_its_slowest_hop() -> None:
    rings = ring_bandwidths(board("dgx-1v").bandwidth)
    assert rings[bits(0)] == 0
    assert rings[bits(0, 3)] == 2 * rings[bits(0, 1)] > 0
    assert rings[bits(0, 1, 2, 3)] == rings[bits(0, 1)]
    # All eight can go round on double links.
    assert rings[255] == rings[bits(0, 3)]
    assert rings[bits(0, 5)] == rings[bits(0, 1, 4)] == 16_000


def test_totals_are_sums_over_pairs() -> None:
    assert totals(((0, 1, 2), (1, 0, 4), (2, 4, 0))) == [0, 0, 0, 1, 0, 2, 4, 7]
