"""From one reading to the next."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.changes import portions
from kubeshare_py.inventory.sample_merge import LATE_AFTER_S, Reading
from kubeshare_py.inventory.series import Series
from tests.inventory.vector import A, B, capacity, read, up, uuids
from tests.making import some_gpus

FIRST = (capacity("a", "GPU-1"), capacity("a", "GPU-2"), up("a"), capacity("b", "GPU-3"), up("b"))


def test_the_first_reading_changes_every_node() -> None:
    assert uuids(read(Reading(), *FIRST)) == {"a": ["GPU-1", "GPU-2"], "b": ["GPU-3"]}


def test_the_same_again_changes_nothing() -> None:
    step = read(read(Reading(), *FIRST).reading, *reversed(FIRST))
    assert (step.changed, step.diagnostics, dict(step.reading.silent_since)) == ((), (), {})


def test_a_card_missing_while_its_collector_answers_is_gone() -> None:
    step = read(read(Reading(), *FIRST).reading, *FIRST[1:])
    assert uuids(step) == {"a": ["GPU-2"]}


def test_the_last_card_of_a_node_goes_too() -> None:
    step = read(read(Reading(), *FIRST).reading, *FIRST[2:])
    assert uuids(step) == {"a": []}
    assert not step.reading.silent_since


def test_a_target_that_is_down_is_no_news_and_silent_since_then() -> None:
    first = read(Reading(), *FIRST).reading
    down = read(first, up("a", 0), *FIRST[3:], now=5.0)
    absent = read(down.reading, *FIRST[3:], now=9.0)
    assert (down.changed, absent.changed) == ((), ())
    assert down.reading.silent_since == absent.reading.silent_since == {A: 5.0}
    back = read(absent.reading, *FIRST, now=12.0)
    assert (back.changed, dict(back.reading.silent_since)) == ((), {})


def test_nothing_at_all_leaves_everything_as_it_was() -> None:
    step = read(read(Reading(), *FIRST).reading, now=3.0)
    assert step.changed == ()
    assert step.reading.silent_since == {A: 3.0, B: 3.0}


def test_cards_without_an_up_are_news_but_their_absence_is_none() -> None:
    first = read(Reading(), *FIRST).reading
    step = read(first, capacity("a", "GPU-2"), capacity("a", "GPU-4"), *FIRST[3:])
    assert uuids(step) == {"a": ["GPU-1", "GPU-2", "GPU-4"]}
    assert not step.reading.silent_since


def test_a_collector_under_a_new_address_is_known_by_its_cards() -> None:
    first = read(Reading(), *FIRST).reading
    moved = capacity("a", "GPU-2", instance="other:9004")
    new_up = Series({"__name__": "up", "instance": "other:9004", "job": "kubeshare-collector"}, 1)
    assert uuids(read(first, moved, new_up, *FIRST[3:])) == {"a": ["GPU-2"]}


def test_a_garbled_series_keeps_the_card_as_it_was_and_is_reported() -> None:
    first = read(Reading(), *FIRST).reading
    step = read(first, capacity("a", "GPU-1", memory="x"), *FIRST[1:])
    assert step.changed == ()
    assert step.diagnostics == (
        "GPU-1 of node a (reported by a:9004): label memory 'x' is not a number of bytes above 0",
    )


def test_other_jobs_are_ignored_and_reported() -> None:
    step = read(Reading(), *FIRST, capacity("c", "GPU-9", job="else"))
    assert "c" not in uuids(step)
    assert step.diagnostics == (
        "1 gpu_capacity series of job 'else' ignored, which the selector leaves out; one is GPU-9 "
        "of node c",
    )


def test_a_uuid_on_two_nodes_is_told_of_both_in_any_order() -> None:
    vector = (capacity("b", "GPU-1"), capacity("a", "GPU-1"))
    for first in (Reading(), read(Reading(), *FIRST[:3]).reading):
        both = read(first, *vector).reading.cards
        assert {node: [card.uuid for card in cards] for node, cards in both.items()} == {
            "a": ["GPU-1", "GPU-2"] if first.cards else ["GPU-1"],
            "b": ["GPU-1"],
        }
        assert both == read(first, *reversed(vector)).reading.cards


def test_a_card_that_moved_is_still_known_of_the_silent_node() -> None:
    first = read(Reading(), *FIRST).reading
    step = read(first, up("a", 0), *FIRST[3:], capacity("b", "GPU-1"))
    assert uuids(step) == {"b": ["GPU-1", "GPU-3"]}
    assert (*step.reading.silent_since,) == ("a",)


def test_a_card_listed_twice_differently_counts_the_smaller() -> None:
    step = read(Reading(), capacity("a", "GPU-1"), capacity("a", "GPU-1", memory="50"), up("a"))
    ((_, (card,)),) = step.changed
    assert card.memory_bytes == 50
    assert step.diagnostics == ("GPU-1: a lists it twice, differently",)


def test_a_changed_card_changes_its_node() -> None:
    step = read(read(Reading(), *FIRST).reading, *FIRST[:3], capacity("b", "GPU-3", memory="99"))
    assert uuids(step) == {"b": ["GPU-3"]}


def test_a_scrape_time_that_stands_still_is_silence() -> None:
    first = read(Reading(), *FIRST).reading
    again = read(first, *FIRST, now=LATE_AFTER_S).reading
    late = read(again, *FIRST, now=LATE_AFTER_S + 1).reading
    assert (again.silent_since, late.silent_since) == ({}, {A: 121.0, B: 121.0})
    fresh = read(late, capacity("a", "GPU-1", value=2), *FIRST[1:], now=200.0).reading
    assert fresh.silent_since == {B: 121.0}


# --- Long readings are taken in bit by bit --------------------------------------------------------


@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.booleans())
def test_portions_say_together_what_the_reading_says(
    counts: list[int], most: int, more: bool
) -> None:
    changed = tuple(
        (NodeName(f"n{number}"), some_gpus(f"n{number}", count))
        for number, count in enumerate(counts)
    )
    read = InventoryRead(changed, (NodeName("silent"),), more)
    *firsts, last = portions(read, most)
    assert tuple(node for part in (*firsts, last) for node in part.changed) == changed
    assert (last.silent, last.more) == (read.silent, more)
    assert all(part.more and not part.silent for part in firsts)
    for part in (*firsts, last):
        assert sum(max(len(cards), 1) for _, cards in part.changed[:-1]) < most
