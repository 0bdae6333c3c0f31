"""Placements that wait for PreBind plugins are charged, and each ends: bound, or taken back."""

import math

import pytest

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.events import (
    BindRefused,
    NodeGone,
    NodeSeen,
    ObjectWritten,
    PodGone,
    PodSeen,
    Refusal,
    WriteOutcome,
)
from kubeshare_py.domain.identity import DecisionToken, NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.points import READY, Rejected
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.explain.figures import decision_figures, ledger_figures, pod_figures
from kubeshare_py.scheduling.pre_bind import REPORT_AFTER_S
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import a_claim, a_group, a_node, a_pod, a_shape, a_share, members, names
from tests.making.pre_bind import FOR_S, PreBindDriver, select, waits

WHOLE = a_shape(a_claim(1000))
POD = a_pod("p", WHOLE)
LATE = 'running PreBind plugin "Patient": it took too long'


def a_waiting_pod(**fields: object) -> PreBindDriver:
    """A pod that waits on the only card, for a write about a claim."""
    driver = PreBindDriver({"n1": 1})
    driver.answers["p"] = waits(select("c"))
    assert driver.show(replace(POD, **fields)) == []  # type: ignore[arg-type]
    return driver


# --- a pod ---------------------------------------------------------------------------------------


def test_a_pod_of_which_nothing_is_left_to_do_is_bound_at_once() -> None:
    driver = PreBindDriver({"n1": 1})
    assert names(driver.show(POD)) == ["p"]
    assert driver.patient.asked == [("p", "n1", ())]


def test_a_pod_that_waits_is_charged_and_takes_no_slot_of_the_bindings() -> None:
    driver = a_waiting_pod()
    assert driver.states("p") == [PodState.PREBINDING]
    assert driver.is_charged("p")
    assert driver.machine.unanswered == 0
    assert len(driver.machine.pre_binds) == 1
    assert [effect.write for effect in driver.writes] == [select("c")]
    assert driver.show(a_pod("other", WHOLE)) == [], "the card is taken"


def test_a_pod_is_bound_where_it_was_placed_once_its_plugins_are_ready() -> None:
    driver = a_waiting_pod()
    driver.answers["p"] = READY
    driver.wrote()
    (bind,) = driver.turn()
    assert (bind.key.name, bind.node) == ("p", "n1")
    assert driver.patient.asked[-1] == ("p", "n1", (select("c"),))
    assert driver.states("p") == [PodState.ASSUMED]
    driver.bound([bind], POD)
    assert driver.states("p") == [PodState.BOUND]
    assert len(driver.machine.pre_binds) == 0


def test_a_write_is_requested_once_and_its_successor_once_more() -> None:
    driver = a_waiting_pod()
    driver.ask_again("p")
    driver.turn()
    driver.wrote()
    driver.turn()
    assert len(driver.writes) == 1
    driver.answers["p"] = waits(select("c"), select("d"))
    driver.ask_again("p")
    driver.turn()
    assert [effect.write for effect in driver.writes] == [select("c"), select("d")]


def test_a_stale_write_waits_for_the_object_that_it_was_not_for() -> None:
    driver = a_waiting_pod()
    driver.wrote(WriteOutcome.STALE)
    driver.turn()
    assert driver.patient.asked[-1] == ("p", "n1", ()), "nothing was written"
    driver.answers["p"] = waits(select("c", version="2"))
    driver.ask_again("p")
    driver.turn()
    assert [effect.write for effect in driver.writes] == [select("c"), select("c", version="2")]


def test_a_write_of_unknown_outcome_is_sent_again_after_a_pause() -> None:
    driver = a_waiting_pod()
    driver.wrote(WriteOutcome.UNKNOWN, "timeout")
    driver.turn()
    assert len(driver.writes) == 1
    driver.later(1)
    assert len(driver.writes) == 2
    driver.wrote(WriteOutcome.UNKNOWN, "timeout")
    driver.later(1)
    assert len(driver.writes) == 2, "the pauses become longer"
    driver.later(1)
    assert len(driver.writes) == 3


def test_a_refused_write_ends_the_placement() -> None:
    driver = a_waiting_pod()
    driver.wrote(WriteOutcome.REFUSED, 'persistentvolumeclaims "c" is forbidden')
    driver.turn()
    assert driver.states("p") == [PodState.BACKOFF]
    assert not driver.is_charged("p")
    said = driver.told["p"]
    assert said == 'running PreBind plugin "Patient": persistentvolumeclaims "c" is forbidden'


