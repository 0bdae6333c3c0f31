"""Urgent pods take the places of less urgent ones, and only as long as it takes."""

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import Budget, Requirement
from kubeshare_py.domain.effects import Evict
from kubeshare_py.domain.events import (
    BindSlotsFree,
    BudgetEvent,
    BudgetGone,
    BudgetSeen,
    BudgetsListed,
    PodSeen,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.advice import NEVER, OFF
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.preemption.planner import MAX_NODES
from kubeshare_py.views.view import PreemptionView
from tests.making import (
    NO_PREEMPTION,
    PREEMPTION,
    Driver,
    a_claim,
    a_group,
    a_pod,
    a_shape,
    a_share,
    members,
    names,
    of,
    whole,
)


def test_only_tenants_of_the_card_that_is_needed_go(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 9))
    assert cluster.evicted == ["two", "one"]
    assert cluster.nominated == {"urgent": "n1"}


def test_an_eviction_names_the_namespace_that_gets_the_place(cluster: Driver) -> None:
    urgent = replace(a_share("urgent", 300, 9), key=PodKey("elsewhere", "urgent"))
    cluster.tell(PodSeen(urgent))
    evictions = of(Evict, cluster.tell(BindSlotsFree(64)))
    assert [(one.key.name, one.on_behalf_of) for one in evictions] == [("one", "elsewhere")]


def test_nobody_goes_who_need_not(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 300, 9))
    assert cluster.evicted == ["one"]


def test_the_nominee_is_bound_to_the_cards_of_its_victims(cluster: Driver) -> None:
    card = cluster.machine.records[a_share("one").uid].allocation
    cluster.show(a_share("urgent", 500, 9))
    cluster.leaves("one")
    [bind] = cluster.gone("one")
    assert bind.key.name == "urgent"
    assert card is not None
    assert bind.allocation.cards[0].uuid == card.cards[0].uuid


def test_nobody_else_takes_the_place_meanwhile(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 9))
    cluster.leaves("one")
    assert cluster.gone("one") == []
    assert cluster.show(a_share("small", 100, 0)) == []
    assert names(cluster.gone("two")) == ["urgent"]


def test_pods_of_the_same_priority_stay(cluster: Driver) -> None:
    cluster.show(a_share("equal", 500, 1))
    assert cluster.evicted == []


def test_who_may_never_preempt_waits(cluster: Driver) -> None:
    cluster.show(a_share("polite", 500, 9, preempts=False))
    assert cluster.evicted == []


def test_a_profile_can_do_without() -> None:
    cluster = Driver({"n1": 1}, NO_PREEMPTION)
    cluster.fill(a_share("one", 1000, 1))
    cluster.show(a_share("urgent", 500, 9))
    assert cluster.evicted == []


def test_a_guarantee_pod_takes_only_from_opportunistic_neighbours() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    elsewhere = replace(a_share("theirs"), key=PodKey("elsewhere", "theirs"))
    cluster.fill(elsewhere, a_share("ours"))
    cluster.show(a_share("guarantee", 500, label_priority=1))
    assert cluster.evicted == ["ours"]
    cluster.show(a_share("another", 600, label_priority=1))
    assert cluster.evicted == ["ours"]


def test_the_profile_may_let_labels_count_everywhere_or_nowhere() -> None:
    for word, victims in (("Everywhere", ["theirs"]), ("Never", [])):
        config = [{"name": "DefaultPreemption", "args": {"opportunistic": word}}]
        cluster = Driver({"n1": 1}, {"profiles": [{"pluginConfig": config}]})
        cluster.fill(replace(a_share("theirs"), key=PodKey("elsewhere", "theirs")))
        cluster.show(a_share("guarantee", 500, label_priority=1))
        assert cluster.evicted == victims


def test_each_of_several_gets_victims_of_its_own(cluster: Driver) -> None:
    cluster.show(a_share("urgent-1", 1000, 9), a_share("urgent-2", 1000, 9))
    assert sorted(cluster.evicted) == ["five", "one", "two"]
    cluster.gone("one", "two", "five")
    assert names(cluster.binds[-2:]) == ["urgent-1", "urgent-2"]


def test_a_more_urgent_pod_takes_over(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 8))
    cluster.show(a_share("more", 1000, 9))
    assert cluster.evicted == ["two", "one", "five"]
    assert names(cluster.gone("one", "two")) == ["more"]
    assert names(cluster.gone("five")) == ["urgent"]


