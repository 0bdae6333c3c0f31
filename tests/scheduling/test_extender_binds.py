"""kube-scheduler asks its extender to bind pods: cards of the node that it chose, and an answer."""

from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.effects import (
    AnswerBind,
    Bind,
    Effect,
    ReportScheduled,
    ReportWaiting,
    WriteObject,
)
from kubeshare_py.domain.events import (
    BindAsked,
    BindRefused,
    BindSlotsFree,
    BindUnknown,
    Bound,
    ObjectWritten,
    PodGone,
    PodSeen,
    PodsListed,
    Refusal,
    TimePassed,
    WriteOutcome,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.extender_binds import UNKNOWN
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import (
    FREE,
    Driver,
    a_group,
    a_machine,
    a_pod,
    a_shape,
    a_share,
    of,
    whole,
)

NAME = "hami-scheduler"
DOCUMENT = {"profiles": [{}, {"schedulerName": NAME, "extender": True}]}
NODE = NodeName("n1")


def a_driver(cards: dict[str, int] | None = None) -> Driver:
    driver = Driver(cards or {"n1": 1}, DOCUMENT)
    driver.decide()
    return driver


def delegated(name: str = "p", milli: int = 500, **fields: Any) -> Pod:
    return a_share(name, milli, scheduler_name=NAME, **fields)


def ask(driver: Driver, pod: Pod, node: str = "n1") -> list[Effect]:
    return driver.tell(BindAsked(pod.uid, pod.key, NodeName(node)))


def the_bind(effects: list[Effect]) -> Bind:
    (bind,) = effects
    assert isinstance(bind, Bind)
    return bind


def problem(effects: list[Effect]) -> str:
    """The only effect is an answer; its problem."""
    (answer,) = effects
    assert isinstance(answer, AnswerBind)
    return answer.problem


def test_pods_of_kube_scheduler_stay_out_of_the_queue_however_much_is_free() -> None:
    driver = a_driver()
    pod = delegated()
    assert driver.seen(pod) == []
    assert driver.machine.records[pod.uid].state is PodState.DELEGATED
    assert driver.machine.queue.queue_of(pod.uid) is None
    driver.now = 100_000
    assert driver.decide() == []


def test_a_bind_that_is_asked_for_gets_cards_of_that_node_and_is_answered_once_it_is_stored() -> (
    None
):
    driver = a_driver({"n1": 1, "n2": 1})
    pod = delegated()
    driver.seen(pod)
    bind = the_bind(ask(driver, pod, "n2"))
    assert (bind.node, [card.uuid for card in bind.allocation.cards]) == ("n2", ["GPU-n2-0"])
    assert driver.answer(bind, Bound()) == [AnswerBind(pod.uid, pod.key, NodeName("n2"))]


def test_two_pods_for_the_last_half_of_a_card_never_both_get_it() -> None:
    driver = a_driver()
    pods = [delegated(name) for name in "abc"]
    for pod in pods:
        driver.seen(pod)
    assert [type(effect) for pod in pods[:2] for effect in ask(driver, pod)] == [Bind, Bind]
    assert problem(ask(driver, pods[2])) == "Insufficient GPU"
    assert driver.machine.records[pods[2].uid].state is PodState.DELEGATED


def test_own_pods_and_those_of_kube_scheduler_are_charged_to_the_same_cards() -> None:
    driver = a_driver()
    pod = delegated(milli=600)
    driver.seen(pod)
    assert len(driver.seen(a_share("own", 600))) == 1
    assert problem(ask(driver, pod)) == "Insufficient GPU"
    driver.tell(PodGone(PodUid("uid-own")))
    bind = the_bind(ask(driver, pod))
    assert driver.seen(a_share("other", 600)) == []
    driver.answer(bind, Bound())


def test_asked_twice_while_the_answer_is_unknown_it_is_bound_once_and_answered_once() -> None:
    driver = a_driver()
    pod = delegated()
    driver.seen(pod)
    bind = the_bind(ask(driver, pod))
    assert driver.answer(bind, BindUnknown("timeout")) == []
    assert ask(driver, pod) == []
    driver.now = 60
    assert of(Bind, driver.tell(TimePassed())) == [bind]
    assert driver.answer(bind, Bound()) == [AnswerBind(pod.uid, pod.key, NODE)]
    assert ask(driver, pod) == [AnswerBind(pod.uid, pod.key, NODE)]


def test_another_node_than_that_of_the_bind_under_way_is_refused() -> None:
    driver = a_driver({"n1": 1, "n2": 1})
    pod = delegated()
    driver.seen(pod)
    bind = the_bind(ask(driver, pod))
    assert problem(ask(driver, pod, "n2")) == "it is bound to n1 already"
    driver.answer(bind, Bound())
    assert problem(ask(driver, pod, "n2")) == "it is bound to n1 already"


def test_the_watch_that_shows_the_pod_bound_is_an_answer_too() -> None:
    driver = a_driver()
    pod = delegated()
    driver.seen(pod)
    bind = the_bind(ask(driver, pod))
    shown = replace(pod, node_name=bind.node, allocation=bind.allocation)
    assert driver.tell(PodSeen(shown)) == [AnswerBind(pod.uid, pod.key, NODE)]
    assert driver.answer(bind, Bound()) == []


def test_a_refused_binding_frees_the_cards_and_kube_scheduler_is_told_why() -> None:
    driver = a_driver()
    pod = delegated(milli=1000)
    driver.seen(pod)
    bind = the_bind(ask(driver, pod))
    refused = driver.answer(bind, BindRefused(Refusal.INVALID, "no such thing"))
    assert problem(refused) == "binding to n1 was refused: no such thing"
    assert driver.machine.records[pod.uid].state is PodState.DELEGATED
    assert driver.machine.ledger.charge_of(pod.uid) is None
    assert the_bind(ask(driver, pod)).node == NODE


def test_a_pod_that_is_deleted_meanwhile_is_answered_and_its_cards_are_free() -> None:
    driver = a_driver()
    pod = delegated(milli=1000)
    driver.seen(pod)
    ask(driver, pod)
    assert problem(driver.tell(PodGone(pod.uid, stopped=True))) == "the pod was deleted"
    assert len(driver.seen(a_share("own"))) == 1


def test_a_list_that_shows_the_pod_unbound_after_the_answer_takes_the_cards_back() -> None:
    driver = a_driver()
    pod = delegated(milli=1000)
    driver.seen(pod)
    driver.answer(the_bind(ask(driver, pod)), Bound())
    driver.now = 10
    driver.tell(PodsListed((pod,), asked_at=9.0))
    assert driver.machine.records[pod.uid].state is PodState.DELEGATED
    assert driver.machine.ledger.charge_of(pod.uid) is None


def test_no_report_of_ours_is_written_beside_those_of_kube_scheduler() -> None:
    driver = a_driver()
    pods = [delegated(name) for name in "abc"]
    effects: list[Effect] = []
    for pod in pods:
        effects += driver.tell(PodSeen(pod))
    for pod in pods:
        effects += ask(driver, pod)
    for bind in of(Bind, effects):
        effects += driver.answer(bind, BindRefused(Refusal.GATED, "gated"))
    driver.now = 1000
    effects += driver.tell(TimePassed())
    assert not [one for one in effects if isinstance(one, ReportWaiting | ReportScheduled)]


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (
            delegated(
                problem=InvalidRequest(
                    field="sharedgpu/gpu_request", value="abc", rule="must be a number"
                )
            ),
            "must",
        ),
        (delegated(isolation="mps"), 'sharedgpu/isolation="mps": this scheduler allows none'),
    ],
    ids=["unreadable request", "isolation"],
)
def test_what_the_profile_cannot_give_is_the_answer(pod: Pod, text: str) -> None:
    driver = a_driver()
    driver.seen(pod)
    assert text in problem(ask(driver, pod))