def test_a_placement_ends_by_its_timeout_and_the_pod_is_tried_again() -> None:
    driver = a_waiting_pod()
    driver.later(FOR_S - 1)
    assert driver.states("p") == [PodState.PREBINDING]
    driver.later(1)
    assert driver.told["p"] == LATE
    assert driver.states("p") == [PodState.BACKOFF]
    assert not driver.is_charged("p")
    driver.later(2)
    assert driver.states("p") == [PodState.PREBINDING], "the plugin still waits"


def test_the_timeout_counts_from_the_first_answer_of_a_plugin() -> None:
    driver = a_waiting_pod()
    driver.later(FOR_S / 2)
    driver.ask_again("p")
    driver.later(FOR_S / 2)
    assert driver.told["p"] == LATE


def test_a_plugin_that_refuses_at_once_gives_the_place_back() -> None:
    driver = PreBindDriver({"n1": 1})
    driver.answers["p"] = Rejected("no such claim")
    assert driver.show(POD) == []
    assert driver.told["p"] == 'running PreBind plugin "Patient": no such claim'
    assert driver.states("p") == [PodState.BACKOFF]
    assert not driver.is_charged("p")


def test_a_plugin_that_refuses_later_ends_the_placement() -> None:
    driver = a_waiting_pod()
    driver.answers["p"] = Rejected("provisioning failed")
    driver.wrote()
    driver.turn()
    assert driver.states("p") == [PodState.BACKOFF]
    assert not driver.is_charged("p")
    assert driver.told["p"] == 'running PreBind plugin "Patient": provisioning failed'


def test_a_pod_whose_node_is_gone_loses_its_place() -> None:
    driver = a_waiting_pod()
    driver.tell(NodeGone(NodeName("n1")))
    driver.turn()
    assert driver.states("p") == [PodState.BACKOFF]
    assert driver.told["p"] == 'node "n1" not found'


def test_a_plugin_is_asked_again_about_a_node_that_changed() -> None:
    driver = a_waiting_pod()
    driver.answers["p"] = READY
    driver.tell(NodeSeen(a_node("n1", labels={"zone": "a"})))
    assert names(driver.turn()) == ["p"]


def test_a_pod_that_is_deleted_leaves_nothing_behind() -> None:
    driver = a_waiting_pod()
    driver.gone(POD)
    assert not driver.is_charged("p")
    assert len(driver.machine.pre_binds) == 0
    driver.wrote()
    assert driver.turn() == [], "an answer that comes late changes nothing"


def test_an_edit_ends_the_placement_and_the_pod_is_tried_as_it_is_now() -> None:
    driver = a_waiting_pod()
    driver.answers.clear()
    (bind,) = driver.show(replace(POD, label_priority=1))
    assert bind.allocation.token != driver.writes[0].token


def test_a_change_of_the_status_alone_does_not() -> None:
    driver = a_waiting_pod()
    driver.show(replace(POD, nominated=True))
    assert driver.states("p") == [PodState.PREBINDING]
    assert len(driver.writes) == 1


def test_a_pod_that_begins_to_be_deleted_gives_its_place_back() -> None:
    driver = a_waiting_pod()
    driver.show(replace(POD, deleting=True))
    assert driver.states("p") == [PodState.GATED]
    assert not driver.is_charged("p")


def test_the_answer_to_the_write_of_an_earlier_placement_is_ignored() -> None:
    driver = a_waiting_pod()
    driver.later(FOR_S + 3)
    assert len(driver.writes) == 2
    driver.wrote(WriteOutcome.REFUSED, "too late", at=0)
    driver.turn()
    assert driver.states("p") == [PodState.PREBINDING]


def test_the_answer_to_a_write_that_was_not_requested_is_ignored() -> None:
    driver = a_waiting_pod()
    effect = driver.writes[0]
    odd = ObjectWritten(effect.uid, effect.token, select("x"), WriteOutcome.REFUSED, "no")
    driver.tell(odd, ObjectWritten(effect.uid, DecisionToken("x"), effect.write, odd.outcome, "no"))
    driver.turn()
    assert driver.states("p") == [PodState.PREBINDING]


def test_a_refused_binding_is_asked_about_anew() -> None:
    driver = a_waiting_pod()
    driver.answers["p"] = READY
    driver.wrote()
    (bind,) = driver.turn()
    driver.answer(bind, BindRefused(Refusal.INVALID, "no"))
    assert driver.states("p") == [PodState.BACKOFF]
    assert names(driver.later(1)) == ["p"]


