"""What holds for every board and history, judged by books of the test's own."""

from collections.abc import Iterable
from itertools import combinations, permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.topology.card_sets import CardSets, NodeTopologies, PositionSet, members
from kubeshare_py.topology.node_topology import NodeTopology, topology_of
from tests.making import a_gpu
from tests.scale import examples
from tests.topology import plain
from tests.topology.boards import bits, uuid

KINDS = ("NV1", "NV2", "NV4", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS", "NV", "?", "")
SPEEDS = (0, 0, 7, 16_000, 32_000, 50_000, 100_000)


@st.composite
def boards(draw: st.DrawFn, most: int = 6) -> list[Gpu]:
    """Cards that say anything of each other; sometimes only one of two does, or they differ."""
    count = draw(st.integers(1, most))
    links: dict[int, list[PeerLink]] = {index: [] for index in range(count)}
    # Few kinds on each board, so that there are islands.
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    for one, other in permutations(range(count), 2):
        if draw(st.integers(0, 9)):
            kind = draw(st.sampled_from(kinds))
            links[one].append(PeerLink(other, kind, draw(st.sampled_from(SPEEDS[:3]))))
            if draw(st.booleans()):
                links[other].append(PeerLink(one, kind, links[one][-1].speed))
    return [
        a_gpu(
            uuid(index),
            index=index,
            links=tuple(links[index]),
            numa_node=draw(st.sampled_from([0, 0, 1, None])),
        )
        for index in range(count)
    ]


#: Each step gives cards back, takes whole cards, or breaks one for a share; a number says how many
#: or which.
STEPS = st.lists(st.tuples(st.sampled_from("tttsg"), st.integers(0, 7)), max_size=25)


class Books:
    """Who holds which cards."""

    def __init__(self, topology: NodeTopology) -> None:
        self.board = topology
        self.held: list[frozenset[int]] = []

    @property
    def idle(self) -> frozenset[int]:
        taken = {card for cards in self.held for card in cards}
        return frozenset(range(self.board.count)) - taken

    def take(self, cards: Iterable[int]) -> None:
        taken = frozenset(cards)
        assert taken <= self.idle, "more than is free"
        self.held.append(taken)


def check_taken(books: Books, cards: frozenset[int], count: int) -> None:
    """As many as asked for if there are so many; no island broken that need not be."""
    matrix, idle = books.board.bandwidth, books.idle
    assert len(cards) == (count if count <= len(idle) else 0)
    speed = plain.slowest_hop(matrix, cards) if cards else 0
    broken = plain.broken(matrix, idle, cards)
    for other in map(frozenset, combinations(sorted(idle), count)):
        assert plain.slowest_hop(matrix, other) <= speed
        if plain.slowest_hop(matrix, other) == speed:
            assert broken <= plain.broken(matrix, idle, other)


def run(sets: CardSets, steps: list[tuple[str, int]]) -> list[tuple[int, ...]]:
    """A history, checked step by step; what was chosen at each."""
    books = Books(sets.board)
    chosen: list[tuple[int, ...]] = []
    for action, number in steps:
        idle = bits(*books.idle)
        if action == "g" and books.held:
            books.held.pop(number % len(books.held))
        elif action == "t":
            cards = members(sets.choose(PositionSet(idle), number))
            check_taken(books, frozenset(cards), number)
            books.take(cards)
            chosen.append(cards)
        elif action == "s" and idle:
            order = sets.order(PositionSet(idle))
            assert {*order} == books.idle
            broken = [plain.broken(sets.board.bandwidth, books.idle, frozenset({c})) for c in order]
            assert broken == sorted(broken)
            books.take(order[:1])
            chosen.append(order[:1])
    return chosen


@examples(150)
@given(cards=boards(), steps=STEPS)
def test_no_history_takes_too_much_or_breaks_an_island_without_need(
    cards: list[Gpu], steps: list[tuple[str, int]]
) -> None:
    topology = topology_of(cards)
    assert run(CardSets(topology), steps) == run(CardSets(topology), steps)


@examples(60)
@given(cards=boards(), seed=st.integers(0, 99))
def test_equal_hardware_is_one_board_whatever_its_cards_are_called(
    cards: list[Gpu], seed: int
) -> None:
    known = NodeTopologies()
    first = known.number(cards)
    renamed = [
        a_gpu(f"GPU-{Random(seed + card.index).random()}", index=card.index, links=card.links,
              numa_node=card.numa_node)
        for card in cards
    ]  # fmt: skip
    Random(seed).shuffle(renamed)
    assert known.number(renamed) == first
    assert [sets.board for sets in known.sets] == [NodeTopology(()), topology_of(cards)]


@examples(100)
@given(cards=boards(most=8))
def test_every_board_makes_sense(cards: list[Gpu]) -> None:
    topology = topology_of(cards)
    for one, row in enumerate(topology.bandwidth):
        assert len(row) == topology.count
        assert row[one] == 0
        assert all(
            row[other] == topology.bandwidth[other][one] >= 0 for other in range(topology.count)
        )
    for level in CardSets(topology).islands:
        taken = [card for island in level for card in members(island)]
        assert len(taken) == len({*taken}) <= topology.count


@examples(40)
@given(cards=boards(most=7), idle=st.integers(0, 127), count=st.integers(1, 7))
def test_any_board_is_searched_as_the_plain_way_does(
    cards: list[Gpu], idle: int, count: int
) -> None:
    topology = topology_of(cards)
    there = members(PositionSet(idle & (1 << topology.count) - 1))
    found = members(CardSets(topology).choose(bits(*there), count))
    assert frozenset(found) == plain.best(topology.bandwidth, there, count)
