"""Cards of pods that were deleted by force are held while a kubelet may let containers run on."""

from typing import Any

import pytest

from kubeshare_py.domain.effects import Bind, Evict, Lingers
from kubeshare_py.domain.events import (
    BindSlotsFree,
    BindUnknown,
    Bound,
    NodeGone,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
    TimePassed,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import cluster_view, why
from kubeshare_py.scheduling.explain.figures import ledger_figures
from kubeshare_py.scheduling.machine import LINGERING_S
from kubeshare_py.scheduling.preemption.preemption import PreemptionRules
from tests.making import Driver, a_claim, a_machine, a_node, a_pod, a_shape, a_share, of, whole

LONG_S = 600


class Card:
    """One node with one card, a pod that holds 0.7 of it, and one that waits for 0.6."""

    def __init__(self, grace_s: int = 20, **fields: Any) -> None:
        self.driver = Driver({"n1": 1}, **fields)
        self.driver.now = 100.0
        self.pod = a_share("gone", 700, grace_s=grace_s)
        self.bind = self.driver.place(self.pod)
        self.pod = replace(self.pod, node_name=self.bind.node, allocation=self.bind.allocation)
        assert self.driver.seen(a_share("next", 600)) == []

    def at(self, now: float) -> list[str]:
        """What is placed when it is so late, in whatever turns the machine wants."""
        self.driver.now = now
        wake_at = self.driver.machine.wake_at(now)
        if wake_at is None or wake_at > now:
            return []
        self.driver.tell(TimePassed())
        return [bind.key.name for bind in self.driver.decide()]


def test_a_card_is_held_for_the_grace_period_of_a_pod_that_vanished() -> None:
    card = Card(grace_s=20)
    (effect,) = card.driver.tell(PodGone(card.pod.uid))
    cards = tuple(one.uuid for one in card.bind.allocation.cards)
    assert effect == Lingers(card.pod.uid, card.pod.key, card.bind.node, cards, 20.0)
    assert card.driver.decide() == []
    assert card.at(119.9) == []
    assert card.at(120.0) == ["next"]


def test_a_long_grace_period_holds_a_card_for_no_longer_than_is_configured() -> None:
    card = Card(grace_s=LONG_S)
    card.driver.tell(PodGone(card.pod.uid))
    assert card.at(100.0 + LINGERING_S - 0.1) == []
    assert card.at(100.0 + LINGERING_S) == ["next"]


def test_a_pod_that_finished_frees_its_card_at_once() -> None:
    card = Card(grace_s=LONG_S)
    assert card.driver.tell(PodGone(card.pod.uid, stopped=True)) == []
    assert [bind.key.name for bind in card.driver.decide()] == ["next"]
    card.driver.tell(PodGone(card.pod.uid))  # and then the kubelet deletes it
    assert not card.driver.machine.ledger.lingering


def test_containers_that_ended_in_a_deletion_free_the_card_with_the_pod() -> None:
    card = Card(grace_s=LONG_S)
    leaving = replace(card.pod, deleting=True)
    card.driver.tell(PodSeen(leaving), PodSeen(replace(leaving, stopped=True)))
    # Deletion with grace 0 is written before the object goes, and says nothing of containers.
    card.driver.tell(PodSeen(leaving), PodGone(card.pod.uid))
    assert [bind.key.name for bind in card.driver.decide()] == ["next"]


def test_of_a_deletion_with_grace_only_the_rest_is_waited_for() -> None:
    card = Card(grace_s=LONG_S)
    card.driver.tell(PodSeen(replace(card.pod, deleting=True, grace_s=20)))
    card.driver.now = 115.0
    forced = replace(card.pod, deleting=True, grace_s=LONG_S)
    card.driver.tell(PodSeen(forced), PodGone(card.pod.uid))
    assert card.at(119.0) == []
    assert card.at(120.0) == ["next"]


def test_when_the_grace_period_of_a_deletion_is_over_nothing_is_held() -> None:
    card = Card()
    card.driver.tell(PodSeen(replace(card.pod, deleting=True, grace_s=20)))
    card.driver.now = 120.0
    card.driver.tell(PodGone(card.pod.uid))
    assert [bind.key.name for bind in card.driver.decide()] == ["next"]


def test_a_pod_that_a_list_does_not_have_vanished() -> None:
    card = Card(grace_s=20)
    waits = a_share("next", 600)
    card.driver.tell(PodsListed((waits,), 100.0))
    assert card.driver.decide() == []
    assert card.at(120.0) == ["next"]


def test_a_pod_that_a_list_shows_as_finished_did_not_vanish() -> None:
    card = Card(grace_s=LONG_S)
    waits = a_share("next", 600)
    card.driver.tell(PodsListed((waits,), 100.0, stopped=frozenset({card.pod.uid})))
    assert [bind.key.name for bind in card.driver.decide()] == ["next"]


def test_a_lingering_pod_that_a_list_shows_as_finished_is_waited_for_no_longer() -> None:
    card = Card(grace_s=LONG_S)
    waits = a_share("next", 600)
    card.driver.tell(PodsListed((waits,), 100.0))
    assert card.driver.decide() == []
    card.driver.tell(PodsListed((waits,), 101.0, stopped=frozenset({card.pod.uid})))
    assert [bind.key.name for bind in card.driver.decide()] == ["next"]


def test_a_lingering_pod_that_is_seen_again_holds_what_it_holds() -> None:
    card = Card(grace_s=20)
    waits = a_share("next", 600)
    card.driver.tell(PodsListed((waits,), 100.0), PodsListed((waits, card.pod), 101.0))
    assert card.at(500.0) == []
    free = card.driver.machine.ledger.columns.free_milli.item(0, 0)
    assert free == 300


def test_pods_that_were_not_seen_bound_yet_linger_if_they_may_be_bound() -> None:
    driver = Driver({"n1": 3})
    pods = [a_pod(name, a_shape(whole(1)), grace_s=20) for name in ("told", "unknown", "never")]
    told, unknown, never = (driver.seen(pod)[0] for pod in pods)
    driver.answer(told, Bound())
    driver.answer(unknown, BindUnknown("timeout"))
    driver.tell(PodGone(told.uid), PodGone(never.uid))  # a pod that was bound is seen bound first
    lingering = driver.machine.ledger.lingering
    assert {*lingering} == {told.uid}
    driver.tell(PodsListed((), 1.0))
    assert {*lingering} == {told.uid, unknown.uid}


def test_cpu_memory_and_the_place_among_pods_are_free_at_once() -> None:
    driver = Driver({"n1": 1}, pods=1)
    pod = a_pod("gone", a_shape(a_claim(700), cpu=64_000), grace_s=20)
    bind = driver.place(pod)
    assert driver.seen(a_pod("cpu", a_shape(cpu=64_000))) == []
    driver.tell(PodGone(pod.uid))
    assert [one.key.name for one in driver.decide()] == ["cpu"]
    assert driver.machine.ledger.next_port(bind.node) != bind.allocation.port


def test_a_pod_without_a_gpu_never_lingers() -> None:
    driver = Driver({"n1": 1})
    pod = a_pod("plain", grace_s=LONG_S)
    driver.place(pod)
    assert driver.tell(PodGone(pod.uid)) == []
    assert not driver.machine.ledger.lingering


def test_gpus_of_the_device_plugin_are_held_back_too() -> None:
    driver = Driver({"n1": 1})
    native = a_shape(resources=(("cpu", 100), ("nvidia.com/gpu", 1)))
    pod = a_pod("native", native, scheduler_name="other", grace_s=20, node_name=NodeName("n1"))
    driver.tell(PodSeen(pod))
    assert driver.seen(a_share("next", 500)) == []
    driver.tell(PodGone(pod.uid))
    assert driver.decide() == []
    driver.now = 20.0
    assert [bind.key.name for bind in driver.decide()] == ["next"]


@pytest.mark.parametrize("gone", [NodeGone(NodeName("n1")), NodesListed((a_node("n2"),))])
def test_a_node_that_is_gone_holds_nothing(gone: NodeGone | NodesListed) -> None:
    card = Card(grace_s=20)
    card.driver.tell(PodGone(card.pod.uid), gone, NodesListed((a_node("n1"),)))
    assert [bind.key.name for bind in card.driver.decide()] == ["next"]


def test_a_pod_that_vanishes_after_its_node_frees_its_card() -> None:
    card = Card(grace_s=20)
    card.driver.tell(NodeGone(NodeName("n1")), PodGone(card.pod.uid))
    card.driver.tell(NodesListed((a_node("n1"),)))
    assert [bind.key.name for bind in card.driver.decide()] == ["next"]


def test_at_zero_nothing_is_held() -> None:
    machine = a_machine(lingering_s=0.0)
    driver = Driver({"n1": 1}, machine=machine)
    pod = a_share("gone", 700, grace_s=LONG_S)
    driver.place(pod)
    driver.tell(PodSeen(a_share("next", 600)), PodGone(pod.uid))
    assert [bind.key.name for bind in driver.decide()] == ["next"]


def test_people_are_told_what_is_held_and_for_how_long() -> None:
    card = Card(grace_s=20)
    card.driver.tell(PodGone(card.pod.uid))
    card.driver.now = 105.0
    card.driver.tell(BindSlotsFree(64))
    machine = card.driver.machine
    (shown,) = cluster_view(machine).nodes[0].cards
    (held,) = shown.lingering
    assert (held.namespace, held.name, held.milli, held.for_s) == ("default", "gone", 700, 15)
    assert (shown.used_milli, shown.tenants) == (700, ())
    told = why(machine, a_pod("next").key)
    assert told is not None
    (node,) = told.nodes
    (kept,) = node.kept
    assert kept == "1 card is held for 15 s more after the forced deletion of pod default/gone"
    hidden = why(machine, a_pod("next").key, lambda namespace: False)
    assert hidden is not None
    assert "default/gone" not in hidden.nodes[0].kept[0]
    assert ledger_figures(machine).lingering_pods == 1
    card.at(120.0)
    assert ledger_figures(machine).lingering_pods == 0
    assert cluster_view(machine).nodes[0].cards[0].lingering == ()


def bound(bind: Bind, pod: Pod) -> PodSeen:
    return PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation))


