"""What each of NVIDIA's errors is to a card, and what ends it."""

import re
from pathlib import Path

import pytest

from kubeshare_py.domain.card_reading import Repair
from kubeshare_py.node_agent.history import (
    APPLICATION_XIDS,
    CURES,
    ERROR_KEPT_S,
    Cure,
    History,
    cure,
    xid_code,
)
from tests.node_agent.readings import a_card, a_reading, an_error

PAGE = Path(__file__).parents[2] / "docs" / "inventory.md"
SOON, LATE, WEEK = 11.0, 10.0 + ERROR_KEPT_S, 7 * 86400.0


def faults_after(code: str, now: float, repair: Repair | None) -> tuple[str, ...]:
    """The faults of a card long after an error, by what its driver says of repairs."""
    history = History()
    card = a_card(repair=repair)
    history.take(a_reading(card), 0.0)
    history.take(a_reading(card, happened=(an_error(code=code),)), 10.0)
    history.take(a_reading(card), now)
    return history.cards()[0].faults


@pytest.mark.parametrize("repair", [None, Repair.NONE])
@pytest.mark.parametrize("xid", [63, 92, 94, 32, 69, 154])
def test_a_card_that_needs_nothing_stays(xid: int, repair: Repair | None) -> None:
    assert faults_after(xid_code(xid), SOON, repair) == ()


@pytest.mark.parametrize("xid", [48, 64, 79, 95, 109, 119, 54, 9999])
def test_a_card_that_needs_a_repair_is_out_until_it_is_known_to_be_over(xid: int) -> None:
    code = xid_code(xid)
    assert faults_after(code, SOON, Repair.NONE) == (code,)
    assert faults_after(code, LATE, Repair.NONE) == ()
    assert faults_after(code, WEEK, None) == (code,)


def test_another_driver_ends_what_was_before() -> None:
    history = History()
    history.take(a_reading("GPU-a", happened=(an_error(code="xid-109"),), driver="535.1"), 0.0)
    history.take(a_reading("GPU-a", driver="535.1"), WEEK)
    assert history.cards()[0].faults == ("xid-109",)
    history.take(a_reading("GPU-a", driver="550.2"), WEEK + 1)
    assert history.cards()[0].faults == ()


def test_errors_that_programs_cause_take_no_card_out() -> None:
    assert {CURES[xid] for xid in APPLICATION_XIDS} <= {Cure.IGNORE, Cure.RESTART_APP}


@pytest.mark.parametrize("code", ["xid-0", "xid-", "xid-²", "79", "other-13"])
def test_a_code_that_the_catalogue_does_not_explain_wants_a_reset(code: str) -> None:
    assert cure(code) is Cure.RESET


def test_the_log_says_what_ends_an_error() -> None:
    reading = a_reading("GPU-a", happened=(an_error(code="xid-95"),))
    told = [one.about for one in History().take(reading, 0.0) if one.event == "driver-error"]
    assert told == [{"card": "GPU-a", "code": "xid-95", "cure": "reset"}]


@pytest.mark.slow
def test_the_page_has_the_table() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([0-9,… ]+) \|", PAGE.read_text(), re.MULTILINE)
    written = {
        number: word
        for word, numbers in rows
        for part in numbers.split(",")
        for number in _numbers(part)
    }
    assert written == {xid: action.value for xid, action in CURES.items()}


def _numbers(part: str) -> range:
    first, _, last = part.strip().partition("…")
    return range(int(first), int(last or first) + 1)
