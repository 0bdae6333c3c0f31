"""What a reading makes of series that are relabelled, repeated, foreign, late or incomplete.

Each case keeps what is known and says where to look.
"""

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.changes import InventoryStep, next_reading
from kubeshare_py.inventory.sample_merge import LATE_AFTER_S, Reading
from kubeshare_py.inventory.series import Series
from tests.inventory.vector import (
    A,
    capacity,
    count,
    fault,
    read,
    states,
    told,
    up,
    uuids,
    well,
    without,
)

ONE, TWO = capacity("a", "GPU-1"), capacity("a", "GPU-2")
FIRST = (ONE, TWO, up("a"))


def known() -> Reading:
    return read(Reading(), *FIRST).reading


# --- relabelled -----------------------------------------------------------------------------------


def test_labels_that_the_scrape_overrides_are_read_from_their_exported_twins() -> None:
    own = {f"exported_{name}": text for name, text in ONE.labels.items() if name != "__name__"}
    odd = {"node": "10.0.0.1", "uuid": "pod", "model": "m", "memory": "high", "index": "?"}
    series = Series({**ONE.labels, **own, **odd}, 1.0)
    assert read(Reading(), series, TWO, up("a")).changed == read(Reading(), *FIRST).changed


@pytest.mark.parametrize("label", ["node", "uuid", "model", "memory", "index"])
def test_a_label_that_is_dropped_takes_no_card_away_and_is_named(label: str) -> None:
    step = read(known(), *(without(one, label) for one in FIRST))
    assert step.changed == ()
    assert not step.reading.silent_since
    assert len(step.diagnostics) == 2
    assert all("(reported by a:9004): label " + label in one for one in step.diagnostics)


def test_a_dropped_node_is_found_again_by_the_card_where_the_place_is_new() -> None:
    moved = without(capacity("a", "GPU-1", instance="new:9004"), "node")
    step = read(known(), moved, TWO, up("a"))
    assert step.changed == ()
    assert step.diagnostics == ("GPU-1 of node ? (reported by new:9004): label node is missing",)


def test_a_dropped_node_of_cards_that_nobody_knows_gives_none_and_says_so() -> None:
    step = read(Reading(), *(without(one, "node") for one in FIRST))
    assert (step.changed, len(step.diagnostics)) == ((), 2)


# --- twice ----------------------------------------------------------------------------------------


def test_two_prometheus_replicas_that_say_the_same_are_one() -> None:
    twice = [
        Series({**one.labels, "prometheus_replica": replica}, one.value)
        for one in (*FIRST, well("a", 2), count("a", 2))
        for replica in ("0", "1")
    ]
    step = read(Reading(), *twice)
    assert (step.changed, step.diagnostics) == (read(Reading(), *FIRST).changed, ())


def test_one_collector_under_two_jobs_is_one() -> None:
    again = [Series({**one.labels, "job": "other", "instance": "pod:1"}, 1) for one in FIRST]
    step = next_reading(Reading(), [*FIRST, *again], 0.0)
    assert (step.changed, step.diagnostics) == (read(Reading(), *FIRST).changed, ())


def test_two_copies_of_a_scrape_that_stands_still_are_still_late() -> None:
    vector = (
        capacity("a", "GPU-1", value=10, replica="0"),
        capacity("a", "GPU-1", value=11, replica="1"),
        up("a"),
    )
    first = read(Reading(), *vector).reading
    again = read(first, *reversed(vector), now=5.0).reading
    assert dict(again.silent_since) == {}
    assert read(again, *vector, now=LATE_AFTER_S + 1).reading.silent_since == {A: 121.0}


def test_two_collectors_for_one_node_name_are_both_named() -> None:
    other = capacity("a", "GPU-9", instance="10.0.0.9:9004")
    step = read(Reading(), *FIRST, other)
    assert step.diagnostics == (
        "node a: the collectors at 10.0.0.9:9004 and a:9004 list different cards of it",
    )


def test_a_node_that_lists_cards_of_another_one_changes_nothing_of_that_one() -> None:
    clone = (capacity("b", "GPU-1"), capacity("b", "GPU-2"), fault("b", "GPU-1"), up("b"))
    step = read(known(), *clone, *FIRST)
    assert states(step) == {"b": {"GPU-1": False, "GPU-2": True}}
    assert step.diagnostics == ("node b: memory-errors, no new pods: GPU-1",)


def test_a_card_with_an_absurd_amount_stays_as_it_was_known_and_others_count() -> None:
    absurd = (capacity("a", "GPU-1", memory=str(2**53)), capacity("a", "GPU-3", index=str(2**40)))
    step = read(known(), *absurd, TWO, capacity("a", "GPU-4"), up("a"))
    assert uuids(step) == {"a": ["GPU-1", "GPU-2", "GPU-4"]}
    assert step.diagnostics == (
        f"GPU-1 of node a (reported by a:9004): label memory {2**53} is not within 1…{2**48}",
        f"GPU-3 of node a (reported by a:9004): label index {2**40} is not within 0…4095",
    )