def test_bindings_of_ready_pods_wait_for_free_slots() -> None:
    driver = PreBindDriver({"n1": 3})
    pods = [a_pod(name, WHOLE) for name in ("a", "b", "c")]
    for pod in pods:
        driver.answers[pod.key.name] = waits()
    driver.show(*pods)
    driver.answers.clear()
    driver.ask_again("a")
    assert [len(driver.decide(1)), len(driver.decide(1)), len(driver.decide(1))] == [1, 1, 1]
    assert driver.machine.unanswered == 3


def test_what_a_pod_waits_for_is_reported_after_a_while() -> None:
    driver = a_waiting_pod()
    assert "p" not in driver.told
    driver.later(5)
    assert driver.told["p"] == "waits for a volume"
    assert driver.machine.records[POD.uid].reported == Diagnosis(
        sentence="waits for a volume", reason=WaitingReason.NOT_READY
    ), "no new node would help"
    driver.answers["p"] = waits(what="another volume")
    driver.ask_again("p")
    driver.turn()
    assert driver.told["p"] == "waits for another volume"
    driver.answers.clear()
    driver.ask_again("p")
    driver.turn()
    assert driver.machine.records[POD.uid].reported is None


def test_why_says_what_a_pod_waits_for() -> None:
    driver = a_waiting_pod()
    view = why(driver.machine, POD.key)
    assert view is not None
    assert (view.pod.state, view.pod.node, view.pod.message) == (
        "prebinding",
        "n1",
        "waits for a volume",
    )


def test_figures_count_pods_that_wait_and_placements_that_waited_too_long() -> None:
    driver = a_waiting_pod()
    assert ledger_figures(driver.machine).prebinding_pods == 1
    *_, pods = pod_figures(driver.machine)
    assert (pods.holding, pods.assumed) == (1, 1)
    driver.later(FOR_S)
    assert ledger_figures(driver.machine).prebinding_pods == 0
    assert decision_figures(driver.machine).pre_bind_timeouts == 1


def test_the_machine_wants_to_be_woken_while_there_is_something_to_do() -> None:
    driver = a_waiting_pod()
    assert driver.machine.wake_at(driver.now) == driver.now + REPORT_AFTER_S
    driver.later(REPORT_AFTER_S)
    assert driver.machine.wake_at(driver.now) == FOR_S
    driver.wrote()
    assert driver.machine.wake_at(driver.now) == driver.now


# --- a gang --------------------------------------------------------------------------------------


def a_waiting_gang(*waiting: str, cards: int = 3) -> PreBindDriver:
    """A gang of three of which these members wait."""
    driver = PreBindDriver({"n1": cards})
    for name in waiting:
        driver.answers[name] = waits(select(name))
    assert driver.show(*members(a_group(3), 3)) == []
    return driver


def test_the_bindings_of_a_gang_wait_for_its_slowest_member() -> None:
    driver = a_waiting_gang("g-1", "g-2")
    assert driver.states("g-0", "g-1", "g-2") == [PodState.PREBINDING] * 3
    driver.answers.clear()
    driver.wrote(at=0)
    assert driver.turn() == []
    driver.wrote(at=1)
    assert names(driver.turn()) == ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize("how", ["late", "refused", "write refused"])
def test_a_gang_ends_with_the_placement_of_one_member(how: str) -> None:
    driver = a_waiting_gang("g-1", "g-2")
    if how == "late":
        driver.later(FOR_S)
    elif how == "refused":
        driver.answers["g-1"] = Rejected("no")
        driver.ask_again("g-1")
    else:
        driver.wrote(WriteOutcome.REFUSED, "no")
    driver.turn()
    assert driver.states("g-0", "g-1", "g-2") == [PodState.BACKOFF] * 3
    assert not any(map(driver.is_charged, ("g-0", "g-1", "g-2")))
    own = [said for said in driver.told.values() if said.startswith("running PreBind plugin")]
    others = [said for said in driver.told.values() if said.startswith("pod g-")]
    assert (len(own), len(others)) == (1, 2)
    assert others[0].endswith(f"of its group: {own[0]}")
    driver.answers.clear()
    assert names(driver.later(2)) == ["g-0", "g-1", "g-2"]