def test_a_nominee_that_finds_another_place_takes_it(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 9))
    assert names(cluster.gone("five")) == ["urgent"]
    assert cluster.machine.preemption.under_way == {}


def test_budgets_are_a_preference_and_no_bar() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    kept = a_share("kept", 1000, 1, labels=(("app", "kept"),))
    other = a_share("other", 1000, 2)
    for one in (kept, other):
        cluster.bound(cluster.show(one), one)
    budget = Budget(key=PodKey("default", "b"), selector=(Requirement("app", "In", ("kept",)),))
    cluster.tell(BudgetSeen(budget))
    cluster.show(a_share("urgent-1", 1000, 9))
    assert cluster.evicted == ["other"]
    cluster.show(a_share("urgent-2", 1000, 9))
    assert cluster.evicted == ["other", "kept"]
    assert [effect.plan.violations for effect in cluster.plans] == [0, 1]


BUDGET = PodKey("default", "b")


def test_an_unreadable_budget_of_a_list_stays_as_it_was() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(a_share("kept", 1000, 1, labels=(("app", "kept"),)), a_share("other", 1000, 2))
    budget = Budget(key=BUDGET, selector=(Requirement("app", "In", ("kept",)),))
    cluster.tell(BudgetSeen(budget), BudgetsListed((), frozenset({BUDGET, PodKey("new", "b")})))
    cluster.show(a_share("urgent", 1000, 9))
    assert cluster.evicted == ["other"]


@pytest.mark.parametrize("gone", [BudgetGone(BUDGET), BudgetsListed(())])
def test_a_budget_that_is_gone_counts_no_more(gone: BudgetEvent) -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(a_share("kept", 1000, 1, labels=(("app", "kept"),)), a_share("other", 1000, 2))
    budget = Budget(key=BUDGET, selector=())
    cluster.tell(BudgetSeen(budget), gone)
    cluster.show(a_share("urgent", 1000, 9))
    assert cluster.evicted == ["kept"]


def test_the_elastic_tail_of_a_gang_goes_and_its_minimum_stays() -> None:
    cluster = Driver({"n1": 4}, PREEMPTION)
    gang = members(a_group(2, headcount=4), 4)
    cluster.bound(cluster.show(*gang), *gang)
    cluster.bound(cluster.turn(), *gang)
    for number in range(2):
        cluster.show(a_share(f"urgent-{number}", 1000, 9))
    assert len(cluster.evicted) == 2


def test_below_the_minimum_all_of_a_gang_go_together() -> None:
    cluster = Driver({"n1": 2, "n2": 2}, PREEMPTION)
    gang = members(a_group(3), 3)
    cluster.bound(cluster.show(*gang), *gang)
    cluster.fill(a_share("other", 1000, 5))
    cluster.show(a_share("urgent", 1000, 4))
    assert sorted(cluster.evicted) == ["g-0", "g-1", "g-2"]


def test_a_gang_takes_all_places_at_once_and_no_more() -> None:
    cluster = Driver({"n1": 4, "n2": 4}, PREEMPTION)
    cluster.fill(*(a_share(f"low-{number}", 1000, number) for number in range(7)))
    gang = members(a_group(4), 4, priority=9)
    cluster.show(*gang)
    assert sorted(cluster.evicted) == ["low-0", "low-1", "low-2"]
    assert cluster.gone("low-0", "low-1") == []
    assert names(cluster.gone("low-2")) == [one.key.name for one in gang]


def test_owners_of_victims_are_told_who_preempts_them() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(a_share("low-0", 1000, 0), a_share("low-1", 1000, 1))
    cluster.show(*members(a_group(2), 2, priority=9))
    assert {*cluster.notes} == {"Preempted by pod group default/g on node n1"}
    alone = Driver({"n1": 1}, PREEMPTION)
    alone.fill(a_share("low", 1000, 0))
    alone.show(a_share("urgent", 1000, 9))
    assert alone.notes == ["Preempted by pod default/urgent on node n1"]


def test_owners_of_victims_are_told_of_no_names_in_other_namespaces() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(*(replace(a_share(f"low-{n}"), key=PodKey("mine", f"low-{n}")) for n in range(2)))
    cluster.show(*members(a_group(2, "secret"), 2, priority=9))
    foreign = "a pod group of another namespace with higher priority (with pod uid-secret-0)"
    assert {*cluster.notes} == {f"Preempted by {foreign} on node n1"}
    alone = Driver({"n1": 1}, PREEMPTION)
    alone.fill(replace(a_share("low"), key=PodKey("mine", "low")))
    alone.show(a_share("secret", 1000, 9))
    foreign = "a pod of another namespace with higher priority (uid uid-secret)"
    assert alone.notes == [f"Preempted by {foreign} on node n1"]


