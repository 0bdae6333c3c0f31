"""What a driver says beyond any card is not said; the rest of the reading counts."""

from dataclasses import asdict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.card_reading import (
    BusPath,
    CardReading,
    FarEnd,
    NodeReading,
    OwnLink,
    Unanswered,
)
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.inventory.node_annotations import AnnotatedCards, read_annotation, write_cards
from kubeshare_py.node_agent import nvidia
from kubeshare_py.node_agent.history import History, given_away
from kubeshare_py.node_agent.links import card_links
from kubeshare_py.node_agent.readings import plausible
from kubeshare_py.topology.wiring import with_links
from tests.node_agent.readings import a_card, a_reading
from tests.odd_input import NUMBERS

GOOD = a_card("GPU-good", index=1, numa_node=1, bus_speed=32_000)
AMOUNTS = st.sampled_from([one for one in NUMBERS if isinstance(one, int) and one < 10**30])


def test_a_reading_that_can_be_is_the_same() -> None:
    reading = a_reading(GOOD)
    assert plausible(reading) is reading


@pytest.mark.parametrize(
    ("fields", "question", "error"),
    [
        ({"memory_bytes": 2**64 - 1}, "memory", f"{2**64 - 1} is not within 1…{2**48}"),
        ({"index": 2**32 - 1}, "index", f"{2**32 - 1} is not within 0…4095"),
        ({"model": "x" * 300}, "length of the model", "300 is not within 1…253"),
    ],
)
def test_a_card_that_cannot_be_is_unreadable_and_the_others_count(
    fields: dict[str, object], question: str, error: str
) -> None:
    found = plausible(a_reading(a_card("GPU-odd", **fields), GOOD))
    assert found.cards == (GOOD,)
    assert [(card.uuid, card.memory_bytes) for card in found.unreadable] == [("GPU-odd", 0)]
    assert found.unanswered == (Unanswered(card="GPU-odd", question=question, error=error),)


@pytest.mark.parametrize(
    ("fields", "question"),
    [
        ({"numa_node": 5000}, "NUMA node"),
        ({"bus_speed": 2**40}, "speed of the bus"),
        ({"links": (OwnLink(far_end=FarEnd.SWITCH, speed=10**9),) * 2}, "speed of links"),
        ({"links": (OwnLink(far_end=FarEnd.SWITCH, speed=-1),)}, "speed of links"),
    ],
)
def test_what_surrounds_a_card_is_left_out(fields: dict[str, object], question: str) -> None:
    found = plausible(a_reading(a_card("GPU-odd", **fields)))
    assert found.cards == (a_card("GPU-odd"),)
    assert [one.question for one in found.unanswered] == [question]


@pytest.mark.parametrize("number", NUMBERS)
def test_any_number_of_a_driver_has_a_meaning(number: float) -> None:
    if isinstance(number, int):
        nvidia.bus_path(number)
        nvidia.far_end(number)
        nvidia.repair(number)
        nvidia.link_speed(number, number)
        assert nvidia.bus_speed(number, 16) < 2**30
        nvidia.profile("A100 MIG 1g.5gb", number, number)


CARDS = st.builds(
    a_card,
    st.sampled_from(("GPU-a", "GPU-b", "GPU-c", "")),
    index=AMOUNTS,
    memory_bytes=AMOUNTS,
    used_bytes=AMOUNTS,
    numa_node=AMOUNTS | st.none(),
    bus_speed=AMOUNTS | st.none(),
    model=st.sampled_from(("", "A100", "x" * 300)),
    divided=st.booleans(),
    paths=st.just(((GpuUuid("GPU-a"), BusPath.PIX), (GpuUuid("GPU-b"), BusPath.SYS))),
    links=st.lists(
        st.builds(OwnLink, far_end=st.sampled_from(FarEnd), speed=AMOUNTS), max_size=3
    ).map(tuple),
)


@given(st.lists(CARDS, max_size=4, unique_by=lambda card: card.uuid), st.data())
def test_any_reading_is_taken_and_written(cards: list[CardReading], data: st.DataObject) -> None:
    reading = plausible(a_reading(*cards))
    # As it goes from one process to the other.
    sent = msgspec.json.decode(msgspec.json.encode(asdict(reading)), type=NodeReading)
    history = History()
    history.take(sent, 0.0)
    known = history.cards()
    links = card_links(card.reading for card in known if card.is_read)
    told = with_links(given_away(known), links)
    ordered = tuple(sorted(told, key=lambda card: (card.index, card.uuid)))
    assert read_annotation(write_cards(told)) == AnnotatedCards(ordered)


def test_of_cards_with_one_uuid_the_first_counts_and_the_others_are_named() -> None:
    double = a_card("GPU-good", index=2, model="other")
    found = plausible(a_reading(GOOD, double, unreadable=(a_card("GPU-good", index=3),)))
    assert (found.cards, found.unreadable) == ((GOOD,), ())
    assert [(one.card, one.question, one.error) for one in found.unanswered] == [
        ("GPU-good", "uuid", f"cards 1 and {index} have the same") for index in (2, 3)
    ]


def test_a_divided_card_needs_no_memory() -> None:
    parent = a_card("GPU-a", divided=True, memory_bytes=0)
    reading = a_reading(parent, a_card("MIG-0", parent="GPU-a"))
    assert plausible(reading) is reading
