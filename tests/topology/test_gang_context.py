"""Which cards a member of a group gets: what all of its group get together is the best set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.topology.card_sets import CardSets, GangContext, PositionSet, divisions, members
from kubeshare_py.topology.node_topology import topology_of
from tests.scale import examples
from tests.topology import plain
from tests.topology.boards import BOARDS, TWO_SOCKETS, bits, board, described, linked
from tests.topology.test_any_board import boards

QUADS = ({0, 1, 2, 3}, {4, 5, 6, 7})


def parts(sets: CardSets, idle: int, sizes: list[int], taken: int = 0) -> list[tuple[int, ...]]:
    """What members of these sizes get, one after the other; each is told of those behind it."""
    found = []
    for number, size in enumerate(sizes):
        others = tuple(sorted(sizes[number + 1 :], reverse=True))
        part = sets.part(PositionSet(idle), size, GangContext(PositionSet(taken), others))
        assert part & idle == part
        found.append(members(part))
        idle, taken = idle & ~part, taken | part
    return found


def shares(sets: CardSets, idle: int, count: int, taken: int = 0) -> list[int]:
    """Which idle cards so many shares break, one after the other."""
    found = []
    for left in range(count, 0, -1):
        places = sets.places(PositionSet(idle), GangContext(PositionSet(taken), (1,) * (left - 1)))
        first = min(members(PositionSet(idle)), key=places.__getitem__)
        found.append(first)
        idle, taken = idle & ~(1 << first), taken | 1 << first
    return found


def idle_of(name: str, *used: int) -> PositionSet:
    return PositionSet(bits(*range(len(BOARDS[name]))) & ~bits(*used))


def test_four_single_cards_are_a_quad() -> None:
    sets = CardSets(board("dgx-1v"))
    assert {*shares(sets, idle_of("dgx-1v"), 4)} in QUADS
    assert {*shares(sets, idle_of("dgx-1v", 1), 4)} == {4, 5, 6, 7}
    # Without company each of them alone leaves the intact quad to others.
    assert sets.order(idle_of("dgx-1v", 1))[:3] != (4, 5, 6)


def test_pairs_of_one_group_are_in_one_quad_and_joined_well_themselves() -> None:
    sets = CardSets(board("dgx-1v"))
    assert parts(sets, idle_of("dgx-1v"), [2, 2]) == [(0, 3), (1, 2)]
    assert parts(sets, idle_of("dgx-1v", 2), [2, 2]) == [(4, 7), (5, 6)]
    assert parts(sets, idle_of("dgx-1v"), [4, 4]) == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_nobody_gets_what_is_left_over() -> None:
    path = linked(4, {(0, 1): ("NV1", 0), (1, 2): ("NV2", 0), (2, 3): ("NV1", 0)})
    sets = CardSets(topology_of(path))
    # The best pair of all is in the middle; then the other would have no link at all.
    assert members(sets.choose(PositionSet(0b1111), 2)) == (1, 2)
    assert parts(sets, 0b1111, [2, 2]) == [(0, 1), (2, 3)]


def test_members_of_several_sizes_share_the_best_set() -> None:
    sets = CardSets(board("dgx-1v"))
    assert {*parts(sets, idle_of("dgx-1v", 6), [2, 1, 1])[0]} < {0, 1, 2, 3}
    for sizes in ([2, 1, 1], [1, 2, 1], [1, 1, 2]):
        found = parts(sets, idle_of("dgx-1v", 6), sizes)
        assert {card for part in found for card in part} == {0, 1, 2, 3}


def test_who_comes_later_gets_what_is_nearest_to_the_others() -> None:
    sets = CardSets(board("dgx-1v"))
    assert shares(sets, idle_of("dgx-1v", 4, 5, 6), 1, bits(4, 5, 6)) == [7]
    assert parts(sets, idle_of("dgx-1v", 4, 5), [2], bits(4, 5)) == [(6, 7)]
    # Nothing is left of the quad: the card with two links to it.
    assert shares(sets, bits(0, 1, 2, 3), 1, bits(4, 6)) == [0]
    assert shares(CardSets(board("pcie")), idle_of("pcie", 3, 4), 1, bits(3)) == [2]


def test_what_others_hold_is_no_reason_to_stay_away_from_ones_own() -> None:
    sets = CardSets(board("pcie"))
    # Alone, a single card would be one of the broken pair 6-7; its group is on 0.
    assert sets.order(idle_of("pcie", 0, 6))[0] in (1, 7)
    assert shares(sets, idle_of("pcie", 0, 6), 1, bits(0)) == [1]
    assert shares(sets, idle_of("pcie", 0, 6), 1, bits(6)) == [7]


def test_of_cards_in_use_that_are_the_same_a_group_s_own_comes_first_then_the_nearest() -> None:
    sets = CardSets(board("dgx-1v"))
    places = sets.places(idle_of("dgx-1v", 0, 3, 6), GangContext(bits(3)))
    assert sorted((0, 3, 6), key=places.__getitem__) == [3, 0, 6]
    assert max(places[card] for card in (0, 3, 6)) < min(places[card] for card in (1, 2, 4, 5, 7))
    nobody_s = sets.places(idle_of("dgx-1v", 0, 3, 6), GangContext(PositionSet(0), (1,)))
    assert {nobody_s[card] for card in (0, 3, 6)} == {0}


def test_places_are_different_for_every_idle_card() -> None:
    for name in BOARDS:
        sets = CardSets(board(name))
        for taken in (0, 1):
            places = sets.places(
                PositionSet(sets.everything & ~taken), GangContext(PositionSet(taken), (2, 1))
            )
            assert len({*places}) == len(places)


def test_where_too_few_are_idle_nobody_gets_any_and_too_many_others_do_not_matter() -> None:
    sets = CardSets(board("dgx-1v"))
    assert sets.part(bits(0, 1), 3, GangContext()) == 0
    assert sets.part(idle_of("dgx-1v"), 2, GangContext(PositionSet(0), (8, 4, 2, 2))) != 0
    assert GangContext(PositionSet(0), (8, 4, 2, 2)).sizes(2, PositionSet(0xFF)) == (4, 2, 2)
    assert sets.places(PositionSet(0), GangContext(PositionSet(1), (1,))) != ()


def test_single_cards_are_not_permuted() -> None:
    assert [*divisions(PositionSet(0b111), (1, 1, 1))] == [(1, 2, 4)]
    assert len([*divisions(PositionSet(0xFF), (2, 2, 2, 2))]) == 105
    assert len([*divisions(PositionSet(0xFF), (3, 2, 2, 1))]) == 840
    assert [*divisions(PositionSet(0b1101), (3,))] == [(0b1101,)]


def bridged() -> CardSets:
    """Sixteen cards on two sockets, two and two of them with a bridge."""
    pairs = {f"{2 * pair}-{2 * pair + 1}": 4 for pair in range(8)}
    places = " ".join([*["0.0.0.0"] * 8, *["1.0.0.0"] * 8])
    return CardSets(topology_of(described(places, {"pairs": pairs})))


@pytest.mark.parametrize(("used", "count"), [((7, 8, 14), 4), ((11,), 6), ((2, 4, 11), 4)])
def test_on_large_boards_single_cards_are_what_was_chosen_for_all(
    used: tuple[int, ...], count: int
) -> None:
    sets, idle = bridged(), 0xFFFF & ~bits(*used)
    together = members(sets.choose(PositionSet(idle), count))
    assert tuple(sorted(shares(sets, idle, count))) == together


def test_large_boards_grow_from_what_the_group_has() -> None:
    assert parts(bridged(), 0xFFFF & ~bits(9), [1, 1], bits(9)) == [(8,), (10,)]
    assert parts(bridged(), 0xFFFF & ~bits(1, 2, 3), [2], bits(2, 3)) == [(4, 5)]
    switched = CardSets(topology_of(described(f"{TWO_SOCKETS} {TWO_SOCKETS}", {"to_switch": 6})))
    assert parts(switched, 0xFFFF, [4, 4, 2])[2] == (8, 9)


def test_on_large_boards_each_member_gets_a_bridge_where_there_are_enough() -> None:
    for used in ((15,), (7,), (0, 3, 5)):
        found = parts(bridged(), 0xFFFF & ~bits(*used), [2, 2, 2])
        assert all(one % 2 == 0 and other == one + 1 for one, other in found)
    mixed = parts(bridged(), 0xFFFF & ~bits(11, 12, 13, 15), [1, 2, 2])
    # What was chosen for all stays chosen: another way to break one bridge is not looked for.
    assert sorted(card for part in mixed for card in part) == [0, 1, 2, 3, 4]


def expect_best_parts(
    sets: CardSets, idle: frozenset[int], taken: frozenset[int], sizes: list[int]
) -> None:
    """All together the best set beside what is taken, and nobody's part worse than need be."""
    matrix = sets.board.bandwidth
    found = parts(sets, bits(*idle), sizes, bits(*taken))
    together = frozenset(card for part in found for card in part)
    assert together == plain.best(matrix, idle, sum(sizes), taken)
    hops = [plain.slowest_hop(matrix, frozenset(part)) for part in found]
    assert sorted(hops) == plain.hops_of_best_parts(matrix, together, sizes)