def test_a_gang_ends_when_a_member_that_it_needs_is_deleted() -> None:
    driver = a_waiting_gang("g-1")
    driver.gone(*members(a_group(3), 1))
    assert not any(map(driver.is_charged, ("g-1", "g-2")))
    assert driver.states("g-1", "g-2") == [PodState.WAITING] * 2


def test_a_member_above_the_minimum_is_bound_with_the_others() -> None:
    group = a_group(2, headcount=3)
    driver = PreBindDriver({"n1": 3})
    driver.answers["g-0"] = waits()
    assert driver.show(*members(group, 3)) == []
    assert driver.states("g-0", "g-1", "g-2") == [PodState.PREBINDING] * 3
    driver.answers.clear()
    driver.ask_again("g-0")
    assert names(driver.turn()) == ["g-0", "g-1", "g-2"]


def test_a_gang_goes_on_without_a_member_above_the_minimum() -> None:
    group = a_group(2, headcount=3)
    driver = PreBindDriver({"n1": 3})
    driver.answers["g-0"] = waits()
    driver.show(*members(group, 3))
    driver.gone(*members(group, 1, start=2))
    assert driver.states("g-0", "g-1") == [PodState.PREBINDING] * 2
    driver.answers.clear()
    driver.ask_again("g-0")
    assert names(driver.turn()) == ["g-0", "g-1"]


def test_a_gang_is_not_repaired_while_it_waits() -> None:
    driver = a_waiting_gang("g-1")
    driver.later(FOR_S - 1)
    assert driver.states("g-0", "g-1", "g-2") == [PodState.PREBINDING] * 3
    assert driver.evicted == []


def test_a_member_that_joins_a_running_gang_waits_alone() -> None:
    driver = PreBindDriver({"n1": 3})
    driver.bound(driver.show(*members(a_group(2), 2)))
    driver.answers["g-2"] = waits()
    driver.show(*members(a_group(2), 1, start=2))
    assert driver.states("g-0", "g-1", "g-2") == [
        PodState.BOUND,
        PodState.BOUND,
        PodState.PREBINDING,
    ]
    driver.later(FOR_S)
    assert driver.states("g-0", "g-1", "g-2") == [PodState.BOUND, PodState.BOUND, PodState.BACKOFF]
    assert driver.evicted == []


def test_a_gang_that_a_plugin_refuses_at_once_gives_all_places_back() -> None:
    driver = PreBindDriver({"n1": 3})
    driver.answers["g-2"] = Rejected("no such claim")
    assert driver.show(*members(a_group(3), 3)) == []
    assert not any(map(driver.is_charged, ("g-0", "g-1", "g-2")))
    assert driver.told["g-0"].endswith(
        'no place for g-2: running PreBind plugin "Patient": no such claim'
    )


# --- limits --------------------------------------------------------------------------------------


def several(count: int, start: int = 0) -> list[Pod]:
    return [a_share(f"p{number}", 100) for number in range(start, start + count)]


def crowd(count: int, limits: tuple[int, int]) -> PreBindDriver:
    """So many pods with something to wait for, of which not all may."""
    driver = PreBindDriver({"n1": 8}, limits=limits)
    for number in range(count):
        driver.answers[f"p{number}"] = waits()
    assert driver.show(*several(count)) == []
    return driver


def test_pods_beyond_the_limit_are_held_with_a_reason() -> None:
    driver = crowd(5, (3, 1000))
    assert driver.states(*(f"p{number}" for number in range(5))) == [
        *[PodState.PREBINDING] * 3,
        *[PodState.GATED] * 2,
    ]
    assert not driver.is_charged("p4")
    said = "3 pods of its namespace wait for PreBind plugins, the most at a time"
    assert (driver.told["p3"], driver.told["p4"]) == (said, said)


def test_the_limit_of_all_namespaces_has_a_reason_of_its_own() -> None:
    driver = crowd(3, (100, 2))
    assert driver.told["p2"] == "2 pods wait for PreBind plugins, the most at a time"


def test_held_pods_follow_when_others_end() -> None:
    driver = crowd(5, (3, 1000))
    driver.gone(*several(1))
    driver.later(1)
    assert driver.states("p3", "p4") == [PodState.PREBINDING, PodState.GATED]


def test_held_pods_do_not_wait_behind_released_ones_without_a_place() -> None:
    driver = crowd(4, (2, 1000))
    driver.gone(*several(2))
    driver.later(3)
    assert driver.states("p2", "p3") == [PodState.PREBINDING] * 2


