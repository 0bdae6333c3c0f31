"""One candidate of an election, call by call."""

import pytest

from kubeshare_py.domain.lease import Lease, LeaseClaim, is_later
from kubeshare_py.domain.values import replace
from kubeshare_py.leader_election.leadership import Election, Terms

OTHERS = Lease(version="7", holder="other", transitions=3, duration_s=15, renewed="a")
FREE = replace(OTHERS, holder="", duration_s=1)


def election(**terms: float) -> Election:
    return Election("me", Terms(**terms))


def stored(claim: LeaseClaim | None, version: str = "8") -> Lease:
    """The Lease as the server keeps it once this is written."""
    assert claim is not None
    return Lease(
        version=version,
        holder=claim.holder,
        transitions=claim.transitions,
        duration_s=claim.duration_s,
        renewed=version,
    )


def leader(now: float = 100.0) -> Election:
    """Leads since `now`, after a clean release."""
    one = election()
    one.written(stored(one.look(FREE, now)), now, now)
    return one


def successor(now: float = 100.0) -> Election:
    """Acquired at `now` what its predecessor had not released."""
    one = election()
    assert one.look(OTHERS, now - 15) is None
    one.written(stored(one.look(OTHERS, now)), now, now)
    return one


def test_where_there_is_no_lease_it_is_created_and_binds_are_sent_at_once() -> None:
    one = election()
    claim = one.look(None, 100)
    assert claim == LeaseClaim(version="", holder="me", transitions=0, duration_s=15, acquires=True)
    assert not one.may_send(100)
    one.written(stored(claim), 100, 100.5)
    assert one.may_send(100.5)
    assert one.fence == "me/0"


def test_a_released_lease_is_taken_at_once_in_a_new_term() -> None:
    one = leader(100)
    assert one.fence == "me/4"
    assert one.may_send(100)


def test_a_lease_never_held_is_taken_at_once() -> None:
    one = election()
    one.written(stored(one.look(Lease(version="1"), 5)), 5, 5)
    assert one.may_send(5)


def test_somebody_elses_lease_is_left_alone_while_it_changes() -> None:
    one = election()
    for number in range(10):
        assert one.look(replace(OTHERS, renewed=str(number)), 100 + 14 * number) is None
    assert one.free_at == 100 + 14 * 9 + 15


def test_a_new_version_that_says_the_same_is_no_change() -> None:
    one = election()
    assert one.look(OTHERS, 100) is None
    assert one.look(replace(OTHERS, version="9"), 114) is None
    claim = one.look(replace(OTHERS, version="10"), 115)
    assert claim is not None
    assert (claim.version, claim.transitions, claim.acquires) == ("10", 4, True)


def test_a_holder_that_announces_more_time_gets_it() -> None:
    one = election()
    assert one.look(replace(OTHERS, duration_s=60), 100) is None
    assert one.look(replace(OTHERS, duration_s=60), 159) is None
    assert one.look(replace(OTHERS, duration_s=60), 160) is not None


def test_a_holder_that_announces_less_time_gets_ours() -> None:
    one = election()
    assert one.look(replace(OTHERS, duration_s=1), 100) is None
    assert one.look(replace(OTHERS, duration_s=1), 114) is None


def test_durations_below_a_second_are_taken_as_they_are() -> None:
    one = election(lease_duration_s=0.3, renew_deadline_s=0.2, retry_period_s=0.02)
    held = replace(OTHERS, duration_s=1)
    assert one.look(held, 100) is None
    assert one.look(held, 100.3) is not None


def test_a_successor_to_an_unreleased_lease_waits_for_its_predecessors_last_binds() -> None:
    one = successor(100)
    assert one.leads
    assert not one.may_send(105.9)
    assert one.may_send(106)


def test_it_stops_sending_at_the_renew_deadline() -> None:
    one = leader(100)
    assert one.may_send(109.9)
    assert not one.may_send(110)
    assert one.lost(110)


def test_the_deadline_counts_from_the_sending_of_the_last_renewal_that_was_stored() -> None:
    one = leader(100)
    claim = one.renewal()
    assert claim is not None
    assert (claim.version, claim.acquires, claim.transitions) == ("8", False, 4)
    one.written(stored(claim, "9"), 104, 108)
    assert one.deadline == 114
    assert one.fence == "me/4"


def test_after_a_renewal_without_an_answer_it_looks_before_it_writes() -> None:
    one = leader(100)
    own = stored(one.renewal(), "9")
    one.not_written()
    assert one.renewal() is None
    claim = one.look(own, 103)
    assert claim is not None
    assert claim.version == "9"


def test_an_acquisition_whose_answer_was_lost_is_recognised_and_still_waits() -> None:
    one = election()
    assert one.look(OTHERS, 85) is None
    lost = stored(one.look(OTHERS, 100))
    one.not_written()
    claim = one.look(lost, 103)
    assert claim is not None
    assert (claim.transitions, claim.acquires) == (4, False)
    one.written(stored(claim, "9"), 103, 103)
    assert one.binds_from == 109


