"""From one reading to the next: what is remembered, forgotten, and told."""

from kubeshare_py.domain.card_reading import CardReading, NodeReading, Repair, Unanswered
from kubeshare_py.node_agent.history import ERROR_KEPT_S, History, given_away
from tests.node_agent.readings import a_card, a_reading, an_error

LATE = ERROR_KEPT_S + 1


def after(*readings: NodeReading, now: float = 0.0) -> History:
    """A history of readings a second apart, the last one at `now` if that is later."""
    history = History()
    for at, reading in enumerate(readings):
        history.take(reading, max(float(at), now if reading is readings[-1] else 0.0))
    return history


def faults(history: History, *, stale: bool = False) -> dict[str, tuple[str, ...]]:
    return {card.reading.uuid: card.faults for card in history.cards(stale=stale)}


def listed(history: History) -> dict[str, bool]:
    """Health of the cards that pods may get."""
    return {card.uuid: card.healthy for card in given_away(history.cards())}


def unreadable(*uuids: str) -> tuple[CardReading, ...]:
    return tuple(a_card(uuid, memory_bytes=0) for uuid in uuids)


def test_healthy_cards_are_given_away() -> None:
    assert listed(after(a_reading("GPU-a", "GPU-b"))) == {"GPU-a": True, "GPU-b": True}


def test_a_card_that_is_not_listed_any_more_is_lost() -> None:
    history = after(a_reading("GPU-a", "GPU-b"), a_reading("GPU-b"))
    assert listed(history) == {"GPU-b": True}
    assert faults(history) == {"GPU-a": ("lost",), "GPU-b": ()}


def test_it_comes_back_by_itself_and_what_was_before_is_over() -> None:
    ill = a_reading("GPU-a", happened=(an_error("GPU-a", "xid-79"),))
    history = after(ill, a_reading(), a_reading("GPU-a"))
    assert listed(history) == {"GPU-a": True}


def test_a_card_that_cannot_be_read_stays_where_it_is_and_takes_no_pods() -> None:
    history = after(a_reading("GPU-a"), a_reading(unreadable=unreadable("GPU-a")))
    assert listed(history) == {"GPU-a": False}
    assert faults(history) == {"GPU-a": ("unreadable",)}
    assert history.cards()[0].is_read


def test_a_card_that_never_could_be_read_is_told_of_but_not_given_away() -> None:
    history = after(a_reading(unreadable=unreadable("GPU-a")))
    assert listed(history) == {}
    assert faults(history) == {"GPU-a": ("unreadable",)}


def test_when_it_can_be_read_again_it_is_well() -> None:
    history = after(a_reading(unreadable=unreadable("GPU-a")), a_reading("GPU-a"))
    assert listed(history) == {"GPU-a": True}


def test_a_divided_card_is_given_away_by_its_instances() -> None:
    parts = [a_card(f"MIG-{number}", parent="GPU-a") for number in range(2)]
    assert listed(after(a_reading(a_card("GPU-a", divided=True), *parts))).keys() == {
        "MIG-0",
        "MIG-1",
    }


def test_a_divided_card_without_instances_is_nothing_to_give_away() -> None:
    assert listed(after(a_reading(a_card("GPU-a", divided=True)))) == {}


def test_instances_that_were_taken_away_are_not_missed() -> None:
    whole = a_card("GPU-a", divided=True)
    history = after(a_reading(whole, a_card("MIG-0", parent="GPU-a")), a_reading(whole))
    assert faults(history) == {"GPU-a": ()}


def test_instances_of_a_lost_card_are_gone_with_it() -> None:
    whole = a_card("GPU-a", divided=True)
    history = after(a_reading(whole, a_card("MIG-0", parent="GPU-a")), a_reading())
    assert faults(history) == {"GPU-a": ("lost",)}
    assert listed(history) == {}


def test_instances_that_the_driver_hides_stay_and_take_no_pods() -> None:
    whole, part = a_card("GPU-a", divided=True), a_card("MIG-0", parent="GPU-a")
    hidden = a_card("GPU-a", divided=True, hides_parts=True)
    history = after(a_reading(whole, part), a_reading(hidden))
    assert faults(history) == {"GPU-a": (), "MIG-0": ("unreadable",)}
    assert not history.cards()[1].is_read
    history.take(a_reading(whole), 3.0)
    assert faults(history) == {"GPU-a": ()}


def test_a_card_stays_divided_while_the_driver_does_not_tell_the_mode() -> None:
    whole, part = a_card("GPU-a", divided=True), a_card("MIG-0", parent="GPU-a")
    history = after(a_reading(whole, part), a_reading(a_card("GPU-a", hides_parts=True)))
    assert listed(history) == {"MIG-0": False}


