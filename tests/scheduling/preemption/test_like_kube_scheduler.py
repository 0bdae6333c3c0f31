"""Any cluster of pods without GPUs: the same node and the same victims as kube-scheduler."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.cluster_objects import Budget, Requirement
from kubeshare_py.domain.effects import Bind, Evict, Nominate
from kubeshare_py.domain.events import (
    BindSlotsFree,
    BudgetsListed,
    InventoryRead,
    NodesListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.each import each
from tests.making import GIB, a_machine, a_node, a_pod, a_shape
from tests.scale import examples
from tests.scheduling.preemption.kube_preemption import KubeCluster

Draws = st.integers(0, 10**9)


class Decided:
    """What the machine decided about one pod."""

    def __init__(self, cluster: KubeCluster, pod: Pod) -> None:
        machine = a_machine({})
        bound = [one for pods in cluster.pods.values() for one in pods]
        machine.handle(PodsListed(tuple(bound), 0.0), 0.0)
        machine.handle(NodesListed(tuple(cluster.nodes)), 0.0)
        machine.handle(InventoryRead(()), 0.0)
        machine.handle(BudgetsListed(tuple(cluster.budgets)), 0.0)
        machine.handle(PodSeen(pod), 0.0)
        effects = list(machine.handle(BindSlotsFree(1), 0.0))
        for _ in range(20):
            if machine.wake_at(0.0) != 0.0:
                break
            effects += machine.handle(BindSlotsFree(1), 0.0)
        self.bound = [one.node for one in effects if isinstance(one, Bind)]
        self.nominated = [one.node for one in effects if isinstance(one, Nominate)]
        self.victims = {one.key.name for one in effects if isinstance(one, Evict)}


def a_tenant(name: str, node: str, **fields: Any) -> Pod:
    """A bound pod."""
    return a_pod(name, fields.pop("shape", None), node_name=NodeName(node), **fields)


class AnyCluster:
    """A cluster that is nearly full, and a pod."""

    def __init__(self, seed: int) -> None:
        self.numbers = random.Random(seed)
        self.kube = KubeCluster()
        self.count = 0
        for number in range(self.numbers.randrange(1, 6)):
            self._add_node(f"n{number}")
        self._add_budgets()

    def _add_node(self, name: str) -> None:
        numbers = self.numbers
        amounts = (
            ("cpu", numbers.choice((1000, 2000, 4000))),
            ("memory", numbers.choice((4, 8)) * GIB),
            ("pods", numbers.choice((3, 5, 110))),
        )
        node = a_node(
            name,
            allocatable=amounts,
            labels={"zone": numbers.choice("ab")},
            unschedulable=numbers.random() < 0.1,
        )
        self.kube.nodes.append(node)
        there = self.kube.pods[node.name] = []
        for _ in range(4 + numbers.randrange(10)):
            tenant = replace(self.pod(), node_name=node.name)
            if self.kube.fits(tenant, node, there):
                there.append(tenant)

    def _add_budgets(self) -> None:
        names = [one.key.name for pods in self.kube.pods.values() for one in pods]
        for number in range(self.numbers.randrange(5)):
            app = self.numbers.choice("abc")
            self.kube.budgets.append(
                Budget(
                    key=PodKey(self.numbers.choice(("one", "two")), f"budget-{number}"),
                    selector=(Requirement("app", "In", (app, "d")),),
                    allowed=self.numbers.choice((0, 0, 1, 2)),
                    disrupted=frozenset(self.numbers.sample(names, min(1, len(names)))),
                )
            )

    def pod(self) -> Pod:
        """Any pod; no two are as old as each other."""
        numbers = self.numbers
        self.count += 1
        name = f"p{self.count:03d}"
        shape = a_shape(
            resources=(
                ("cpu", numbers.choice((100, 300, 500, 900, 1500))),
                ("memory", numbers.choice((0, 1, 2, 4)) * GIB),
            ),
            needs_port=False,
            node_selector=(("zone", "a"),) if numbers.random() < 0.15 else (),
        )
        age = f"{numbers.randrange(100):02d}{self.count:03d}"
        return replace(
            a_pod(
                name,
                shape,
                priority=numbers.choice((-5, 0, 0, 1, 2, 1000)),
                created=age,
                started="" if numbers.random() < 0.2 else age,
                labels=(("app", numbers.choice("abcd")),),
            ),
            key=PodKey(numbers.choice(("one", "two")), name),
        )

    def preemptor(self) -> Pod:
        """Any pod that waits."""
        found = replace(self.pod(), started="")
        urgent = replace(found, priority=self.numbers.choice((0, 1, 2, 1000, 2000)))
        return replace(urgent, preempts=self.numbers.random() < 0.9)


@pytest.mark.slow
@given(seed=Draws)
@examples(3000)
def test_the_same_pods_go_on_the_same_node(seed: int) -> None:
    scene = AnyCluster(seed)
    pod = scene.preemptor()
    decided = Decided(scene.kube, pod)
    if scene.kube.fits_somewhere(pod):
        assert len(decided.bound) == 1
        assert not decided.victims
        return
    best = {one.node: {pod.key.name for pod in one.victims} for one in scene.kube.best(pod)}
    assert not decided.bound
    assert decided.nominated == [] if not best else len(decided.nominated) == 1
    if best:
        (node,) = decided.nominated
        assert node in best
        assert decided.victims == best[node]


@pytest.mark.slow
def test_the_scenes_are_of_all_kinds() -> None:
    kinds = [*map(kind_of, range(300))]
    assert {*kinds} == {"fits", "helpless", "violates", "evicts one", "evicts several"}
    assert min(map(kinds.count, {*kinds})) > 5


def kind_of(seed: int) -> str:
    """What kube-scheduler would do with a pod."""
    scene = AnyCluster(seed)
    pod = scene.preemptor()
    if scene.kube.fits_somewhere(pod):
        return "fits"
    best = scene.kube.best(pod)
    if not best:
        return "helpless"
    if best[0].violations:
        return "violates"
    return "evicts one" if len(best[0].victims) == 1 else "evicts several"


def one_node(*pods: Pod, cpu: int = 1000, **fields: Any) -> KubeCluster:
    """A cluster of a node with these pods."""
    node = a_node("n1", allocatable=(("cpu", cpu), ("memory", GIB), ("pods", 110)))
    return KubeCluster([node], {node.name: [*pods]}, **fields)


def of_cpu(name: str, cpu: int, priority: int, **fields: Any) -> Pod:
    """A bound pod."""
    shape = a_shape(cpu=cpu, needs_port=False)
    return a_tenant(name, "n1", shape=shape, priority=priority, **fields)


def evicted(cluster: KubeCluster, cpu: int, **fields: Any) -> set[str]:
    """The victims for a pod of this size; the reference must name the same ones."""
    pod = a_pod("urgent", a_shape(cpu=cpu), **{"priority": 10, **fields})
    best = cluster.best(pod)
    expected = {one.key.name for one in best[0].victims} if best else set()
    found = Decided(cluster, pod).victims
    assert found == expected
    return found


def test_all_lower_pods_go_and_the_most_important_come_back_first() -> None:
    pods = (of_cpu("a", 200, 1), of_cpu("b", 300, 2), of_cpu("c", 450, 3))
    assert evicted(one_node(*pods), 500) == {"a", "b"}


def test_pods_of_the_same_priority_do_not_go() -> None:
    assert evicted(one_node(of_cpu("a", 900, 10)), 500) == set()


def test_a_pod_that_never_preempts_evicts_none() -> None:
    assert evicted(one_node(of_cpu("a", 900, 0)), 500, preempts=False) == set()


def test_the_pod_that_runs_longest_stays() -> None:
    pods = (of_cpu("old", 500, 1, started="001"), of_cpu("new", 500, 1, started="002"))
    assert evicted(one_node(*pods), 500) == {"new"}


def test_a_pod_that_has_not_started_is_younger_than_all_that_have() -> None:
    pods = (of_cpu("old", 500, 1, created="001"), of_cpu("new", 500, 1, started="002"))
    assert evicted(one_node(*pods), 500) == {"old"}


def covering(app: str, allowed: int, name: str = "") -> Budget:
    """A budget for the pods of an app."""
    selector = (Requirement("app", "In", (app,)),)
    return Budget(key=PodKey("default", name or app), selector=selector, allowed=allowed)


def test_pods_whose_budget_is_used_up_come_back_before_more_important_ones() -> None:
    low = of_cpu("low", 500, 1, labels=(("app", "a"),))
    pods = (low, of_cpu("high", 500, 2, labels=(("app", "b"),)))
    assert evicted(one_node(*pods), 500) == {"low"}
    assert evicted(one_node(*pods, budgets=[covering("a", 0)]), 500) == {"high"}
    assert evicted(one_node(*pods, budgets=[covering("a", 1)]), 500) == {"low"}


def test_a_budget_behind_one_that_is_used_up_is_not_used() -> None:
    both, app = (("app", "a"), ("tier", "t")), (("tier", "t"),)
    tier = replace(covering("t", 1, "z"), selector=(Requirement("tier", "In", ("t",)),))
    pods = (
        of_cpu("covered-twice", 300, 3, labels=both),
        of_cpu("covered-once", 300, 2, labels=app),
        of_cpu("free", 300, 4),
    )
    cluster = one_node(*pods, cpu=900, budgets=[covering("a", 0), tier])
    assert evicted(cluster, 600) == {"covered-once", "free"}


@pytest.mark.parametrize("seed", range(20))
def test_candidates_of_the_reference_are_lean(seed: int) -> None:
    """No victim of the reference could stay: it is judged by nothing but itself otherwise."""
    scene = AnyCluster(seed)
    waiting = [scene.preemptor() for _ in range(40)]
    found = ((pod, one) for pod in waiting for one in scene.kube.candidates(pod))
    for pod, candidate in each(found):
        node = next(one for one in scene.kube.nodes if one.name == candidate.node)
        there = scene.kube.pods[candidate.node]
        for victim in each(candidate.victims):
            left = [one for one in there if one not in candidate.victims or one is victim]
            assert not scene.kube.fits(pod, node, left)