def test_a_leader_that_sees_somebody_else_has_lost_for_ever() -> None:
    one = leader(100)
    assert one.look(OTHERS, 101) is None
    assert one.lost(101)
    assert not one.may_send(101)
    assert one.look(FREE, 200) is None
    assert one.renewal() is None


def test_a_leader_whose_lease_was_deleted_creates_it_again_in_the_same_term() -> None:
    one = leader(100)
    claim = one.look(None, 102)
    assert claim is not None
    assert (claim.version, claim.transitions) == ("", 4)


def test_a_candidate_lets_the_holder_of_a_deleted_lease_have_its_time() -> None:
    one = election()
    assert one.look(OTHERS, 100) is None
    assert one.look(None, 114) is None
    claim = one.look(None, 115)
    assert claim is not None
    assert (claim.version, claim.transitions) == ("", 4)
    one.written(stored(claim), 115, 115)
    assert one.binds_from == 121


def test_a_release_names_nobody_and_ends_all_sending() -> None:
    one = leader(100)
    assert one.release(105) == LeaseClaim(version="8", holder="", transitions=4, duration_s=1)
    assert not one.may_send(105)
    assert one.release(105) is None


def test_what_is_lost_is_not_released() -> None:
    assert leader(100).release(110) is None


def test_who_still_waits_for_its_predecessor_does_not_release() -> None:
    assert successor(100).release(103) is None
    assert successor(100).release(106) is not None


def test_who_never_led_does_not_release() -> None:
    one = election()
    assert one.look(OTHERS, 100) is None
    assert one.release(101) is None


LAST = 2**31 - 1


def test_after_the_last_number_of_a_term_comes_the_first() -> None:
    one = election()
    claim = one.look(replace(FREE, transitions=LAST), 100)
    assert claim is not None
    assert claim.transitions == 0
    one.written(stored(claim), 100, 100)
    assert one.fence == "me/0"


@pytest.mark.parametrize(
    ("term", "than", "later"),
    [
        (4, 3, True),
        (3, 3, False),
        (3, 4, False),
        (0, LAST, True),
        (LAST, 0, False),
        (2**30 - 1, 0, True),
        (2**30, 0, False),
        (5, LAST - 5, True),
    ],
)
def test_terms_are_compared_as_sequence_numbers(term: int, than: int, *, later: bool) -> None:
    assert is_later(term, than) == later


def test_a_number_that_was_set_back_while_others_led_is_not_used_again() -> None:
    one = election()
    assert one.look(OTHERS, 100) is None
    claim = one.look(replace(FREE, transitions=0), 101)
    assert claim is not None
    assert claim.transitions == OTHERS.transitions + 1


@pytest.mark.parametrize("written", [0, 3, LAST])
def test_a_leader_writes_its_term_back_over_another_number(written: int) -> None:
    one = leader(100)
    assert one.fence == "me/4"
    one.not_written()
    claim = (
        one.look(replace(stored(one.renewal() or one.look(FREE, 0)), transitions=written), 102)
        if False
        else one.look(Lease(version="9", holder="me", transitions=written), 102)
    )
    assert claim is not None
    assert (claim.transitions, claim.acquires) == (4, False)
    one.written(stored(claim, "10"), 102, 102)
    renewal = one.renewal()
    assert renewal is not None
    assert renewal.transitions == 4


def test_a_name_that_others_wrote_before_it_asked_is_not_its_own_lease() -> None:
    one = election()
    forged = replace(OTHERS, holder="me")
    assert one.look(forged, 100) is None
    assert not one.leads
    claim = one.look(forged, 115)
    assert claim is not None
    one.written(stored(claim), 115, 115)
    assert (one.fence, one.binds_from) == ("me/4", 121)


def test_a_process_that_resumes_takes_up_the_lease_of_its_name_at_once_in_its_term() -> None:
    one = Election("me", Terms(), resumes=True)
    assert one.look(OTHERS, 90) is None
    left = replace(OTHERS, holder="me")
    claim = one.look(left, 100)
    assert claim is not None
    assert (claim.transitions, claim.acquires) == (3, False)
    one.written(stored(claim), 100, 100)
    # What its predecessor sent may still land.
    assert (one.fence, one.binds_from) == ("me/3", 106)


def test_a_process_that_resumes_waits_for_nothing_after_a_release() -> None:
    one = Election("me", Terms(), resumes=True)
    one.written(stored(one.look(FREE, 100)), 100, 100)
    assert (one.fence, one.binds_from) == ("me/4", 100)


def test_a_holder_that_announces_too_much_time_gets_ten_minutes() -> None:
    one = election()
    forged = replace(OTHERS, duration_s=LAST, renewed="9999-12-31T23:59:59.000000Z")
    assert one.look(forged, 100) is None
    assert one.look(forged, 699) is None
    assert one.look(forged, 700) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "terms",
    [
        {"lease_duration_s": 10.0},
        {"retry_period_s": 9.0},
        {"retry_period_s": 0.0},
        {"hand_over_s": -1.0},
        {"lease_duration_s": 601.0},
    ],
)
def test_terms_under_which_two_could_lead_cannot_be(terms: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        Terms(**terms)