def test_a_pod_that_was_never_seen_or_has_another_name_is_not_bound() -> None:
    driver = a_driver()
    assert problem(ask(driver, delegated())) == UNKNOWN
    driver.seen(delegated())
    renamed = replace(delegated(), key=PodKey("default", "other"))
    assert problem(ask(driver, renamed)) == UNKNOWN


def test_a_pod_of_our_own_queue_is_not_bound_by_kube_scheduler() -> None:
    driver = a_driver()
    big = a_pod("big", a_shape(whole(2)))
    driver.seen(big)
    assert "no profile with extender: true is for" in problem(ask(driver, big))


def test_an_unknown_node_is_refused() -> None:
    driver = a_driver()
    driver.seen(delegated())
    assert problem(ask(driver, delegated(), "n9")) == 'node "n9" not found'


def test_before_pods_and_nodes_are_listed_nothing_is_bound() -> None:
    machine = a_machine(DOCUMENT)
    pod = delegated()
    machine.handle(PodSeen(pod), 0.0)
    asked = BindAsked(pod.uid, pod.key, NODE)
    assert problem(machine.handle(asked, 0.0)) == "GPU inventory not read yet"


def test_gangs_are_not_planned_or_repaired_for_pods_of_kube_scheduler() -> None:
    driver = a_driver()
    pod = delegated(group=a_group(2))
    driver.seen(pod)
    bind = the_bind(ask(driver, pod))
    assert bind.allocation.group is None
    assert not driver.machine.gangs.by_key
    shown = replace(pod, node_name=bind.node, allocation=bind.allocation)
    driver.tell(PodSeen(shown))
    assert not driver.machine.gangs.by_key


