"""The time bar: what the cluster was like, by the event log."""

from tests.browser.conftest import Sight
from tests.browser.past_story import BEGAN, BLOCKER_LEFT, ENDED, TRAIN_CAME

SLIDER = "document.querySelector('#past-time')"


def at(seconds: float) -> str:
    """An address with that many seconds after the log began."""
    minutes, rest = divmod(round(seconds), 60)
    return f"at=2026-11-30T03:{minutes:02}:{rest:02}.000Z"


def in_hash(seconds: float) -> str:
    """The same as the page itself writes it."""
    return at(seconds).replace(":", "%3A")


async def slide(sight: Sight, seconds: float) -> None:
    """As a hand on the slider does."""
    ms = round((BEGAN + seconds) * 1000)
    await sight.tab.run(
        f"{SLIDER}.value = {ms}; {SLIDER}.dispatchEvent(new Event('input'));"
        f"{SLIDER}.dispatchEvent(new Event('change')); null"
    )


async def test_a_pod_that_waited_and_ran_does_so_again_on_the_slider(sight: Sight) -> None:
    await sight.open()
    tab = sight.tab
    await tab.click("#past")
    await tab.expect_text("As of", "#live")
    await tab.until("document.querySelectorAll('.node').length === 1")
    assert in_hash(ENDED) in await tab.run("location.hash")
    await sight.go(f"#/usage?by=pod&{at(ENDED)}")
    await tab.expect_text("default/train", "main")
    await slide(sight, TRAIN_CAME + 60)
    await tab.expect_text("default/blocker", "main")
    await tab.expect_text("1", "#queue-count")
    await sight.go(f"#/queue?pod=default/train&{at(TRAIN_CAME + 60)}")
    # Why, and for how long, as of then.
    await tab.expect_text("free 0", "#details")
    await tab.expect_text("it fits on n1 when default/blocker ends", "#details")
    await slide(sight, BLOCKER_LEFT)
    await tab.expect_text("runs, or starts", "#details")
    await tab.until("document.querySelector('#queue-count').hidden")
    await tab.run("document.querySelector('#past-bar details').open = true; null")
    await tab.expect_text("default/train was placed on n1", "#past-bar")
    await tab.click("#past")
    await tab.expect_text("Live", "#live")
    await sight.go("#/cards")
    await tab.until("document.querySelectorAll('.node').length === 8")
    await sight.expect_no_errors()


async def test_a_link_to_the_past_opens_it(sight: Sight) -> None:
    await sight.open()
    await sight.tab.open(f"{sight.url}/?#/usage?by=pod&{at(TRAIN_CAME)}")
    await sight.tab.expect_text("default/blocker", "main")
    await sight.tab.expect_text("As of", "#live")


async def test_keys_move_the_slider_and_the_address(sight: Sight) -> None:
    await sight.open(f"#/usage?by=pod&{at(TRAIN_CAME)}")
    await sight.tab.expect_text("default/blocker", "main")
    await sight.tab.run(f"{SLIDER}.focus(); null")
    await sight.tab.press("End")
    await sight.tab.until(f"location.hash.includes('{in_hash(ENDED)}')")
    await sight.tab.expect_text("default/train", "main")


async def test_who_signs_out_leaves_nothing_of_the_past_behind(sight: Sight) -> None:
    await sight.open(f"#/queue?{at(ENDED)}")
    await sight.tab.run("document.querySelector('#past-bar details').open = true; null")
    await sight.tab.expect_text("default/train was placed on n1", "#past-bar")
    await sight.tab.click("#sign-out")
    await sight.tab.expect_text("Sign in", "main h1")
    assert await sight.tab.run("document.querySelector('#past-bar').hidden")
    assert "train" not in await sight.tab.run("document.body.textContent")


async def test_before_the_log_there_is_a_sentence_and_the_present_goes_on_to_be_shown(
    sight: Sight,
) -> None:
    await sight.open("#/cards?at=2020-01-01T00:00:00Z")
    await sight.tab.expect_text("No event log was written yet", "#past-bar")
    await sight.tab.click("#past-bar button")
    await sight.tab.expect_text("Live", "#live")
    assert len(sight.tab.errors) == 1, "the 404 alone"


async def test_usage_is_added_up_over_a_time(sight: Sight) -> None:
    # A whole card for four minutes, and half a card for five.
    await sight.open(f"#/usage?by=pod&over=1h&{at(ENDED)}")
    await sight.tab.expect_text("a whole card held for an hour is one card-hour", "main")
    await sight.tab.expect_text("< 0.1", "main")
    rows = await sight.tab.run(
        "[...document.querySelectorAll('main .long .row')].map((e) => e.innerText)"
    )
    assert [row.split()[0] for row in rows] == ["default/blocker", "default/train"]
    await sight.tab.click("[data-over='']")
    await sight.tab.expect_text("What pods hold of cards at this moment", "main")
    await sight.expect_no_errors()