def test_a_gang_that_no_eviction_helps_evicts_nobody() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(a_share("low", 1000, 1), a_share("high", 1000, 10))
    cluster.show(*members(a_group(2), 2, priority=9))
    assert cluster.evicted == []


def test_whole_cards_take_the_cheapest_cards() -> None:
    cluster = Driver({"n1": 4}, PREEMPTION)
    cluster.fill(*(a_share(f"low-{number}", 1000, number) for number in range(4)))
    cluster.show(a_pod("urgent", a_shape(whole(2)), priority=9))
    assert cluster.evicted == ["low-1", "low-0"]


def why_not(cluster: Driver, name: str) -> PreemptionView:
    found = why(cluster.machine, PodKey("default", name))
    assert found is not None
    assert found.preemption is not None
    return found.preemption


def test_whoever_asks_why_sees_the_plan_though_nobody_may_carry_it_out() -> None:
    for document, fields, obstacle in (
        (None, {"preempts": False}, NEVER),
        (NO_PREEMPTION, {}, OFF),
    ):
        cluster = Driver({"n1": 1}, document or PREEMPTION)
        cluster.fill(a_share("one", 500, 1), a_share("two", 500, 2))
        cluster.show(a_share("urgent", 300, 9, **fields))
        found = why_not(cluster, "urgent")
        assert [victim.name for victim in found.victims] == ["one"]
        assert [seat.node for seat in found.nominations] == ["n1"]
        assert (found.in_flight, found.obstacle) == (False, obstacle)
        assert cluster.evicted == []


def test_whoever_asks_why_sees_the_plan_that_is_under_way(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 9))
    found = why_not(cluster, "urgent")
    assert [victim.name for victim in found.victims] == ["two", "one"]
    assert found.in_flight
    assert found.obstacle == ""


def test_to_ask_changes_nothing(cluster: Driver) -> None:
    cluster.show(a_share("urgent", 1000, 8))
    cluster.show(a_share("polite", 1000, 9, preempts=False))
    why_not(cluster, "polite")
    assert names(cluster.gone("one", "two")) == ["urgent"]
    assert cluster.evicted == ["two", "one"]


@pytest.mark.slow
def test_to_ask_does_not_choose_the_nodes_that_are_looked_at() -> None:
    nodes = [f"n{number:03}" for number in range(MAX_NODES + 1)]
    chosen = []
    for is_asked in (False, True):
        cluster = Driver(dict.fromkeys(nodes, 1), PREEMPTION)
        for number, node in enumerate(nodes):
            card = CardCharge(GpuUuid(f"GPU-{node}-0"), 1000, 0, "")
            held = Allocation(token=DecisionToken("old"), cards=(card,))
            one = a_share(f"on-{node}", 1000, min(number, 2))
            cluster.tell(PodSeen(replace(one, node_name=NodeName(node), allocation=held)))
        cluster.show(a_share("polite", 1000, 8, preempts=False))
        if is_asked:
            why_not(cluster, "polite")
        cluster.show(a_share("urgent", 1000, 9))
        chosen.append(cluster.evicted)
    assert chosen[0] == chosen[1] != []


def test_whoever_waited_in_vain_is_above_a_pod_that_is_bound_later() -> None:
    cluster = Driver({"n1": 1}, PREEMPTION)
    cluster.fill(a_share("high", 600, 9))
    small = a_share("small", 400, 0)
    binds = cluster.show(small)
    cluster.show(a_share("polite", 400, 9, preempts=False), a_share("second", 400, 1))
    assert cluster.evicted == []
    cluster.bound(binds, small)
    assert cluster.evicted == ["small"]


def test_a_gang_that_waited_in_vain_is_above_a_pod_that_is_bound_later() -> None:
    cluster = Driver({"n1": 2}, PREEMPTION)
    cluster.fill(a_share("high", 1000, 9), a_share("other", 600, 9))
    small = a_share("small", 400, 0)
    binds = cluster.show(small)
    cluster.show(*members(a_group(1), 1, a_claim(400), priority=1))
    assert cluster.evicted == []
    cluster.bound(binds, small)
    assert cluster.evicted == ["small"]
