"""Who waits and who keeps to a core limit, of containers on the same cards."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.node_agent.hami_core import (
    GOING_ON,
    RECENT_S,
    WAITING,
    CardUse,
    Feedback,
    SharedRegion,
    feedback,
)

NOW = 1000.0


def region(
    *cards: str, priority: int = 1, recent: int = 0, last: float | None = NOW, limiting: bool = True
) -> SharedRegion:
    uses = tuple(CardUse(at, uuid, 0, 30, 0, 0, 0, 0, 0) for at, uuid in enumerate(cards))
    return SharedRegion(
        version="1.2",
        cards=uses,
        processes=1,
        is_limiting=limiting,
        recent_kernel=recent,
        priority=priority,
        last_kernel_at=None if last is None else int(last),
        tail=0,
    )


def told(**regions: SharedRegion) -> dict[str, Feedback]:
    return feedback(regions, NOW)


def test_a_container_that_is_alone_on_its_card_needs_not_keep_to_its_limit_c7() -> None:
    assert told(a=region("X")) == {"a": Feedback(GOING_ON, is_limiting=False)}
    assert told(a=region("X"), b=region("Y"))["a"].is_limiting is False


def test_containers_of_one_priority_on_one_card_keep_to_their_limits_c7() -> None:
    found = told(a=region("X", "Y"), b=region("Y"))
    assert found["a"] == found["b"] == Feedback(GOING_ON, is_limiting=True)


def test_a_container_that_does_nothing_holds_nobody_back_c7() -> None:
    idle = region("X", last=NOW - RECENT_S - 1)
    found = told(a=region("X"), b=idle)
    assert (found["a"].is_limiting, found["b"].is_limiting) == (False, False)


def test_a_container_waits_for_one_of_higher_priority_on_its_card_c7() -> None:
    found = told(high=region("X", priority=0), low=region("X", "Y"), other=region("Y"))
    assert found["high"] == Feedback(GOING_ON, is_limiting=False)
    assert found["low"] == Feedback(WAITING, is_limiting=True)
    assert found["other"].recent_kernel == GOING_ON


def test_it_goes_on_once_the_other_is_idle_c7() -> None:
    idle = region("X", priority=0, last=NOW - RECENT_S - 1)
    waiting = region("X", recent=WAITING, last=NOW - 60)
    assert told(high=idle, low=waiting)["low"] == Feedback(GOING_ON, is_limiting=False)


def test_one_that_waits_does_not_count_as_using_its_card_c7() -> None:
    waiting = region("X", recent=WAITING, last=NOW - 60)
    assert told(a=waiting, b=region("X"))["b"].is_limiting is False


def test_the_count_of_old_libraries_goes_down_at_each_look_c7() -> None:
    """They have no time of the last kernel, and write 2 at each."""
    fresh, stale = region("X", recent=2, last=None), region("X", recent=1, last=None)
    assert told(a=fresh, b=fresh)["a"] == Feedback(1, is_limiting=True)
    assert told(a=fresh, b=stale)["b"] == Feedback(0, is_limiting=False)


def test_a_clock_that_went_back_is_no_kernel() -> None:
    assert told(a=region("X", last=NOW + 5), b=region("X"))["b"].is_limiting is False


REGIONS = st.builds(
    region,
    st.sampled_from("XYZ"),
    st.sampled_from("UVW"),
    priority=st.integers(-1, 2),
    recent=st.integers(-1, 2),
    last=st.none() | st.sampled_from((NOW, NOW - RECENT_S, NOW - RECENT_S - 1)),
)


@given(st.lists(REGIONS, max_size=6))
def test_whoever_waits_has_one_that_it_waits_for_and_the_highest_never_wait(
    regions: list[SharedRegion],
) -> None:
    found = feedback(dict(enumerate(regions)), NOW)
    assert {*found} == {*range(len(regions))}
    for at, one in found.items():
        own = regions[at]
        shared = [
            other
            for key, other in enumerate(regions)
            if key != at and {card.uuid for card in other.cards} & {card.uuid for card in own.cards}
        ]
        if one.recent_kernel == WAITING:
            assert any(other.priority < own.priority for other in shared)
            assert one.is_limiting
        if not shared:
            assert one == Feedback(max(own.recent_kernel - 1, GOING_ON), is_limiting=False)
