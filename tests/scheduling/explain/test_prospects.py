"""What is said of a pod that does not exist comes true when it is created."""

import random

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference
from kubeshare_py.domain.effects import Bind, ReportWaiting
from kubeshare_py.domain.events import BindSlotsFree, PodGone, PodSeen
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.explain.prospects import (
    DELEGATED,
    MAX_TRIES,
    OF_A_GROUP,
    prospect_steps,
)
from kubeshare_py.scheduling.explain.question import UNNAMED, Sees, completed, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.waiting_reports import INVENTORY_UNREAD, UNASKED_S
from kubeshare_py.views.view import ProspectView
from tests.making import (
    GIB,
    PREEMPTION,
    Driver,
    a_claim,
    a_cluster,
    a_group,
    a_machine,
    a_pod,
    a_shape,
    a_share,
    whole,
)
from tests.scale import scaled, seeds
from tests.scheduling.charges.test_gpu_quotas import GPU, MEM, Story
from tests.scheduling.charges.test_gpu_quotas import pod as a_pod_of_quotas
from tests.scheduling.charges.test_gpu_quotas import read as read_pod
from tests.scheduling.every_question import sees_default
from tests.scheduling.explain.test_advice import a_world
from tests.scheduling.machine_state import expect_same_state, state_of
from tests.scheduling.preemption.test_preemption_until_bound import NotYet

WORLDS = scaled(60, least=20)
#: With this seed, a pod joins pods that were asked about before a native pod came.
OLD_REASONS = 554951773
#: Behind all pods that are there.
LAST = "9999-12-31T23:59:59Z"


def prospect(machine: Machine, pod: Pod, sees: Sees = sees_all) -> ProspectView:
    found = completed(prospect_steps(machine, pod, sees))
    assert found is not None
    return found


def some_pod(rng: random.Random) -> Pod:
    claim = a_claim(
        rng.choice([100, 300, 500, 800, 1000]),
        memory_bytes=rng.choice([None, None, 2 * GIB, 12 * GIB]),
        models=rng.choice([(), (), ("A",)]),
    )
    cards = whole(rng.choice([1, 1, 2])) if rng.random() < 0.2 else claim
    shape = a_shape(cards, cpu=rng.choice([100, 100, 40_000]))
    return a_pod("new", shape, created=LAST, priority=rng.choice([0, 0, 10]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*seeds(4), OLD_REASONS])
def test_a_pod_gets_the_place_that_was_said_or_waits_for_what_was_said(seed: int) -> None:
    fitted = waited = 0
    for number in range(seed * 100, seed * 100 + WORLDS):
        rng = random.Random(number)
        machine = a_world(rng)
        pod = some_pod(rng)
        said = prospect(machine, pod)
        joins = any(one.shape == pod.shape for one in machine.records.values() if not one.node)
        machine.handle(PodSeen(pod), 0.0)
        effects = machine.handle(BindSlotsFree(64), 0.0)
        binds = [one for one in effects if isinstance(one, Bind) and one.uid == pod.uid]
        assert said.fits == bool(binds), number
        if binds:
            fitted += 1
            cards = tuple(card.uuid for card in binds[0].allocation.cards)
            assert (said.why.pod.node, said.why.pod.cards) == (binds[0].node, cards), number
            continue
        waited += 1
        real = why(machine, pod.key)
        assert real is not None
        assert said.why.nodes == real.nodes, number
        assert said.why.advice == real.advice, number
        assert said.why.waits_for == real.waits_for, number
        assert said.why.preemption == real.preemption, number
        if joins:
            # The reasons of the pods that it joins may be old, and are reported to it first.
            effects += machine.handle(BindSlotsFree(64), UNASKED_S + 1)
        reports = [one for one in effects if isinstance(one, ReportWaiting) and one.uid == pod.uid]
        assert said.why.message == reports[-1].diagnosis.message, number
    assert min(fitted, waited) > WORLDS // 10


@pytest.mark.slow
def test_the_machine_is_the_same_afterwards() -> None:
    machine = a_world(random.Random(3))
    for number in range(20):
        before = state_of(machine)
        prospect(machine, some_pod(random.Random(number)))
        expect_same_state(before, state_of(machine), "a pod that does not exist")


def test_the_plan_of_evictions_is_that_of_a_waiting_pod() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.place(a_share("low", priority=1))
    urgent = a_share("new", 500, priority=9, created=LAST)
    plan = prospect(driver.machine, urgent).why.preemption
    assert plan is not None
    assert ([one.name for one in plan.victims], plan.in_flight) == (["low"], False)
    assert [(one.name, one.node) for one in plan.nominations] == [("new", "n1")]
    equal = replace(urgent, priority=1)
    assert prospect(driver.machine, equal).why.preemption is None
    assert driver.evicted == []