def test_newcomers_go_behind_held_pods() -> None:
    driver = crowd(3, (2, 1000))
    driver.answers["p9"] = waits()
    driver.tell(PodGone(several(1)[0].uid), PodSeen(several(1, 9)[0]))
    driver.later(2)
    assert driver.states("p2", "p9") == [PodState.PREBINDING, PodState.GATED]


def test_a_pod_that_waits_for_nothing_passes_held_ones() -> None:
    driver = crowd(5, (3, 1000))
    assert names(driver.show(a_share("quick", 100))) == ["quick"]


def test_a_gang_larger_than_the_limit_waits_alone() -> None:
    driver = PreBindDriver({"n1": 8}, limits=(2, 1000))
    for name in ("p0", "g-0", "g-1", "g-2"):
        driver.answers[name] = waits()
    driver.show(*several(1))
    driver.show(*members(a_group(3), 3, a_claim(100)))
    assert driver.states("p0", "g-0", "g-1", "g-2") == [
        PodState.PREBINDING,
        *[PodState.GATED] * 3,
    ]
    driver.gone(*several(1))
    driver.later(3)
    assert driver.states("g-0", "g-1", "g-2") == [PodState.PREBINDING] * 3


def test_all_members_of_a_held_gang_are_known_and_pass_those_held_behind_them() -> None:
    driver = PreBindDriver({"n1": 8}, limits=(2, 1000))
    for name in ("p0", "p1", "p9", "g-0", "g-1"):
        driver.answers[name] = waits()
    driver.show(*several(2))
    driver.show(*members(a_group(2), 4, a_claim(100)))
    driver.show(*several(1, 9))
    assert driver.states("g-3", "p9") == [PodState.GATED] * 2
    driver.gone(*several(2))
    driver.later(3)
    assert driver.states("g-0", "g-1", "p9") == [PodState.PREBINDING] * 2 + [PodState.GATED]


def test_a_held_pod_that_is_deleted_is_forgotten() -> None:
    driver = crowd(4, (3, 1000))
    driver.gone(*several(1, 3))
    driver.gone(*several(3))
    driver.later(2)
    assert driver.machine.records == {}
    assert not driver.machine.pre_binds.limits.release(math.inf)


def test_requested_writes_name_the_pod_and_an_unchanged_view_changes_nothing() -> None:
    driver = a_waiting_pod()
    (effect,) = driver.writes
    assert (effect.uid, effect.key) == (POD.uid, POD.key)
    assert driver.tell(PodSeen(POD)) == []


# --- preemption ----------------------------------------------------------------------------------


URGENT = a_pod("urgent", WHOLE, priority=1)


def with_preemption(cards: int = 1) -> PreBindDriver:
    """Pods may be preempted for others."""
    return PreBindDriver({"n1": cards}, more={"reserve": {}})


def test_a_pod_that_waits_gives_its_place_to_a_more_important_one_without_an_eviction() -> None:
    driver = with_preemption()
    driver.answers["p"] = waits()
    driver.show(POD)
    binds = driver.show(URGENT)
    assert names(binds) == ["urgent"]
    assert driver.evicted == []
    assert driver.told["p"] == "its place goes to a pod of higher priority"
    assert not driver.is_charged("p")


def test_a_gang_that_waits_gives_way_as_a_whole() -> None:
    driver = with_preemption(2)
    driver.answers["g-0"] = waits()
    driver.show(*members(a_group(2), 2))
    binds = driver.show(URGENT)
    assert names(binds) == ["urgent"]
    assert driver.evicted == []
    assert not any(map(driver.is_charged, ("g-0", "g-1")))


def test_a_pod_that_waits_keeps_its_place_from_equally_important_ones() -> None:
    driver = with_preemption()
    driver.answers["p"] = waits()
    driver.show(POD)
    assert driver.show(a_pod("other", WHOLE)) == []
    assert driver.states("p") == [PodState.PREBINDING]


def test_a_preemptor_that_waits_keeps_what_was_freed_for_it() -> None:
    driver = with_preemption()
    driver.bound(driver.show(POD), POD)
    driver.answers["urgent"] = waits()
    driver.show(URGENT)
    assert driver.evicted == ["p"]
    driver.gone(POD)
    driver.later(1)
    assert driver.states("urgent") == [PodState.PREBINDING]
    assert driver.show(a_pod("other", WHOLE)) == []
    driver.answers.clear()
    driver.ask_again("urgent")
    assert names(driver.turn()) == ["urgent"]
