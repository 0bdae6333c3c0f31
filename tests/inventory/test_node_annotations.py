"""Cards that annotations of nodes list."""

import json
import tracemalloc

import pytest

from kubeshare_py.domain.card_reading import BusPath, of_labels
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.quantity import CARDS_OF_NODE
from kubeshare_py.domain.values import replace
from kubeshare_py.inventory.node_annotations import (
    AnnotatedCards,
    CardAnnotationProblem,
    NodeAnnotations,
    read_annotation,
    write_cards,
)
from kubeshare_py.topology.wiring import Wiring, one_object, shared

N1, N2 = NodeName("n1"), NodeName("n2")


def card(name: str, index: int = 0, *, healthy: bool = True) -> Gpu:
    return Gpu(
        uuid=GpuUuid(name), index=index, model="Tesla-T4", memory_bytes=2**34, healthy=healthy
    )


A, B = card("GPU-a"), card("GPU-b", 1)


def test_what_surrounds_cards_is_written_too() -> None:
    cards = (
        replace(A, links=(PeerLink(1, "NV2", 100),), numa_node=0, fabric="c.1", rdma=BusPath.PHB),
        replace(B, links=(PeerLink(0, "NV2", 100),), numa_node=1, fabric="c.1"),
        replace(card("MIG-1", 2), parent=GpuUuid("GPU-c")),
        replace(card("GPU-d", 3), readiness=of_labels((("mps", "ready"), ("driver", "mig")))),
    )
    assert read_annotation(write_cards(cards)) == AnnotatedCards(cards)


def test_what_is_written_is_read() -> None:
    ill = card("GPU-c", 2, healthy=False)
    text = write_cards([ill, B, A])
    assert read_annotation(text) == AnnotatedCards((A, B, ill))
    assert text == write_cards([A, B, ill])
    assert text.startswith('[{"uuid":"GPU-a","index":0,"model":"Tesla-T4","memory":17179869184},')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "sharedgpu/cards: Input data was truncated"),
        ("[" * 100_000, "sharedgpu/cards: "),
        ("{}", "sharedgpu/cards: Expected `array`"),
    ],
)
def test_what_is_no_list_of_cards_is_refused(text: str, words: str) -> None:
    with pytest.raises(CardAnnotationProblem, match=words):
        read_annotation(text)


@pytest.mark.parametrize(
    ("card", "uuid", "rule"),
    [
        ('{"uuid":"GPU-a","index":0,"model":"m"}', "GPU-a", "missing required field `memory`"),
        ('{"index":0,"model":"m","memory":5}', "", "missing required field `uuid`"),
        ("5", "", "Expected `object`"),
        ('{"uuid":"a","index":0,"model":"m","memory":0}', "a", "memory 0 is not within 1…"),
        ('{"uuid":"a","index":0,"model":"m","memory":281474976710657}', "a", "memory 281474976"),
        (f'{{"uuid":"a","index":0,"model":"m","memory":{"9" * 50}}}', "a", ""),
        ('{"uuid":"a","index":-1,"model":"m","memory":1}', "a", "index -1 is not within 0…4095"),
        ('{"uuid":"all","index":0,"model":"m","memory":1}', "all", "uuid 'all' is not GPU-…"),
        ('{"uuid":"","index":0,"model":"m","memory":1}', "", "needs a UUID"),
        ('{"uuid":"a","index":0,"model":"m","memory":1,"healthy":"no"}', "a", "Expected `bool`"),
        ('{"uuid":"a","index":0,"model":"m","memory":1,"numa":9999}', "a", "NUMA node 9999 is"),
        ('{"uuid":"a","index":0,"model":"m","memory":1,"rdma":"NV4"}', "a", "'NV4' is not a valid"),
        (
            '{"uuid":"a","index":0,"model":"m","memory":1,"links":[[1,"NV1",10000000000]]}',
            "a",
            "a link's speed 10000000000 is not within 0…1000000000",
        ),
        (
            '{"uuid":"a","index":0,"model":"m","memory":1,"links":[[5000,"NV1",1]]}',
            "a",
            "a link to card 5000 is not within 0…4095",
        ),
        (write_cards([B])[1:-1], "GPU-b", "GPU-b is there twice"),
    ],
)
def test_a_card_that_cannot_be_used_is_named_and_the_others_count(
    card: str, uuid: str, rule: str
) -> None:
    read = read_annotation(f"[{write_cards([B])[1:-1]},{card},{write_cards([A])[1:-1]}]")
    (problem,) = read.problems
    assert (read.cards, problem.uuid) == ((A, B), uuid)
    assert str(problem).startswith("sharedgpu/cards[1]: ")
    assert rule in str(problem)