def test_what_an_unreadable_card_still_says_is_known() -> None:
    warm = a_card("GPU-a", memory_bytes=0, model="", temperature_celsius=40)
    history = after(a_reading("GPU-a"), a_reading(unreadable=(warm,)))
    reading = history.cards()[0].reading
    assert (reading.model, reading.memory_bytes // 2**30) == ("A100", 40)
    assert reading.temperature_celsius == 40


def test_an_error_of_a_card_is_a_fault() -> None:
    history = after(a_reading("GPU-a", "GPU-b", happened=(an_error("GPU-a", "xid-79"),)))
    assert listed(history) == {"GPU-a": False, "GPU-b": True}


def test_an_error_of_a_program_is_counted_only() -> None:
    error = an_error("GPU-a", "xid-31", is_application=True)
    history = after(a_reading("GPU-a", happened=(error, error)))
    assert listed(history) == {"GPU-a": True}
    assert history.errors == {("GPU-a", "xid-31"): 2}


def test_an_error_of_a_card_is_one_of_its_instances_but_not_the_other_way_round() -> None:
    parts = [a_card(f"MIG-{number}", parent="GPU-a") for number in range(2)]
    cards = (a_card("GPU-a", divided=True), *parts)
    assert listed(after(a_reading(*cards, happened=(an_error("GPU-a"),)))) == {
        "MIG-0": False,
        "MIG-1": False,
    }
    assert listed(after(a_reading(*cards, happened=(an_error("MIG-1"),)))) == {
        "MIG-0": True,
        "MIG-1": False,
    }


def test_it_is_over_when_the_driver_wants_no_repair_for_a_while() -> None:
    well = a_card("GPU-a", repair=Repair.NONE)
    ill = a_reading(well, happened=(an_error("GPU-a"),))
    assert listed(after(ill, a_reading(well), now=ERROR_KEPT_S / 2)) == {"GPU-a": False}
    assert listed(after(ill, a_reading(well), now=LATE)) == {"GPU-a": True}


def test_it_is_not_over_while_the_driver_wants_a_repair_or_says_nothing() -> None:
    happened = (an_error("GPU-a"),)
    for repair in (None, Repair.RESET):
        card = a_card("GPU-a", repair=repair)
        history = after(a_reading(card, happened=happened), a_reading(card), now=LATE)
        assert listed(history) == {"GPU-a": False}


def test_an_error_that_comes_again_counts_from_then() -> None:
    ill = a_reading(a_card("GPU-a", repair=Repair.NONE), happened=(an_error("GPU-a"),))
    history = History()
    for now in (0.0, ERROR_KEPT_S):
        history.take(ill, now)
    history.take(a_reading(a_card("GPU-a", repair=Repair.NONE)), LATE)
    assert listed(history) == {"GPU-a": False}


def test_while_readings_are_stale_nothing_is_healthy() -> None:
    history = after(a_reading("GPU-a"))
    assert faults(history, stale=True) == {"GPU-a": ("stale",)}
    assert faults(history) == {"GPU-a": ()}


def test_cards_are_in_order() -> None:
    cards = (a_card("GPU-a", index=1), a_card("GPU-c"), a_card("MIG-b", parent="GPU-c"))
    assert [*faults(after(a_reading(*cards)))] == ["GPU-c", "MIG-b", "GPU-a"]


def test_changes_of_health_are_told_once() -> None:
    history = History()
    ill = a_reading(a_card("GPU-a", repair=Repair.RESET))
    told = [
        [notice.about for notice in history.take(reading, 0.0) if notice.event == "health"]
        for reading in (a_reading("GPU-a"), ill, ill, a_reading("GPU-a"))
    ]
    ill_now, well = ({"card": "GPU-a", "faults": found} for found in (["repair-reset"], []))
    assert told == [[], [ill_now], [], [well]]


def test_what_the_driver_does_not_answer_is_told_once_and_counted_always() -> None:
    history = History()
    silent = Unanswered(card="GPU-a", question="nvmlDeviceGetName", error="Unknown")
    told = [
        [notice.event for notice in history.take(a_reading(unanswered=unanswered), 0.0)]
        for unanswered in ((silent,), (silent,), (), (silent,))
    ]
    assert told == [["unanswered", "driver"], [], [], ["unanswered"]]
    assert history.unanswered == {("nvmlDeviceGetName", "Unknown"): 3}


def test_a_driver_that_comes_or_goes_is_told() -> None:
    history = History()
    told = [
        [notice.about["driver"] for notice in history.take(reading, 0.0)]
        for reading in (NodeReading(no_driver="LibraryNotFound"), NodeReading(driver="550"))
    ]
    assert told == [["LibraryNotFound"], ["550"]]