def test_a_pod_that_leaves_kube_scheduler_for_another_scheduler_is_forgotten() -> None:
    driver = a_driver()
    driver.seen(delegated())
    driver.seen(replace(delegated(), scheduler_name="other"))
    assert driver.machine.records == {}


def test_an_edited_pod_is_asked_about_as_it_is_now() -> None:
    driver = a_driver()
    driver.seen(delegated(milli=900))
    for milli in (800, 700, 600):
        driver.seen(delegated(milli=milli))
        assert driver.machine.records[delegated().uid].state is PodState.DELEGATED
    bind = the_bind(ask(driver, delegated()))
    assert [card.milli for card in bind.allocation.cards] == [600]


def test_other_profiles_at_run_time_keep_what_is_under_way() -> None:
    driver = a_driver()
    driver.seen(delegated("a"))
    driver.seen(delegated("b"))
    bind = the_bind(ask(driver, delegated("a")))
    driver.machine.handle(ProfilesReplaced(profiles(read(DOCUMENT), IN_TREE)), 0.0)
    assert driver.machine.records[delegated("b").uid].state is PodState.DELEGATED
    assert problem(driver.answer(bind, Bound())) == ""
    assert the_bind(ask(driver, delegated("b"))).node == NODE


def in_line(*pods: Pod) -> tuple[Driver, list[WriteObject]]:
    """kube-scheduler asked to bind the pods to a node with a lock; what they write for it."""
    driver = Driver({"n1": 1}, DOCUMENT, locks=(FREE,))
    driver.decide()
    effects: list[Effect] = []
    for pod in pods:
        driver.seen(pod)
        effects += ask(driver, pod)
    return driver, of(WriteObject, effects)


def test_a_pod_waits_for_its_turn_at_the_device_plugin_of_its_node_before_it_is_bound() -> None:
    """HAMi's device plugin goes on under its extender's successor."""
    first, second = delegated("a"), delegated("b")
    driver, [write] = in_line(first, second)
    assert (write.uid, driver.machine.records[second.uid].state) == (
        first.uid,
        PodState.PREBINDING,
    )
    done = ObjectWritten(write.uid, write.token, write.write, WriteOutcome.DONE, "")
    assert driver.tell(done) == []
    bind = the_bind(list(driver.decide()))
    assert bind.uid == first.uid
    answered = driver.answer(bind, Bound())
    assert AnswerBind(first.uid, first.key, NODE, "") in answered


def test_kube_scheduler_hears_why_a_pod_got_no_turn_and_tries_it_again() -> None:
    pod = delegated()
    driver, [write] = in_line(pod)
    driver.tell(ObjectWritten(write.uid, write.token, write.write, WriteOutcome.REFUSED, "no"))
    assert problem(driver.tell(BindSlotsFree(1))) == "locking node n1: no"
    assert driver.machine.records[pod.uid].state is PodState.DELEGATED
    assert driver.machine.ledger.charge_of(pod.uid) is None