def test_a_preemptor_waits_for_a_victim_that_was_deleted_by_force() -> None:
    driver = Driver({"n1": 1, "n2": 1}, {})
    pods = [a_pod(name, a_shape(whole(1)), grace_s=20) for name in ("a", "b")]
    binds = [driver.seen(pod)[0] for pod in pods]
    driver.tell(*(bound(bind, pod) for bind, pod in zip(binds, pods, strict=True)))
    first = a_pod("first", a_shape(whole(1)), priority=9)
    driver.tell(PodSeen(first))
    (evicted,) = of(Evict, driver.tell(BindSlotsFree(64)))
    driver.tell(PodGone(evicted.uid))
    effects = driver.tell(BindSlotsFree(64), TimePassed(), BindSlotsFree(64))
    assert not [one for one in effects if isinstance(one, Evict | Bind)], "others were evicted"
    driver.now = 20.0
    assert [bind.key.name for bind in driver.decide()] == ["first"]


def test_nobody_is_evicted_for_a_pod_that_gets_a_lingering_pods_card() -> None:
    driver = Driver({"n1": 1, "n2": 1}, {})
    low = a_pod("low", a_shape(whole(1)), grace_s=20)
    high = a_pod("high", a_shape(whole(1)), grace_s=20, priority=9)
    for pod in (low, high):
        driver.place(pod)
    driver.tell(PodGone(high.uid), PodSeen(a_pod("first", a_shape(whole(1)), priority=9)))
    effects = driver.tell(BindSlotsFree(64), BindSlotsFree(64))
    assert not of(Evict, effects)
    driver.now = 20.0
    assert [bind.key.name for bind in driver.decide()] == ["first"]
    assert PreemptionRules().patience_s > LINGERING_S


def test_a_card_that_another_pod_holds_as_well_is_reported_with_both_names() -> None:
    card = Card(grace_s=20)
    card.driver.tell(PodGone(card.pod.uid))
    taker = a_share("taker", 700, scheduler_name="other", node_name=NodeName("n1"))
    card.driver.tell(PodSeen(replace(taker, allocation=card.bind.allocation)))
    notes = [str(effect) for effect in card.driver.tell(TimePassed())]
    assert any("default/gone, default/taker hold 1400 of 1000" in note for note in notes), notes
