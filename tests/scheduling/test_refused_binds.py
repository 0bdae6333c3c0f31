"""Refused placements are undone, reported and tried elsewhere; those left open stay."""

import pytest

from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Bind, Effect, ReportWaiting
from kubeshare_py.domain.events import (
    BindOutcome,
    BindRefused,
    BindSlotsFree,
    BindUnknown,
    Bound,
    PodGone,
    PodSeen,
    Refusal,
    TimePassed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.queue.asked_shapes import (
    AVOIDED_S,
    MOST_AVOIDED,
    RETRIES_A_SECOND,
    RefusedBinds,
)
from kubeshare_py.scheduling.queue.pod_records import PodState
from kubeshare_py.scheduling.queue.timers import Alarms
from kubeshare_py.views.view import WhyView
from tests.making import Driver, a_claim, a_pod, a_shape, a_share

HALF = a_shape(a_claim(500))
POLICY = "403 Forbidden: ValidatingAdmissionPolicy 'm' denied request: n1 is under maintenance"
RIGHTS = '403 Forbidden: User "s" cannot create resource "pods/binding"'


def denied(message: str = POLICY) -> BindRefused:
    return BindRefused(Refusal.DENIED, message)


FORBIDDEN = BindRefused(Refusal.FORBIDDEN, RIGHTS)


def reports(effects: list[Effect]) -> list[tuple[str, WaitingReason]]:
    return [
        (one.diagnosis.message, one.diagnosis.reason)
        for one in effects
        if isinstance(one, ReportWaiting)
    ]


class Refusing(Driver):
    """A driver that goes on until the next Binding."""

    def next(self) -> Bind:
        """The next Binding, whenever the machine wants to send it."""
        for _ in range(50):
            if found := self.decide():
                return found[0]
            wake_at = self.machine.wake_at(self.now)
            assert wake_at is not None, "it waits for ever"
            self.now = max(wake_at, self.now)
        raise AssertionError("nothing is sent")

    def refused(self, bind: Bind, outcome: BindOutcome, times: int) -> Bind:
        """The Binding that follows so many refusals of one node."""
        for _ in range(times):
            self.answer(bind, outcome)
            bind = self.next()
        return bind

    def why(self, pod: Pod) -> WhyView:
        found = why(self.machine, pod.key)
        assert found is not None
        return found


def test_a_denied_binding_is_undone_and_reported_with_the_servers_sentence() -> None:
    driver = Refusing({"n1": 1})
    (bind,) = driver.seen(a_pod("p", HALF))
    effects = driver.answer(bind, denied())
    sentence = f"binding to n1 was refused: {POLICY}"
    assert reports(effects) == [(sentence, WaitingReason.SCHEDULER_ERROR)]
    assert driver.machine.attempts.failed == {"kubeshare-scheduler": 1}
    assert driver.machine.unanswered == 0
    assert len(driver.seen(a_share("q"))) == 1, "the charge is gone"
    assert driver.why(a_pod("p")).message == sentence


def test_after_two_refusals_another_node_is_tried() -> None:
    driver = Refusing({"n1": 1, "n2": 1})
    (bind,) = driver.seen(a_pod("p", HALF))
    assert bind.node == "n1"
    bind = driver.refused(bind, denied(), 1)
    assert bind.node == "n1", "the first may be due to a policy that has just changed"
    bind = driver.refused(bind, denied(), 1)
    assert bind.node == "n2"
    assert driver.answer(bind, Bound()) != []
    assert not driver.machine.refused.pods


def test_others_of_its_shape_may_still_go_there() -> None:
    driver = Refusing({"n1": 1, "n2": 1})
    (bind,) = driver.seen(a_share("p"))
    assert driver.refused(bind, denied(), 2).node == "n2"
    (other,) = driver.seen(a_share("q"))
    assert other.node == "n1"


def test_a_pod_that_is_refused_everywhere_waits_says_so_and_is_tried_again() -> None:
    driver = Refusing({"n1": 1, "n2": 1})
    (bind,) = driver.seen(a_pod("p", HALF))
    bind = driver.refused(bind, denied(), 3)
    driver.answer(bind, denied())
    driver.now += 8
    ((message, reason),) = reports(driver.tell(BindSlotsFree(64)))
    assert reason is WaitingReason.SCHEDULER_ERROR, "a new node would help nobody"
    assert "2 node(s) to which the API server refused to bind the pod" in message
    assert f"The API server refused to bind it to n1, n2: {POLICY}." in message
    found = driver.why(a_pod("p"))
    assert "Other nodes are tried for " in found.message
    assert {node.name: node.reasons for node in found.nodes}["n1"] == (
        "node(s) to which the API server refused to bind the pod",
    )
    assert driver.next().node == "n1"
    assert driver.now >= AVOIDED_S


def test_where_only_one_node_refuses_a_new_node_may_help() -> None:
    driver = Refusing({"n1": 1, "n2": 0})
    (bind,) = driver.seen(a_pod("p", HALF))
    driver.answer(driver.refused(bind, denied(), 1), denied())
    driver.now += 5
    ((_, reason),) = reports(driver.tell(BindSlotsFree(64)))
    assert reason is WaitingReason.UNSCHEDULABLE


def test_a_missing_right_is_no_reason_to_try_all_nodes() -> None:
    driver = Refusing({"n1": 1, "n2": 1})
    (bind,) = driver.seen(a_pod("p", HALF))
    for _ in range(6):
        assert reports(driver.answer(bind, FORBIDDEN)) == [
            (f"binding to n1 was refused: {RIGHTS}", WaitingReason.SCHEDULER_ERROR)
        ]
        before = driver.now
        bind = driver.next()
        assert bind.node == "n1"
    assert driver.now - before == 10, "the longest pause"


@pytest.mark.slow
def test_refused_pods_together_send_few_bindings() -> None:
    refused = RefusedBinds(Alarms())
    for number in range(1000):
        refused.refused(PodUid(str(number)), 0.0)
    assert refused.pause_s == 1000 / RETRIES_A_SECOND
    driver = Refusing({f"n{number}": 8 for number in range(40)})
    for number in range(300):
        driver.tell(PodSeen(a_share(f"p{number}")))
    sent = 0
    while driver.now < 120:
        for bind in driver.decide():
            sent += 1
            driver.answer(bind, FORBIDDEN)
        wake_at = driver.machine.wake_at(driver.now)
        assert wake_at is not None
        driver.now = max(wake_at, driver.now)
    assert sent < 300 * 4 + 120 * RETRIES_A_SECOND


def test_nothing_is_kept_of_refused_pods_that_are_gone() -> None:
    driver = Refusing({"n1": 1})
    (bind,) = driver.seen(a_pod("p", HALF))
    driver.answer(bind, denied())
    driver.tell(PodGone(bind.uid))
    assert not driver.machine.refused.pods


def test_refusals_are_forgotten_after_their_time_and_few_nodes_are_avoided() -> None:
    alarms, uid = Alarms(), PodUid("u")
    refused = RefusedBinds(alarms)
    for number in range(MOST_AVOIDED + 4):
        for _ in range(2):
            refused.refused_for(uid, NodeName(f"n{number:02}"), "no", float(number))
    assert len(refused.avoided(uid)) == MOST_AVOIDED
    assert "n03" not in refused.avoided(uid)
    assert refused.ended(AVOIDED_S + 4) == [uid]
    assert refused.avoided(uid)[0] == "n05"
    while refused.pods:
        refused.ended(alarms.next_at)
    assert refused.avoided(uid) == ()


def test_an_open_outcome_is_reported_at_once_and_the_charge_stays() -> None:
    driver = Refusing({"n1": 1})
    pod = a_pod("p", HALF)
    (bind,) = driver.seen(pod)
    sentence = "binding to n1 is not confirmed, and sent again: 503 : no leader"
    for _ in range(3):
        effects = driver.answer(bind, BindUnknown("503 : no leader"))
        assert reports(effects) == [(sentence, WaitingReason.SCHEDULER_ERROR)]
        wake_at = driver.machine.wake_at(driver.now)
        assert wake_at is not None
        driver.now = wake_at
        (again,) = driver.decide()
        assert again == bind
        assert again.in_doubt_since is not None
    assert driver.machine.attempts.failed == {"kubeshare-scheduler": 3}
    assert driver.seen(a_share("q")) == []
    driver.now = 180
    driver.tell(TimePassed())
    found = driver.why(pod)
    assert found.message == "not confirmed for 3m, and sent again: 503 : no leader"
    assert found.pod.state == "assumed"
    driver.answer(bind, Bound())
    assert driver.why(pod).message == ""
    assert driver.machine.in_doubt_since is None


@pytest.mark.parametrize("outcome", [denied(), Bound()])
def test_what_was_open_is_settled_by_a_definite_answer(outcome: BindOutcome) -> None:
    driver = Refusing({"n1": 1})
    (bind,) = driver.seen(a_pod("p", HALF))
    driver.answer(bind, BindUnknown("timeout"))
    assert driver.machine.in_doubt_since == 0
    driver.now = 3
    driver.answer(bind, outcome)
    assert driver.machine.in_doubt_since is None
    assert driver.machine.records[bind.uid].state in (PodState.BACKOFF, PodState.UNCONFIRMED)