def test_what_preemption_keeps_is_kept_from_the_pod_unless_it_outranks_the_preemptor() -> None:
    driver = Driver({"n1": 2}, PREEMPTION)
    for name in ("low-1", "low-2"):
        driver.place(a_share(name, priority=1))
    driver.show(a_pod("urgent", a_shape(whole(2)), priority=9))
    assert sorted(driver.evicted) == ["low-1", "low-2"]
    driver.gone("low-1")
    pod = a_share("new", created=LAST)
    assert not prospect(driver.machine, replace(pod, priority=1)).fits
    kept = [node.kept for node in prospect(driver.machine, pod).why.nodes]
    assert kept == [("2 cards are kept for pod default/urgent by preemption",)]
    assert prospect(driver.machine, replace(pod, priority=10)).fits


def test_pods_of_namespaces_that_the_reader_does_not_see_are_not_named() -> None:
    driver = Driver({"n1": 1})
    driver.place(replace(a_share("held"), key=PodKey("secret", "held")))
    pod = a_share("new", 600, created=LAST)
    assert "secret/held" in str(prospect(driver.machine, pod))
    hidden = str(prospect(driver.machine, pod, sees_default))
    assert UNNAMED in hidden
    assert "secret" not in hidden


def test_a_pod_that_would_not_be_tried_says_why() -> None:
    driver = Driver({"n1": 1})
    pod = a_share("new", 500)
    wrong = replace(pod, problem=InvalidRequest(field="gpu_request", rule="must be a number"))
    for held, sentence in (
        (replace(pod, gates=("a", "b")), "waiting for scheduling gates: [a b]"),
        (wrong, str(wrong.problem)),
        (replace(pod, unsupported=("spec.x",)), "not supported yet: spec.x"),
    ):
        found = prospect(driver.machine, held)
        assert (found.fits, found.why.message, found.why.pod.state) == (False, sentence, "gated")


def test_nothing_is_said_of_cards_that_are_not_known_yet() -> None:
    machine = a_machine()
    for event in a_cluster({"n1": 1})[:-1]:
        machine.handle(event, 0.0)
    found = prospect(machine, a_share("new", 500))
    assert (found.fits, found.why.message) == (False, INVENTORY_UNREAD)


@pytest.mark.parametrize("is_described", [True, False])
def test_a_member_of_a_group_is_asked_about_alone(is_described: bool) -> None:
    pod = a_share("new", 500)
    reference = GroupReference(GroupApi.KUBERNETES, "g")
    pod = (
        replace(pod, group=a_group(4)) if is_described else replace(pod, group_reference=reference)
    )
    found = prospect(Driver({"n1": 1}).machine, pod)
    assert (found.fits, found.notes) == (True, (OF_A_GROUP,))


def test_for_kube_scheduler_only_the_cards_count() -> None:
    document = {"profiles": [{"schedulerName": "mine", "extender": True}]}
    driver = Driver({"n1": 1}, document)
    pod = a_share("new", 500, scheduler_name="mine", gates=("a",))
    found = prospect(driver.machine, pod)
    assert (found.fits, found.why.pod.node, found.notes) == (True, "n1", (DELEGATED,))
    many = prospect(driver.machine, replace(pod, shape=a_shape(whole(2))))
    assert (many.fits, "too few GPUs" in many.why.message) == (False, True)


def test_a_schedulers_name_that_no_profile_has_gets_no_answer() -> None:
    pod = a_pod("new", scheduler_name="other")
    assert completed(prospect_steps(Driver({"n1": 1}).machine, pod)) is None


def test_it_is_asked_anew_while_the_cluster_changes_and_ends() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    held = driver.place(a_share("held"))
    other = driver.place(a_share("other"))
    assert held.node != other.node
    steps = prospect_steps(driver.machine, a_share("new", 500, created=LAST))
    next(steps)
    driver.tell(PodGone(held.uid))
    found = completed(steps)
    assert found is not None
    assert (found.fits, found.why.pod.node) == (True, held.node)
    assert MAX_TRIES > 1


@pytest.mark.parametrize("containers", [[{GPU: 1}], [{GPU: 2, MEM: 900}], [{GPU: 1}, {GPU: 1}]])
def test_a_quota_refuses_what_it_would_refuse(containers: list[dict[str, int]]) -> None:
    story = Story()
    story.limit("small", mem=1500)
    story.limit("large", namespace="other", mem=900_000)
    for namespace in ("default", "other"):
        made = read_pod(a_pod_of_quotas("a", *containers, namespace=namespace))
        found = prospect(story.machine, made)
        became = story.create("a", *containers, namespace=namespace)
        said = ",".join(found.why.pod.cards) if found.fits else found.why.message
        assert said == became
        assert found.fits == (namespace == "other")
        story.send(PodGone(made.uid, stopped=True))


def test_a_plugin_that_does_not_permit_the_placement_is_heard() -> None:
    document = {"profiles": [{"plugins": {"permit": {"enabled": [{"name": "NotYet"}]}}}]}
    made = profiles(read(document), {**IN_TREE, "NotYet": NotYet})
    driver = Driver({"n1": 1}, machine=Machine(made, "test"))
    pod = a_share("urgent", 500)
    found = prospect(driver.machine, pod)
    assert (found.fits, found.why.message) == (False, "not yet")
    assert prospect(driver.machine, a_pod("other", pod.shape)).fits