def test_of_too_many_cards_the_first_are_used() -> None:
    many = [capacity("a", f"GPU-{at:04}", index=str(at)) for at in range(600)]
    step = read(Reading(), *many, up("a"))
    assert [len(cards) for _, cards in step.changed] == [128]
    assert step.diagnostics == (
        "node a: number of cards 600 is not within 0…128: the first are used",
    )


# --- not ours -------------------------------------------------------------------------------------


def test_another_jobs_series_count_for_nothing_and_are_told_of_once() -> None:
    foreign = (
        capacity("a", "GPU-1", memory="1", job="dcgm"),
        capacity("b", "GPU-7", job="dcgm"),
        fault("a", "GPU-2", job="dcgm"),
        count("a", 9, job="dcgm"),
        told("up", "c", 1, job="dcgm"),
    )
    step = read(known(), *foreign, *FIRST)
    assert step.changed == ()
    assert step.diagnostics == (
        "2 gpu_capacity series of job 'dcgm' ignored, which the selector leaves out; one is GPU-1 "
        "of node a",
    )


# --- clocks ---------------------------------------------------------------------------------------


def at(value: float, unix_now: float, now: float, previous: Reading) -> InventoryStep:
    vector = (capacity("a", "GPU-1", value=value), up("a"))
    return next_reading(previous, vector, now, unix_now=unix_now)


@pytest.mark.parametrize(
    ("skew_s", "how"), [(3600.0, "60 s ahead"), (-3600.0, "360 s behind"), (-200.0, ""), (50.0, "")]
)
def test_a_clock_that_is_wrong_is_named_and_makes_nobody_silent(skew_s: float, how: str) -> None:
    reading = Reading()
    for turn in range(60):
        now = 5.0 * turn
        step = at(1e9 + skew_s + now, 1e9 + now, now, reading)
        reading = step.reading
        expected = (f"node a: its clock is more than {how} of the scheduler's",) if how else ()
        assert step.diagnostics == expected
        assert not reading.silent_since
    # It stands still: that is silence, and says nothing of clocks.
    late = at(1e9 + skew_s + now, 1e9 + 1000.0, 1000.0, reading)
    assert late.reading.silent_since == {A: 1000.0}
    assert late.diagnostics == ()


def test_a_clock_that_is_put_back_is_no_standstill() -> None:
    first = at(1e9, 1e9, 0.0, Reading()).reading
    assert not at(1e9 - 50.0, 1e9 + 200.0, 200.0, first).reading.silent_since


# --- incomplete -----------------------------------------------------------------------------------


def test_a_card_is_gone_only_if_all_that_its_collector_lists_have_arrived() -> None:
    first = read(Reading(), *FIRST, count("a", 2)).reading
    partial = read(first, TWO, up("a"), count("a", 2))
    assert partial.changed == ()
    assert partial.diagnostics == (
        "node a: 1 of the 2 cards that its collector lists have arrived: nothing of it counts as "
        "gone",
    )
    assert uuids(read(first, TWO, up("a"), count("a", 1))) == {"a": ["GPU-2"]}


def test_an_answer_without_any_card_where_there_should_be_some_takes_none_away() -> None:
    first = read(Reading(), *FIRST, count("a", 2)).reading
    assert read(first, up("a"), count("a", 2)).changed == ()
    assert uuids(read(first, up("a"), count("a", 0))) == {"a": []}


def test_a_collector_at_a_new_place_that_lists_nothing_is_heard() -> None:
    place = {"instance": "new:9004"}
    vector = (told("up", "x", 1, **place), count("a", 0, **place))
    step = read(known(), *vector)
    assert uuids(step) == {"a": []}
    assert not step.reading.silent_since


def test_a_collector_whose_node_the_scrape_tells_need_not_list_anything() -> None:
    assert uuids(read(known(), told("up", "a", 1, instance="new:9004"))) == {"a": []}


def test_an_address_that_another_collector_got_meanwhile_speaks_for_nobody_else() -> None:
    b = capacity("b", "GPU-7")
    first = read(Reading(), *FIRST, b, up("b")).reading
    gone = read(first, b, up("b")).reading
    reused = read(gone, up("a"), b, up("b"))
    assert reused.changed == ()
    assert {*reused.reading.silent_since} == {"a"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_count_that_is_none_says_nothing(value: float) -> None:
    step = read(known(), ONE, up("a"), count("a", value))
    assert uuids(step) == {"a": ["GPU-1"]}


def test_an_answer_without_some_node_makes_that_node_silent() -> None:
    b = (capacity("b", "GPU-7"), up("b"))
    first = read(Reading(), *FIRST, *b).reading
    step = read(first, *b, now=9.0)
    assert step.changed == ()
    assert step.reading.silent_since == {NodeName("a"): 9.0}
