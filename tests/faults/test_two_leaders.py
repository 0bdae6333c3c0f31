"""What slips through between two leaders where no policy refuses it: detected and reported."""

import pytest

from tests.faults.arena import Arena
from tests.faults.conftest import Play
from tests.faults.late_binding import ONE_CARD, sent_in_time, sent_late, until_overcommitted


async def is_in_time(found: Arena) -> None:
    books = found.books
    assert await sent_in_time(found) == 201
    assert await books.until(lambda: books.is_bound("first"), found.pace.settles_s)
    assert await books.until(lambda: not books.overlooked(), found.pace.settles_s)
    assert (books.is_bound("second"), books.problems) == (False, [])


@pytest.mark.embedded_only("the server has no part in it, and true time is long")
def test_a_successor_waits_for_what_its_predecessor_sent_last(play: Play) -> None:
    play(is_in_time, ONE_CARD, elect=True)


async def is_reported(found: Arena) -> None:
    books = found.books
    assert await sent_late(found) == 201
    assert await books.until(lambda: books.bound() == 2, found.pace.settles_s)
    [card] = books.cards
    assert books.problems[0] == f"{card} gives 1400 milli"
    await until_overcommitted(found, 1)
    [said] = found.schedulers.said("overcommit")
    assert said["card"] == card
    assert "default/first, default/second" in said["message"]
    await found.delete("first")
    await until_overcommitted(found, 0)


def test_a_card_that_a_deposed_leader_gave_away_as_well_is_reported(play: Play) -> None:
    play(is_reported, ONE_CARD, elect=True)
