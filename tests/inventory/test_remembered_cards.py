"""What one node says of its cards, over and over otherwise, costs the scheduler little memory."""

import json
import tracemalloc

import pytest

from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.inventory.card_annotation import read_annotation
from kubeshare_py.topology.wiring import Wiring, one_object, shared

MAX = 12 * 2**20


def test_annotations_that_are_no_more_are_not_kept() -> None:
    card = {"uuid": "GPU-00000001-0000-0000-0000-000000000000", "index": 0, "model": "A100"}
    card["memory"] = 2**34
    tracemalloc.start()
    try:
        for number in range(1, 30):
            card["links"] = [[peer % 4000, "PHB", number] for peer in range(4000)]
            card["isolation"] = {"mps": f"{number}" * 200_000}
            assert read_annotation(json.dumps([card])).cards
        assert tracemalloc.get_traced_memory()[0] < MAX
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_wirings_that_are_no_more_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for number in range(40):
            peers = tuple(PeerLink(peer, "PHB", number) for peer in range(4000))
            one_object(Wiring(links=((0, peers),)))
        assert tracemalloc.get_traced_memory()[0] < MAX
    finally:
        tracemalloc.stop()


def test_equal_boards_of_sixteen_cards_are_one_object_each() -> None:
    def board(speed: int) -> Wiring:
        cards = range(16)
        return Wiring(
            links=tuple(
                (one, tuple(PeerLink(peer, "NV18", speed) for peer in cards if peer != one))
                for one in cards
            )
        )

    first, second = one_object(board(1)), one_object(board(2))
    assert (one_object(board(1)), one_object(board(2))) == (first, second)
    assert one_object(board(1)) is first
    assert one_object(board(2)) is second
    assert shared(board(1).links[0][1]) is first.links[0][1]
