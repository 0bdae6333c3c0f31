"""One instant vector, merged with what was known: which cards are listed, kept, or gone."""

from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.inventory.sample_merge import LATE_AFTER_S, Reading, SampleMerge, Scrape
from kubeshare_py.inventory.series import Series
from tests.inventory.vector import A, B, capacity, count, fault, read, told, up, well, without


def merged(previous: Reading, *vector: Series) -> SampleMerge:
    merge = SampleMerge(previous)
    merge.take(vector)
    return merge


def uuids(merge: SampleMerge) -> dict[NodeName, list[GpuUuid]]:
    return {node: [card.uuid for card in cards] for node, cards in merge.cards_by_node().items()}


def known() -> Reading:
    return read(Reading(), capacity("a", "GPU-1"), capacity("a", "GPU-2"), up("a")).reading


def test_cards_are_listed_by_index_whatever_the_order_of_the_series() -> None:
    cards = capacity("a", "GPU-2"), capacity("b", "GPU-3"), capacity("a", "GPU-1")
    assert uuids(merged(Reading(), *cards, up("a"))) == {A: ["GPU-1", "GPU-2"], B: ["GPU-3"]}


def test_a_card_is_gone_when_its_collector_answers_and_does_not_list_it() -> None:
    assert uuids(merged(known(), capacity("a", "GPU-2"), up("a"))) == {A: ["GPU-2"]}
    assert uuids(merged(known(), up("a"))) == {A: []}


def test_all_cards_stay_while_their_collector_does_not_answer() -> None:
    for vector in ([], [up("a", 0)], [capacity("a", "GPU-2"), up("a", 0)]):
        assert uuids(merged(known(), *vector)) == {A: ["GPU-1", "GPU-2"]}


def test_no_card_is_gone_while_fewer_arrived_than_the_collector_counts() -> None:
    merge = merged(known(), capacity("a", "GPU-2"), up("a"), count("a", 2))
    assert uuids(merge) == {A: ["GPU-1", "GPU-2"]}
    assert [line.partition(":")[2] for line in merge.diagnostics] == [
        " 1 of the 2 cards that its collector lists have arrived: nothing of it counts as gone"
    ]


def test_a_card_whose_series_cannot_be_read_stays_as_it_was_known() -> None:
    odd = capacity("a", "GPU-1", memory="much")
    merge = merged(known(), odd, capacity("a", "GPU-2"), up("a"))
    assert merge.cards_by_node() == known().cards
    assert len(merge.diagnostics) == 1


def test_a_series_without_its_node_counts_for_the_node_that_had_the_card() -> None:
    lost = without(capacity("a", "GPU-1"), "node", "instance")
    assert uuids(merged(known(), lost, capacity("a", "GPU-2"), up("a"))) == {A: ["GPU-1", "GPU-2"]}


def test_of_a_card_that_is_listed_twice_the_smaller_memory_counts() -> None:
    twice = capacity("a", "GPU-1", memory="70"), capacity("a", "GPU-1", memory="60")
    merge = merged(Reading(), *twice, up("a"))
    assert [card.memory_bytes for card in merge.cards_by_node()[A]] == [60]
    assert merge.diagnostics == ["GPU-1: a lists it twice, differently"]


def test_a_card_with_a_fault_is_not_healthy() -> None:
    cards = capacity("a", "GPU-1"), capacity("a", "GPU-2"), up("a")
    merge = merged(Reading(), *cards, fault("a", "GPU-1"), well("a", 1))
    assert [card.healthy for card in merge.cards_by_node()[A]] == [False, True]


def test_a_card_is_healthy_again_only_if_its_collector_counts_it_as_healthy() -> None:
    cards = capacity("a", "GPU-1"), capacity("a", "GPU-2"), up("a")
    ill = read(Reading(), *cards, fault("a", "GPU-1"), well("a", 1)).reading
    assert [card.healthy for card in merged(ill, *cards).cards_by_node()[A]] == [False, True]
    again = merged(ill, *cards, well("a", 2))
    assert [card.healthy for card in again.cards_by_node()[A]] == [True, True]


def test_a_card_has_the_readiness_that_its_node_reports_for_all_or_for_it_alone() -> None:
    cards = capacity("a", "GPU-1"), capacity("a", "GPU-2"), count("a", 2), up("a")
    common = told("kubeshare_collector_isolation", "a", 1, mps="ready")
    own = told("kubeshare_gpu_isolation", "a", 1, uuid="GPU-2", mps="no-daemon")
    found = merged(Reading(), *cards, common, own).cards_by_node()[A]
    assert [[one.reason for one in card.readiness] for card in found] == [[""], ["no-daemon"]]


def test_a_node_answers_if_the_scrape_of_its_collector_succeeded() -> None:
    merge = merged(known(), up("a"), up("b"), capacity("b", "GPU-3"), up("c"))
    assert merge.answering() == {A, B}
    assert merged(known(), up("a", 0)).answering() == set()


def test_a_known_node_that_neither_answers_nor_lists_cards_is_silent() -> None:
    merge = merged(known())
    assert merge.silent(merge.scrapes(5.0), 5.0) == {A}
    merge = merged(known(), up("a"))
    assert merge.silent(merge.scrapes(5.0), 5.0) == set()


def test_a_node_whose_scrape_time_stands_still_is_silent_after_a_while() -> None:
    first = merged(Reading(), capacity("a", "GPU-1", value=7.0), up("a"))
    scrapes = first.scrapes(0.0)
    assert scrapes == {A: Scrape(7.0, 0.0)}
    assert first.silent(scrapes, LATE_AFTER_S) == set()
    assert first.silent(scrapes, LATE_AFTER_S + 1) == {A}


def test_two_collectors_that_list_different_cards_of_one_node_are_reported() -> None:
    other = capacity("a", "GPU-2", instance="a:9999")
    merge = merged(Reading(), capacity("a", "GPU-1"), other, up("a"))
    merge.check_collectors()
    assert merge.diagnostics == [
        "node a: the collectors at a:9004 and a:9999 list different cards of it"
    ]
