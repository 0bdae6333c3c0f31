"""Whole machines on any boards: books of the test's own judge each placement by what was told last.

The plain way of choosing is that of tests/topology/plain.py, written from the decision's text.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import InventoryRead, PodGone
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.values import replace
from kubeshare_py.topology.node_topology import topology_of
from tests.making import Driver, a_claim, a_machine, a_pod, a_shape, whole
from tests.making.boards import placed_on
from tests.scale import examples
from tests.topology import plain
from tests.topology.test_any_board import boards

NODES = tuple(NodeName(name) for name in ("n1", "n2", "n3"))
CLAIMS = (whole(2), whole(3), whole(4), whole(1), a_claim(300), a_claim(700), whole(2))
#: A pod comes, asking for one of the claims; one goes; a node's cards are told to be joined as on
#: another board.
STEPS = st.lists(
    st.tuples(st.sampled_from("ppppgw"), st.integers(0, 6), st.integers(0, 2)), max_size=25
)
_ANY = st.lists(boards(most=6), min_size=3, max_size=3)


def on(node: NodeName, board: list[Gpu], cards: int) -> tuple[Gpu, ...]:
    """So many cards of the board."""
    return placed_on(
        node,
        (
            replace(card, links=tuple(link for link in card.links if link.peer < cards))
            for card in board[:cards]
        ),
    )


class Books:
    """What is held of each card, by node and position."""

    def __init__(self) -> None:
        self.cards: dict[NodeName, tuple[Gpu, ...]] = {}
        self.held: dict[PodUid, Bind] = {}

    def matrix(self, node: NodeName) -> plain.Matrix:
        return topology_of(self.cards[node]).bandwidth

    def used(self, uuid: GpuUuid) -> list[int]:
        return [
            card.milli for bind in self.held.values() for card in bind.allocation.cards
            if card.uuid == uuid
        ]  # fmt: skip

    def idle(self, node: NodeName) -> frozenset[int]:
        return frozenset(at for at, card in enumerate(self.cards[node]) if not self.used(card.uuid))

    def check(self, bind: Bind) -> None:
        """Never more than is free; of whole cards the best set, of the best of equal nodes."""
        count = len(bind.allocation.cards)
        for card in bind.allocation.cards:
            assert sum(self.used(card.uuid)) + card.milli <= 1000
            assert not bind.allocation.exclusive or not self.used(card.uuid)
        if count == 1:
            return
        places = {card.uuid: at for at, card in enumerate(self.cards[bind.node])}
        chosen = frozenset(places[card.uuid] for card in bind.allocation.cards)
        matrix, idle = self.matrix(bind.node), self.idle(bind.node)
        assert chosen == plain.best(matrix, idle, count)
        speed = plain.slowest_hop(matrix, chosen)
        for node in self.cards:
            if self.matrix(node) == matrix and len(self.idle(node)) >= count:
                other = plain.best(matrix, self.idle(node), count)
                if plain.slowest_hop(matrix, other) == speed:
                    breaks = any(plain.broken(matrix, self.idle(node), other))
                    assert breaks or not any(plain.broken(matrix, idle, chosen))


class World:
    """A machine, its books, and everything that it was told."""

    def __init__(self, given: list[list[Gpu]], cards: int) -> None:
        self.boards, self.count = given, cards
        self.driver = Driver({str(node): 0 for node in NODES})
        self.books = Books()
        self.log: list[tuple[str, ...]] = []
        for number, node in enumerate(NODES):
            self.tell(node, number % 2)

    def tell(self, node: NodeName, board: int) -> None:
        cards = on(node, self.boards[board], min(self.count, len(self.boards[board])))
        held = {one.uuid for bind in self.books.held.values() for one in bind.allocation.cards}
        known = {card.uuid for card in cards}
        here = {card.uuid for card in self.books.cards.get(node, ())}
        if held & here <= known:
            self.books.cards[node] = cards
            self.driver.tell(InventoryRead(((node, cards),)))

    def step(self, number: int, action: str, which: int, node: int) -> None:
        if action == "w":
            self.tell(NODES[node], which % 3)
        elif action == "g":
            for uid in sorted(self.books.held)[which : which + 1]:
                del self.books.held[uid]
                self.driver.tell(PodGone(uid))
                self.take()
        else:
            pod = a_pod(f"p{number}", a_shape(CLAIMS[which], cpu=0))
            self.take(self.driver.seen(pod))

    def take(self, binds: list[Bind] | None = None) -> None:
        """The books take in what was decided; who waited is placed too."""
        for bind in self.driver.decide() if binds is None else binds:
            self.books.check(bind)
            self.books.held[bind.uid] = bind
            uuids = (card.uuid for card in bind.allocation.cards)
            self.log.append((bind.uid, bind.node, *uuids))


def run(given: list[list[Gpu]], cards: int, steps: list[tuple[str, int, int]]) -> World:
    world = World(given, cards)
    for number, step in enumerate(steps):
        world.step(number, *step)
    return world


@pytest.mark.slow
@examples(120)
@given(given_boards=_ANY, cards=st.integers(2, 6), steps=STEPS)
def test_no_history_takes_too_much_or_breaks_an_island_without_need(
    given_boards: list[list[Gpu]], cards: int, steps: list[tuple[str, int, int]]
) -> None:
    world = run(given_boards, cards, steps)
    assert run(given_boards, cards, steps).log == world.log


def test_the_driver_is_a_machine_with_the_default_profile() -> None:
    (profile,) = a_machine().profiles.values()
    assert ("Topology", 10) in [(plugin.name, weight) for plugin, weight in profile.scores]
