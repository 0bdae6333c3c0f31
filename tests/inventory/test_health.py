"""Which cards are healthy, as collectors tell it."""

import pytest

from kubeshare_py.exporters.collector_metrics import CATALOGUE
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.series import TOLD
from tests.inventory.vector import capacity, healthy, read, states, up

CARDS = (capacity("a", "GPU-1"), capacity("a", "GPU-2"), up("a"))
WELL, ILL = (healthy("a", "GPU-1"), healthy("a", "GPU-2")), healthy("a", "GPU-1", 0)


def test_what_is_read_is_what_our_collector_writes() -> None:
    assert {*TOLD} <= {metric.name for metric in CATALOGUE}


def test_a_card_with_a_fault_is_not_healthy_until_it_is_told_to_be() -> None:
    first = read(Reading(), *CARDS, *WELL)
    assert states(first) == {"a": {"GPU-1": True, "GPU-2": True}}
    ill = read(first.reading, ILL, WELL[1], *CARDS)
    assert states(ill) == {"a": {"GPU-1": False, "GPU-2": True}}
    assert read(ill.reading, *CARDS, ILL, WELL[1]).changed == ()
    assert states(read(ill.reading, *CARDS, *WELL)) == states(first)


def test_a_collector_that_says_nothing_of_health_has_healthy_cards() -> None:
    assert states(read(Reading(), *CARDS)) == {"a": {"GPU-1": True, "GPU-2": True}}


def test_silence_about_a_card_that_was_ill_makes_it_no_better() -> None:
    ill = read(Reading(), *CARDS, ILL).reading
    step = read(ill, *CARDS)
    assert (step.changed, step.diagnostics) == (
        (),
        ("GPU-1 of node a: no kubeshare_gpu_healthy any more; it was unhealthy and stays so",),
    )
    down = read(ill, up("a", 0))
    assert (down.changed, down.diagnostics) == ((), ())


@pytest.mark.parametrize("value", [0, -1, 0.5, 2, float("nan")])
def test_only_1_is_healthy(value: float) -> None:
    assert states(read(Reading(), *CARDS, healthy("a", "GPU-1", value)))["a"]["GPU-1"] is False


def test_of_two_words_the_bad_one_counts() -> None:
    other = healthy("a", "GPU-1", 1, instance="other:9004")
    for words in ((ILL, other), (other, ILL)):
        assert states(read(Reading(), *CARDS, *words))["a"] == {"GPU-1": False, "GPU-2": True}


def test_another_nodes_word_is_none_about_this_card() -> None:
    assert states(read(Reading(), *CARDS, healthy("b", "GPU-1", 0)))["a"]["GPU-1"] is True


def test_a_card_whose_series_cannot_be_read_may_still_fall_ill() -> None:
    first = read(Reading(), *CARDS, *WELL).reading
    step = read(first, capacity("a", "GPU-1", memory="x"), *CARDS[1:], ILL, WELL[1])
    assert states(step) == {"a": {"GPU-1": False, "GPU-2": True}}


def test_the_collectors_own_node_counts_where_the_scrape_adds_one() -> None:
    word = healthy("target", "GPU-1", 0, exported_node="a")
    assert states(read(Reading(), *CARDS, word))["a"]["GPU-1"] is False