def test_no_node_has_more_cards_than_a_table_has_room_for() -> None:
    cards = [card(f"GPU-{number:04}", number) for number in range(CARDS_OF_NODE.most + 1)]
    read = read_annotation(write_cards(cards))
    assert len(read.cards) == CARDS_OF_NODE.most
    assert [str(one) for one in read.problems] == [
        "sharedgpu/cards[128]: number of cards 129 is not within 0…128"
    ]


def test_a_card_that_is_told_as_it_cannot_be_stays_as_it_was_known() -> None:
    told = NodeAnnotations()
    told.take(N1, write_cards([A, B]))
    told.read()
    absurd = write_cards([A]).replace(str(A.memory_bytes), str(2**53))
    told.take(N1, absurd)
    assert told.read() == InventoryRead(((N1, (A,)),))
    assert told.diagnostics == (
        f"node n1: sharedgpu/cards[0]: GPU GPU-a: memory {2**53} is not within 1…{2**48}",
    )
    told.take(N1, write_cards([B]))
    assert told.read() == InventoryRead(((N1, (B,)),))
    told.take(N1, '[{"memory": 5}]')
    assert told.read() == InventoryRead(())
    assert "missing required field `uuid`" in told.diagnostics[0]


def test_only_news_is_told() -> None:
    told = NodeAnnotations()
    assert told.take(N1, write_cards([A]))
    assert told.take(N2, "")
    assert told.read() == InventoryRead(((N1, (A,)),))
    assert not told.take(N1, write_cards([A]))
    assert told.read() == InventoryRead(())
    told.take(N1, write_cards([A, B]))
    told.take(N2, "[]")
    assert told.read() == InventoryRead(((N1, (A, B)),))


def test_a_card_that_is_not_told_of_any_more_is_gone() -> None:
    told = NodeAnnotations()
    told.take(N1, write_cards([A, B]))
    told.read()
    told.take(N1, write_cards([B]))
    assert told.read() == InventoryRead(((N1, (B,)),))


def test_a_node_that_says_nothing_any_more_keeps_its_cards_and_is_silent() -> None:
    told = NodeAnnotations()
    told.take(N1, write_cards([A]))
    told.read()
    told.take(N1, "")
    assert told.read() == InventoryRead((), (N1,))
    told.take(N1, write_cards([A]))
    assert told.read() == InventoryRead(())


def test_what_cannot_be_read_changes_nothing_and_is_said() -> None:
    told = NodeAnnotations()
    told.take(N1, write_cards([A]))
    told.read()
    told.take(N1, "nonsense")
    assert told.read() == InventoryRead(())
    assert told.diagnostics[0].startswith("node n1: sharedgpu/cards: ")
    told.take(N1, write_cards([A]))
    told.read()
    assert not told.diagnostics


def test_a_card_of_two_nodes_is_told_of_both() -> None:
    told = NodeAnnotations()
    told.take(N2, write_cards([A]))
    told.read()
    told.take(N1, write_cards([A, B]))
    assert told.read() == InventoryRead(((N1, (A, B)),))
    assert not told.diagnostics


def test_a_node_that_is_gone_has_no_cards_and_none_when_it_comes_again() -> None:
    told = NodeAnnotations()
    told.take(N2, write_cards([A]))
    told.read()
    told.only([N1])
    told.take(N1, write_cards([A]))
    assert told.read() == InventoryRead(((N2, ()), (N1, (A,))))
    told.gone(N1)
    told.take(N1, "")
    assert told.read() == InventoryRead(((N1, ()),))
    assert told.read() == InventoryRead(())


# --- What one node says of its cards, over and over otherwise, costs the scheduler little memory.


MAX = 12 * 2**20


@pytest.mark.slow
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
