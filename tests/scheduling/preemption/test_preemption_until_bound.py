"""What is kept for a preemptor is kept until it is bound or gives up, whatever happens."""

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
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.terminal.why_report import why_report
from tests.making import (
    GIB,
    PREEMPTION,
    Driver,
    a_claim,
    a_group,
    a_machine,
    a_node,
    a_pod,
    a_shape,
    a_share,
    members,
    names,
    some_gpus,
)

POLITE = a_share("polite", 1000, 9, preempts=False, created="1")
URGENT = a_share("urgent", 1000, 9, created="2")


@pytest.fixture
def cluster() -> Driver:
    """One card, a pod that gives way, one that waits for long, and one for which it goes."""
    cluster = Driver({"n1": 1}, PREEMPTION)
    cluster.fill(a_share("low"))
    cluster.show(POLITE)
    cluster.show(URGENT)
    assert cluster.evicted == ["low"]
    return cluster


def refuse(cluster: Driver) -> None:
    cluster.answer(cluster.binds[-1], BindRefused(Refusal.INVALID, "no"))
    cluster.turn()


def test_a_refused_binding_gives_nothing_away(cluster: Driver) -> None:
    assert names(cluster.gone("low")) == ["urgent"]
    refuse(cluster)
    assert names(cluster.later(5)) == ["urgent"]
    assert cluster.evicted == ["low"]


def test_a_preemptor_whose_binding_is_never_accepted_gives_up(cluster: Driver) -> None:
    cluster.gone("low")
    bound: list[str] = []
    for _ in range(100):
        if cluster.binds[-1].key.name == "urgent":
            refuse(cluster)
        bound += names(cluster.later(2))
    assert "polite" in bound
    assert cluster.now < 250


def test_news_of_its_node_gives_nothing_away(cluster: Driver) -> None:
    cluster.leaves("low")
    cluster.tell(NodeSeen(a_node("n1", labels={"zone": "a"})))
    assert names(cluster.gone("low")) == ["urgent"]


def test_another_configuration_gives_nothing_away(cluster: Driver) -> None:
    cluster.leaves("low")
    cluster.machine.handle(ProfilesReplaced(profiles(read({}), IN_TREE)), cluster.now)
    cluster.turn()
    assert names(cluster.gone("low")) == ["urgent"]
    assert cluster.evicted == ["low"]


class NotYet:
    """A permit plugin that lets nobody of these names start until it is told otherwise."""

    name = "NotYet"

    def __init__(self) -> None:
        self.refused = {"urgent"}

    def permit(self, pod: Pod, node: NodeName) -> str | None:
        return "not yet" if pod.key.name in self.refused else None


def test_a_plugin_that_does_not_permit_it_yet_gives_nothing_away() -> None:
    plugin, cluster = NotYet(), Driver({"n1": 1}, PREEMPTION)
    cluster.fill(a_share("low"))
    cluster.show(POLITE)
    document = {"profiles": [{"plugins": {"permit": {"enabled": [{"name": "NotYet"}]}}}]}
    known = {**IN_TREE, "NotYet": lambda: plugin}
    cluster.machine.handle(ProfilesReplaced(profiles(read(document), known)), cluster.now)
    cluster.show(URGENT)
    assert cluster.gone("low") == []
    plugin.refused.clear()
    assert names(cluster.later(5)) == ["urgent"]


def test_a_gang_of_other_members_keeps_its_places() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(a_share("low-0"), a_share("low-1"))
    cluster.show(POLITE)
    gang = members(a_group(2, headcount=3), 3, priority=9, created="2")
    cluster.show(*gang)
    first, second = cluster.evicted
    cluster.leaves(first)
    cluster.gone(first)
    assert cluster.gone(gang[0]) == []
    cluster.leaves(second)
    assert names(cluster.gone(second)) == ["g-1", "g-2"]
    assert len({*cluster.evicted}) == 2


def test_what_victims_of_an_earlier_plan_held_is_kept_by_the_next_one() -> None:
    cluster = Driver({"n1": 1, "n2": 1, "n3": 1}, PREEMPTION)
    cluster.fill(a_share("one"), a_share("two"), a_share("three"))
    cluster.show(a_share("small", 400, 9, preempts=False, created="1"))
    gang = members(a_group(2), 2, a_claim(600), priority=9, created="2")
    cluster.show(*gang)
    first, second = cluster.evicted
    node = cluster.machine.records[a_share(second).uid].node
    assert node is not None
    cluster.leaves(first)
    assert cluster.gone(first) == []
    cluster.tell(InventoryRead(((node, ()),)))
    assert cluster.turn() == []
    [third] = {"one", "two", "three"} - {first, second}
    assert [bind.key.name for bind in cluster.gone(third)] == ["g-0", "g-1", "small"]


def test_without_its_card_it_plans_anew() -> None:
    cluster = Driver({"n1": 1, "n2": 1}, PREEMPTION)
    cluster.fill(a_share("one"), a_share("two"))
    cluster.show(URGENT)
    [first] = cluster.evicted
    node = cluster.machine.records[a_share(first).uid].node
    assert node is not None
    cluster.tell(InventoryRead(((node, ()),)))
    cluster.turn()
    assert sorted(cluster.evicted) == ["one", "two"]
    [other] = {*cluster.evicted} - {first}
    assert names(cluster.gone(other)) == ["urgent"]


