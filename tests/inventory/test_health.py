"""Which cards are healthy, as collectors tell it."""

import pytest

from kubeshare_py.exporters.collector_metrics import CATALOGUE
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import CARD_SERIES
from tests.inventory.vector import A, capacity, fault, read, states, up, well

CARDS = (capacity("a", "GPU-1"), capacity("a", "GPU-2"), up("a"))
HEALTHY = well("a", 2)
ILL = (fault("a", "GPU-1"), well("a", 1))
STAYS = "GPU-1 of node a: nothing says that it is well again; it was unhealthy and stays so"


def known_ill() -> Reading:
    return read(Reading(), *CARDS, *ILL).reading


def test_what_is_read_is_what_our_collector_writes() -> None:
    assert {*CARD_SERIES} <= {metric.name for metric in CATALOGUE}


def test_a_card_with_a_fault_is_not_healthy_until_all_are_told_to_be() -> None:
    first = read(Reading(), *CARDS, HEALTHY)
    assert states(first) == {"a": {"GPU-1": True, "GPU-2": True}}
    ill = read(first.reading, *ILL, *CARDS)
    assert states(ill) == {"a": {"GPU-1": False, "GPU-2": True}}
    assert read(ill.reading, *CARDS, *ILL).changed == ()
    again = read(ill.reading, *CARDS, HEALTHY)
    assert (states(again), again.diagnostics) == (states(first), ())


def test_cards_that_take_no_new_pods_are_reported_by_fault() -> None:
    lost = fault("a", "GPU-9", fault="lost")
    ill = (fault("a", uuid, fault="xid-79") for uuid in ("GPU-2", "GPU-1"))
    step = read(Reading(), *CARDS, *ill, lost, well("a", 0), up("a"))
    assert step.diagnostics == (
        "node a: lost, no new pods: GPU-9",
        "node a: xid-79, no new pods: GPU-1, GPU-2",
    )


def test_a_node_that_lost_many_cards_is_reported_in_one_sentence() -> None:
    step = read(Reading(), *(fault("a", f"GPU-{at:02}", fault="stale") for at in range(20)))
    [sentence] = step.diagnostics
    assert sentence.endswith("GPU-14, GPU-15 and 4 more")


def test_a_collector_that_says_nothing_of_health_has_healthy_cards() -> None:
    assert states(read(Reading(), *CARDS)) == {"a": {"GPU-1": True, "GPU-2": True}}


def test_silence_about_a_card_that_was_ill_makes_it_no_better() -> None:
    step = read(known_ill(), *CARDS)
    assert (step.changed, step.diagnostics) == ((), (STAYS,))
    down = read(known_ill(), up("a", 0))
    assert (down.changed, down.diagnostics) == ((), ())


@pytest.mark.parametrize("value", [1, 0, -1, 1.5, 3, float("nan")])
def test_a_fault_that_was_lost_on_the_way_makes_no_card_well(value: float) -> None:
    step = read(known_ill(), *CARDS, well("a", value))
    assert (step.changed, step.diagnostics) == (
        (),
        (
            f"node a: its collector says that {value:g} of its 2 cards are well, and by "
            "kubeshare_gpu_fault it is 2: none of them becomes well by that",
            STAYS,
        ),
    )


def test_a_card_that_has_not_arrived_is_not_taken_for_one_that_is_well() -> None:
    # Both have a fault; of one neither that nor the card itself arrives.
    both = (fault("a", "GPU-1"), fault("a", "GPU-2"), well("a", 0))
    ill = read(Reading(), *CARDS, *both).reading
    assert read(ill, CARDS[0], up("a"), well("a", 1)).reading.cards[A][0].healthy is True
    assert read(ill, CARDS[0], up("a"), well("a", 0)).reading.cards[A][0].healthy is False


@pytest.mark.parametrize(("value", "healthy"), [(0, True), (1, False), (2, False), (-1, False)])
def test_a_fault_of_0_is_none(value: float, healthy: bool) -> None:
    found = states(read(Reading(), *CARDS, fault("a", "GPU-1", value)))
    assert found["a"]["GPU-1"] is healthy


def test_of_two_collectors_words_the_bad_one_counts() -> None:
    other = well("a", 2, instance="other:9004")
    for words in ((*ILL, other), (other, *ILL)):
        assert states(read(Reading(), *CARDS, *words))["a"] == {"GPU-1": False, "GPU-2": True}


def test_another_nodes_word_is_none_about_this_card() -> None:
    assert states(read(Reading(), *CARDS, fault("b", "GPU-1")))["a"]["GPU-1"] is True


def test_a_card_whose_series_cannot_be_read_may_still_fall_ill_and_be_well_again() -> None:
    garbled = (capacity("a", "GPU-1", memory="x"), *CARDS[1:])
    first = read(Reading(), *CARDS, HEALTHY).reading
    ill = read(first, *garbled, *ILL)
    assert states(ill) == {"a": {"GPU-1": False, "GPU-2": True}}
    assert states(read(ill.reading, *garbled, HEALTHY)) == {"a": {"GPU-1": True, "GPU-2": True}}


def test_the_collectors_own_node_counts_where_the_scrape_adds_one() -> None:
    word = fault("target", "GPU-1", exported_node="a")
    assert states(read(Reading(), *CARDS, word))["a"]["GPU-1"] is False
