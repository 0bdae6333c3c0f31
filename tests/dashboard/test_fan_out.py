"""When the state is read: for whom, with whose rights, and how much of a core that may take."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dashboard.fan_out import (
    LAST_PAUSE_S,
    LEAST_S,
    MAX_REST_S,
    PRESENT_S,
    SHARE,
    Audience,
    FanOut,
    FanOutEffect,
    Forget,
    Read,
    ReadEnded,
    ReadFailed,
    ReadRefused,
    ViewerId,
    ViewerSeen,
)
from kubeshare_py.domain.events import TimePassed

ALL, TEAM = Audience("all"), Audience("team")
ANN, BOB = ViewerId("ann"), ViewerId("bob")


def seen(viewer: ViewerId = ANN, audience: Audience = ALL) -> ViewerSeen:
    return ViewerSeen(viewer, audience)


def test_the_first_viewer_makes_it_read_at_once_and_a_second_one_shares_the_answer() -> None:
    fan_out = FanOut()
    assert fan_out.handle(seen(ANN), 0.0) == [Read(ALL, ANN)]
    assert fan_out.handle(seen(BOB), 0.1) == []
    assert fan_out.handle(ReadEnded(ALL, 0.1), 0.2) == []
    assert fan_out.handle(seen(BOB), 0.3) == []


def test_it_is_read_again_after_a_rest_with_the_token_that_was_seen_last() -> None:
    fan_out = FanOut()
    fan_out.handle(seen(ANN), 0.0)
    fan_out.handle(seen(BOB), 0.5)
    fan_out.handle(ReadEnded(ALL, 0.01), 1.0)
    assert fan_out.wake_at(1.0) == 1.0 + LEAST_S
    assert fan_out.handle(TimePassed(), 1.0 + LEAST_S) == [Read(ALL, BOB)]


def test_a_slow_answer_is_followed_by_a_rest_that_is_as_much_longer() -> None:
    fan_out = FanOut()
    fan_out.handle(seen(), 0.0)
    fan_out.handle(ReadEnded(ALL, 1.5), 1.5)
    until = 1.5 + 1.5 * (1 / SHARE - 1)
    assert fan_out.wake_at(2.0) == until
    assert fan_out.handle(seen(), until - 0.1) == []
    assert fan_out.handle(seen(), until) == [Read(ALL, ANN)]


def test_a_new_audience_waits_for_no_rest_of_others_unless_rests_add_up() -> None:
    fan_out = FanOut()
    fan_out.handle(seen(), 0.0)
    fan_out.handle(ReadEnded(ALL, 1.0), 1.0)
    assert fan_out.handle(seen(BOB, TEAM), 1.1) == [Read(TEAM, BOB)]
    took_s = MAX_REST_S * SHARE * 2
    fan_out.handle(ReadEnded(TEAM, took_s), 1.1 + took_s)
    # The first rest is over at 20 s; the second one follows it.
    until = 20.0 + took_s * (1 / SHARE - 1) - MAX_REST_S
    late = Audience("late")
    assert fan_out.handle(seen(BOB, late), 2.0 + took_s) == []
    assert Read(late, BOB) not in fan_out.handle(seen(BOB, late), until - 0.1)
    assert Read(late, BOB) in fan_out.handle(seen(BOB, late), until)


def test_a_refused_viewer_counts_no_more_and_another_ones_token_is_used() -> None:
    fan_out = FanOut()
    fan_out.handle(seen(BOB), 0.0)
    fan_out.handle(ReadEnded(ALL, 0.0), 0.0)
    fan_out.handle(seen(ANN), 1.0)
    assert fan_out.handle(TimePassed(), LEAST_S) == [Read(ALL, ANN)]
    assert fan_out.handle(ReadRefused(ALL, ANN), LEAST_S) == [Read(ALL, BOB)]
    assert fan_out.handle(ReadRefused(ALL, BOB), LEAST_S) == [Forget(ALL)]
    assert fan_out.wake_at(LEAST_S) is None


def test_failures_are_repeated_after_longer_and_longer_pauses() -> None:
    fan_out, now, pauses = FanOut(), 0.0, []
    fan_out.handle(seen(), now)
    for _ in range(7):
        fan_out.handle(seen(), now)
        fan_out.handle(ReadFailed(ALL, 0.0), now)
        at = fan_out.wake_at(now)
        assert at is not None
        pauses.append(at - now)
        now = at
        assert fan_out.handle(TimePassed(), now) == [Read(ALL, ANN)]
    assert pauses == [2.0, 2.0, 4.0, 8.0, *(LAST_PAUSE_S,) * 3]


def test_an_audience_without_viewers_is_forgotten_and_not_read() -> None:
    fan_out = FanOut()
    fan_out.handle(seen(), 0.0)
    fan_out.handle(ReadEnded(ALL, 10.0), 10.0)
    assert fan_out.handle(TimePassed(), PRESENT_S) == [Forget(ALL)]
    assert fan_out.wake_at(PRESENT_S) is None
    assert fan_out.handle(TimePassed(), 1000.0) == []


def test_an_answer_for_an_audience_that_is_gone_changes_nothing() -> None:
    fan_out = FanOut()
    fan_out.handle(seen(), 0.0)
    # The read is under way when its viewer leaves: it is forgotten once the read has ended.
    assert fan_out.handle(TimePassed(), PRESENT_S + 1) == []
    assert fan_out.handle(ReadEnded(ALL, 61.0), PRESENT_S + 1) == [Forget(ALL)]
    assert fan_out.handle(ReadFailed(ALL, 1.0), PRESENT_S + 2) == []


@dataclass
class Scheduler:
    """What the reads cost, by the test's own books."""

    reading: Read | None = None
    began: float = 0.0
    busy_s: float = 0.0
    firsts_s: float = 0.0
    known: set[Audience] = field(default_factory=set)

    def take(self, effects: list[FanOutEffect], now: float) -> None:
        for effect in effects:
            if isinstance(effect, Forget):
                self.known.discard(effect.audience)
                continue
            assert self.reading is None, "two at once"
            self.reading, self.began = effect, now


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 3), st.sampled_from([0.01, 0.2, 1.5])),
        min_size=1,
        max_size=60,
    )
)
def test_however_many_look_on_the_scheduler_gives_a_twentieth_of_a_core(
    asks: list[tuple[int, int, float]],
) -> None:
    fan_out, scheduler, now, end = FanOut(), Scheduler(), 0.0, 1200.0
    at = 0
    while now < end:
        viewer, audience, took_s = asks[at % len(asks)]
        at += 1
        if scheduler.reading is not None:
            now += took_s
            scheduler.busy_s += took_s
            name = scheduler.reading.audience
            if name not in scheduler.known:
                scheduler.firsts_s += took_s
            scheduler.known.add(name)
            scheduler.reading = None
            scheduler.take(fan_out.handle(ReadEnded(name, took_s), now), now)
        event = seen(ViewerId(str(viewer)), Audience(str(audience)))
        scheduler.take(fan_out.handle(event, now), now)
        if scheduler.reading is None:
            wake = fan_out.wake_at(now)
            assert wake is not None
            assert wake > now or fan_out.handle(TimePassed(), now) == []
            now = max(now + 0.05, min(wake, now + 5.0))
            scheduler.take(fan_out.handle(TimePassed(), now), now)
    # First reads may run ahead, by the rests that they then make all others wait for.
    assert scheduler.busy_s <= SHARE * (now + MAX_REST_S) + 3.0
    assert scheduler.busy_s > 0


def test_every_audience_is_read_in_turn() -> None:
    fan_out, now, read = FanOut(), 0.0, list[Audience]()
    names = [Audience(str(number)) for number in range(5)]
    effects: list[FanOutEffect] = []
    while len(read) < 40:
        for name in names:
            effects += fan_out.handle(seen(ANN, name), now)
        started = [one for one in effects if isinstance(one, Read)]
        effects = []
        if started:
            read.append(started[0].audience)
            now += 0.5
            effects += fan_out.handle(ReadEnded(started[0].audience, 0.5), now)
        else:
            now = fan_out.wake_at(now) or now
            effects += fan_out.handle(TimePassed(), now)
    assert {name: read.count(name) for name in names} == dict.fromkeys(names, 8)