def test_who_asks_is_told_for_which_pod_it_is_kept(cluster: Driver) -> None:
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
    def cluster(self) -> Driver:
        cluster = Driver({"n1": 8}, PREEMPTION)
        cluster.fill(*(a_share(f"low-{number}") for number in range(8)))
        return cluster

    def wear_out(self, cluster: Driver, rounds: int) -> None:
        for _ in range(rounds):
            for name in cluster.evicted:
                cluster.leaves(name)
            cluster.later(125)

    def test_one_pod_evicts_others_so_many_times_and_says_so(self, cluster: Driver) -> None:
        cluster.show(URGENT)
        self.wear_out(cluster, 8)
        assert len({*cluster.evicted}) == 5
        text = "Pods were evicted for it 5 times, and it has no place: it evicts no more."
        assert cluster.told["urgent"].endswith(f". {text}")
        assert cluster.machine.attempts.exhausted == 1
        found = why(cluster.machine, PodKey("default", "urgent"))
        assert found is not None
        assert found.preemption is not None
        assert found.preemption.obstacle == "pods were evicted for it 5 times already"

    def test_others_like_it_are_told_nothing_of_that_and_may_evict(self, cluster: Driver) -> None:
        cluster.show(URGENT)
        self.wear_out(cluster, 6)
        cluster.show(a_share("like-it", 1000, 9, created="3"))
        assert len({*cluster.evicted}) == 6
        assert "evicts no more" not in cluster.told["like-it"]

    def test_it_takes_a_place_that_becomes_free(self, cluster: Driver) -> None:
        cluster.show(URGENT)
        self.wear_out(cluster, 6)
        assert names(cluster.gone("low-7")) == ["urgent"]

    def test_a_gang_alike(self) -> None:
        cluster = Driver({"n1": 6, "n2": 6}, PREEMPTION)
        cluster.fill(*(a_share(f"low-{number:02}") for number in range(12)))
        cluster.show(*members(a_group(2), 2, priority=9))
        self.wear_out(cluster, 7)
        assert len({*cluster.evicted}) == 10
        assert cluster.told["g-0"].endswith("it evicts no more.")
        assert cluster.machine.attempts.exhausted == 1


class TestRestart:
    """A scheduler that begins when another one has evicted pods already."""

    def begin(self, *shown: Pod, cards: int) -> Driver:
        cluster = Driver({}, PREEMPTION)
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
        return a_share(name, node_name=NodeName("n1"), allocation=allocation, **fields)

    def test_what_was_freed_meanwhile_goes_to_the_nominee(self) -> None:
        nominee = replace(URGENT, nominated=True, nominated_node=NodeName("n1"))
        cluster = self.begin(nominee, cards=1)
        assert names(cluster.turn()) == ["urgent"]
        assert cluster.evicted == []

    def test_victims_that_are_leaving_are_waited_for_and_nobody_else_goes(self) -> None:
        nominee = replace(URGENT, nominated=True, nominated_node=NodeName("n1"))
        tenants = self.held("one", 0, deleting=True), self.held("two", 1)
        cluster = self.begin(nominee, *tenants, cards=2)
        assert cluster.turn() == []
        assert names(cluster.gone("one")) == ["urgent"]
        assert cluster.evicted == []

    def test_only_victims_that_were_not_deleted_are_evicted(self) -> None:
        nominees = [
            replace(one, nominated=True, nominated_node=NodeName("n1"))
            for one in members(a_group(2), 2, priority=9, created="2")
        ]
        tenants = self.held("one", 0, deleting=True), self.held("two", 1), self.held("three", 2)
        cluster = self.begin(*nominees, *tenants, cards=3)
        cluster.turn()
        assert len(cluster.evicted) == 1
        assert names(cluster.gone("one", *cluster.evicted)) == ["g-0", "g-1"]

    def test_a_nomination_for_which_there_is_no_room_is_taken_back(self) -> None:
        nominee = replace(URGENT, nominated=True, nominated_node=NodeName("n1"))
        cluster = self.begin(nominee, self.held("more", 0, priority=20), cards=1)
        cluster.turn()
        assert cluster.nominated == {"urgent": None}
        assert cluster.evicted == []

    def test_many_nominees_take_their_turns(self) -> None:
        nominees = [
            a_share(f"urgent-{n:02}", priority=9, nominated=True, nominated_node=NodeName("n1"))
            for n in range(20)
        ]
        cluster = self.begin(*nominees, cards=16)
        assert names(cluster.turn()) == [f"urgent-{n:02}" for n in range(16)]

    def test_without_cards_the_nominee_need_not_wait_for_the_inventory(self) -> None:
        wants = a_shape(cpu=40_000)
        nominee = a_pod("urgent", wants, priority=9, nominated_node=NodeName("n1"), nominated=True)
        older = a_pod("older", wants, priority=9, preempts=False)
        cluster = Driver({}, PREEMPTION)
        cluster.machine = a_machine({})
        cluster.tell(PodsListed((older, nominee), 0.0), NodesListed((a_node("n1"),)))
        assert names(cluster.turn()) == ["urgent"]


def test_why_says_that_a_victim_could_not_be_evicted(cluster: Driver) -> None:
    refused = "403 Forbidden: cannot delete resource"
    assert cluster.tell(EvictionFailed(PodUid("uid-low"), refused)) == []
    found = why(cluster.machine, URGENT.key)
    assert found is not None
    assert found.preemption is not None
    assert [victim.answer for victim in found.preemption.victims] == [refused]
    assert f"; not evicted so far: {refused}" in why_report(found, None).plain
    assert names(cluster.gone("low")) == ["urgent"]