@examples(150)
@given(data=st.data(), cards=boards(most=7))
def test_on_any_board_a_group_gets_what_the_plain_way_gives(
    data: st.DataObject, cards: list[Gpu]
) -> None:
    sets = CardSets(topology_of(cards))
    everybody = range(sets.board.count)
    taken = data.draw(st.frozensets(st.sampled_from(everybody), max_size=3))
    idle = data.draw(st.frozensets(st.sampled_from(everybody), min_size=1)) - taken
    sizes: list[int] = []
    while sum(sizes) < len(idle) and len(sizes) < 4:
        sizes.append(data.draw(st.integers(1, min(3, len(idle) - sum(sizes)))))
        if data.draw(st.booleans()):
            break
    if sizes:
        expect_best_parts(sets, idle, taken, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BOARDS))
def test_shares_break_the_cards_that_the_plain_way_gives(name: str) -> None:
    sets, matrix = CardSets(board(name)), board(name).bandwidth
    for idle in range(1, 1 << len(matrix), 5):
        for taken in (0, sets.everything & ~idle & 0b10011):
            for count in range(1, min(4, idle.bit_count()) + 1):
                found = frozenset(shares(sets, idle, count, taken))
                assert found == plain.best(
                    matrix, members(PositionSet(idle)), count, members(PositionSet(taken))
                )
