"""Which cards form islands."""

from kubeshare_py.topology.islands import broken, intact, islands
from kubeshare_py.topology.rings import PositionSet, members, ring_bandwidths, totals
from tests.topology.boards import bits, board


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
