"""What is kept for a preemptor is kept until it is bound or gives up, whatever happens."""

from dataclasses import replace
from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.events import (
    BindRefused,
    EvictionFailed,
    InventoryRead,
    NodeSeen,
    NodesListed,
    PodsListed,
    Refusal,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.terminal.why_report import why_report
from tests.builders import GIB, a_claim, a_machine, a_node, a_pod, a_shape, some_gpus
from tests.scheduling.gang_driver import a_group, members, names
from tests.scheduling.preemption_driver import PreemptionDriver, pod

POLITE = pod("polite", 1000, 9, preempts=False, created="1")
URGENT = pod("urgent", 1000, 9, created="2")


@pytest.fixture
def cluster() -> PreemptionDriver:
    """One card, a pod that gives way, one that waits for long, and one for which it goes."""
    cluster = PreemptionDriver({"n1": 1})
    cluster.fill(pod("low"))
    cluster.show(POLITE)
    cluster.show(URGENT)
    assert cluster.victims == ["low"]
    return cluster


def refuse(cluster: PreemptionDriver) -> None:
    cluster.answer(cluster.binds[-1], BindRefused(Refusal.INVALID, "no"))
    cluster.turn()


def test_a_refused_binding_gives_nothing_away(cluster: PreemptionDriver) -> None:
    assert names(cluster.left("low")) == ["urgent"]
    refuse(cluster)
    assert names(cluster.later(5)) == ["urgent"]
    assert cluster.victims == ["low"]


def test_a_preemptor_whose_binding_is_never_accepted_gives_up(cluster: PreemptionDriver) -> None:
    cluster.left("low")
    bound: list[str] = []
    for _ in range(100):
        if cluster.binds[-1].key.name == "urgent":
            refuse(cluster)
        bound += names(cluster.later(2))
    assert "polite" in bound
    assert cluster.now < 250


def test_news_of_its_node_gives_nothing_away(cluster: PreemptionDriver) -> None:
    cluster.leaves("low")
    cluster.tell(NodeSeen(a_node("n1", labels={"zone": "a"})))
    assert names(cluster.left("low")) == ["urgent"]


def test_another_configuration_gives_nothing_away(cluster: PreemptionDriver) -> None:
    cluster.leaves("low")
    cluster.machine.handle(ProfilesReplaced(profiles(read({}), IN_TREE)), cluster.now)
    cluster.turn()
    assert names(cluster.left("low")) == ["urgent"]
    assert cluster.victims == ["low"]


class NotYet:
    """A permit plugin that lets nobody of these names start until it is told otherwise."""

    name = "NotYet"

    def __init__(self) -> None:
        self.refused = {"urgent"}

    def permit(self, pod: Pod, node: NodeName) -> str | None:
        return "not yet" if pod.key.name in self.refused else None


def test_a_plugin_that_does_not_permit_it_yet_gives_nothing_away() -> None:
    plugin, cluster = NotYet(), PreemptionDriver({"n1": 1})
    cluster.fill(pod("low"))
    cluster.show(POLITE)
    document = {"profiles": [{"plugins": {"permit": {"enabled": [{"name": "NotYet"}]}}}]}
    known = {**IN_TREE, "NotYet": lambda: plugin}
    cluster.machine.handle(ProfilesReplaced(profiles(read(document), known)), cluster.now)
    cluster.show(URGENT)
    assert cluster.left("low") == []
    plugin.refused.clear()
    assert names(cluster.later(5)) == ["urgent"]


def test_a_gang_of_other_members_keeps_its_places() -> None:
    cluster = PreemptionDriver({"n1": 2})
    cluster.fill(pod("low-0"), pod("low-1"))
    cluster.show(POLITE)
    gang = members(a_group(2, headcount=3), 3, priority=9, created="2")
    cluster.show(*gang)
    first, second = cluster.victims
    cluster.leaves(first)
    cluster.left(first)
    assert cluster.gone(gang[0]) == []
    cluster.leaves(second)
    assert names(cluster.left(second)) == ["g-1", "g-2"]
    assert len({*cluster.victims}) == 2


def test_what_victims_of_an_earlier_plan_held_is_kept_by_the_next_one() -> None:
    cluster = PreemptionDriver({"n1": 1, "n2": 1, "n3": 1})
    cluster.fill(pod("one"), pod("two"), pod("three"))
    cluster.show(pod("small", 400, 9, preempts=False, created="1"))
    gang = members(a_group(2), 2, a_claim(600), priority=9, created="2")
    cluster.show(*gang)
    first, second = cluster.victims
    node = cluster.machine.records[pod(second).uid].node
    assert node is not None
    cluster.leaves(first)
    assert cluster.left(first) == []
    cluster.tell(InventoryRead(((node, ()),)))
    assert cluster.turn() == []
    [third] = {"one", "two", "three"} - {first, second}
    assert [bind.key.name for bind in cluster.left(third)] == ["g-0", "g-1", "small"]


def test_without_its_card_it_plans_anew() -> None:
    cluster = PreemptionDriver({"n1": 1, "n2": 1})
    cluster.fill(pod("one"), pod("two"))
    cluster.show(URGENT)
    [first] = cluster.victims
    node = cluster.machine.records[pod(first).uid].node
    assert node is not None
    cluster.tell(InventoryRead(((node, ()),)))
    cluster.turn()
    assert sorted(cluster.victims) == ["one", "two"]
    [other] = {*cluster.victims} - {first}
    assert names(cluster.left(other)) == ["urgent"]


def test_who_asks_is_told_for_which_pod_it_is_kept(cluster: PreemptionDriver) -> None:
    for sees, name in (
        (lambda _: True, "pod default/urgent"),
        (lambda _: False, "a pod of another namespace"),
    ):
        found = why(cluster.machine, PodKey("default", "polite"), sees)
        assert found is not None
        assert found.nodes[0].kept == (f"1 card is kept for {name} by preemption",)
    found = why(cluster.machine, PodKey("default", "urgent"))
    assert found is not None
    assert found.nodes[0].kept == ()


class TestBound:
    """Victims that never leave."""

    @pytest.fixture
    def cluster(self) -> PreemptionDriver:
        cluster = PreemptionDriver({"n1": 8})
        cluster.fill(*(pod(f"low-{number}") for number in range(8)))
        return cluster

    def wear_out(self, cluster: PreemptionDriver, rounds: int) -> None:
        for _ in range(rounds):
            for name in cluster.victims:
                cluster.leaves(name)
            cluster.later(125)

    def test_one_pod_evicts_others_so_many_times_and_says_so(
        self, cluster: PreemptionDriver
    ) -> None:
        cluster.show(URGENT)
        self.wear_out(cluster, 8)
        assert len({*cluster.victims}) == 5
        text = "Pods were evicted for it 5 times, and it has no place: it evicts no more."
        assert cluster.told["urgent"].endswith(f". {text}")
        assert cluster.machine.attempts.exhausted == 1
        found = why(cluster.machine, PodKey("default", "urgent"))
        assert found is not None
        assert found.preemption is not None
        assert found.preemption.obstacle == "pods were evicted for it 5 times already"

    def test_others_like_it_are_told_nothing_of_that_and_may_evict(
        self, cluster: PreemptionDriver
    ) -> None:
        cluster.show(URGENT)
        self.wear_out(cluster, 6)
        cluster.show(pod("like-it", 1000, 9, created="3"))
        assert len({*cluster.victims}) == 6
        assert "evicts no more" not in cluster.told["like-it"]

    def test_it_takes_a_place_that_becomes_free(self, cluster: PreemptionDriver) -> None:
        cluster.show(URGENT)
        self.wear_out(cluster, 6)
        assert names(cluster.left("low-7")) == ["urgent"]

    def test_a_gang_alike(self) -> None:
        cluster = PreemptionDriver({"n1": 6, "n2": 6})
        cluster.fill(*(pod(f"low-{number:02}") for number in range(12)))
        cluster.show(*members(a_group(2), 2, priority=9))
        self.wear_out(cluster, 7)
        assert len({*cluster.victims}) == 10
        assert cluster.told["g-0"].endswith("it evicts no more.")
        assert cluster.machine.attempts.exhausted == 1


class TestRestart:
    """A scheduler that begins when another one has evicted pods already."""

    def begin(self, *shown: Pod, cards: int) -> PreemptionDriver:
        cluster = PreemptionDriver({})
        cluster.machine = a_machine({})
        cards_read = InventoryRead(((NodeName("n1"), some_gpus("n1", cards)),))
        cluster.tell(PodsListed((POLITE, *shown), 0.0), NodesListed((a_node("n1"),)))
        cluster.turn()
        cluster.tell(cards_read)
        return cluster

    def held(self, name: str, card: int, **fields: Any) -> Pod:
        """A bound pod on a card of its own."""
        charge = CardCharge(GpuUuid(f"GPU-n1-{card}"), 1000, 40 * GIB)
        allocation = Allocation(token=DecisionToken("old"), cards=(charge,), port=None)
        return pod(name, node_name=NodeName("n1"), allocation=allocation, **fields)

    def test_what_was_freed_meanwhile_goes_to_the_nominee(self) -> None:
        nominee = replace(URGENT, nominated=True, nominated_node=NodeName("n1"))
        cluster = self.begin(nominee, cards=1)
        assert names(cluster.turn()) == ["urgent"]
        assert cluster.victims == []

    def test_victims_that_are_leaving_are_waited_for_and_nobody_else_goes(self) -> None:
        nominee = replace(URGENT, nominated=True, nominated_node=NodeName("n1"))
        tenants = self.held("one", 0, deleting=True), self.held("two", 1)
        cluster = self.begin(nominee, *tenants, cards=2)
        assert cluster.turn() == []
        assert names(cluster.left("one")) == ["urgent"]
        assert cluster.victims == []

    def test_only_victims_that_were_not_deleted_are_evicted(self) -> None:
        nominees = [
            replace(one, nominated=True, nominated_node=NodeName("n1"))
            for one in members(a_group(2), 2, priority=9, created="2")
        ]
        tenants = self.held("one", 0, deleting=True), self.held("two", 1), self.held("three", 2)
        cluster = self.begin(*nominees, *tenants, cards=3)
        cluster.turn()
        assert len(cluster.victims) == 1
        assert names(cluster.left("one", *cluster.victims)) == ["g-0", "g-1"]

    def test_a_nomination_for_which_there_is_no_room_is_taken_back(self) -> None:
        nominee = replace(URGENT, nominated=True, nominated_node=NodeName("n1"))
        cluster = self.begin(nominee, self.held("more", 0, priority=20), cards=1)
        cluster.turn()
        assert cluster.nominated == {"urgent": None}
        assert cluster.victims == []

    def test_many_nominees_take_their_turns(self) -> None:
        nominees = [
            pod(f"urgent-{n:02}", priority=9, nominated=True, nominated_node=NodeName("n1"))
            for n in range(20)
        ]
        cluster = self.begin(*nominees, cards=16)
        assert names(cluster.turn()) == [f"urgent-{n:02}" for n in range(16)]

    def test_without_cards_the_nominee_need_not_wait_for_the_inventory(self) -> None:
        wants = a_shape(cpu=40_000)
        nominee = a_pod("urgent", wants, priority=9, nominated_node=NodeName("n1"), nominated=True)
        older = a_pod("older", wants, priority=9, preempts=False)
        cluster = PreemptionDriver({})
        cluster.machine = a_machine({})
        cluster.tell(PodsListed((older, nominee), 0.0), NodesListed((a_node("n1"),)))
        assert names(cluster.turn()) == ["urgent"]


def test_why_says_that_a_victim_could_not_be_evicted(cluster: PreemptionDriver) -> None:
    refused = "403 Forbidden: cannot delete resource"
    assert cluster.tell(EvictionFailed(PodUid("uid-low"), refused)) == []
    found = why(cluster.machine, URGENT.key)
    assert found is not None
    assert found.preemption is not None
    assert [victim.answer for victim in found.preemption.victims] == [refused]
    assert f"; not evicted so far: {refused}" in why_report(found, None).plain
    assert names(cluster.left("low")) == ["urgent"]
