"""Any cluster and any pod that fits nowhere: nobody too many goes, and nobody who need not."""

import random

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.cluster_objects import Budget, Requirement
from kubeshare_py.domain.effects import PreemptionPlan
from kubeshare_py.domain.events import InventoryRead, NodesListed, PodsListed
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.preemption.planner import Planner, preemptor_of
from tests.making import GIB, a_claim, a_gpu, a_machine, a_node, a_pod, a_shape, whole
from tests.scale import examples
from tests.scheduling.preemption_reference import PreemptionReference

SHAPES = (
    a_shape(a_claim(300)),
    a_shape(a_claim(500)),
    a_shape(a_claim(700)),
    a_shape(a_claim(1000)),
    a_shape(a_claim(200, memory_bytes=30 * GIB)),
    a_shape(whole(2)),
    a_shape(a_claim(600), a_claim(500)),
    a_shape(cpu=30_000),
    a_shape(a_claim(300), cpu=30_000),
    a_shape(a_claim(100, models=("T4",))),
)
Draws = st.integers(0, 10**9)


class Scene:
    """A full cluster of two or three nodes, some of whose pods are in gangs, and its books."""

    def __init__(self, seed: int, gangs: bool = True, pods: int = 14) -> None:
        self.numbers = random.Random(seed)
        self.reference = PreemptionReference()
        self.machine: Machine = a_machine({})
        for number in range(2 + self.numbers.randrange(2)):
            name = NodeName(f"n{number}")
            self.reference.nodes[name] = a_node(name, pods=3 + self.numbers.randrange(8))
            self.reference.cards[name] = {
                f"GPU-{name}-{index}": a_gpu(
                    f"GPU-{name}-{index}",
                    index=index,
                    model=self.numbers.choice(("A100", "A100", "T4")),
                    healthy=self.numbers.random() < 0.9,
                )
                for index in range(1 + self.numbers.randrange(3))
            }
        for number in range(pods):
            self._tenant(number)
        if gangs:
            self._group_up()
        self._count_budgets()
        machine, reference = self.machine, self.reference
        machine.handle(PodsListed(tuple(reference.pods.values()), 0.0), 0.0)
        machine.handle(NodesListed(tuple(reference.nodes.values())), 0.0)
        inventory = tuple((name, tuple(cards.values())) for name, cards in reference.cards.items())
        machine.handle(InventoryRead(inventory), 0.0)

    def pod(self, name: str) -> Pod:
        """Any pod."""
        shape = self.numbers.choice(SHAPES)
        pod = a_pod(
            name,
            replace(shape, needs_port=False),
            priority=self.numbers.randrange(4),
            label_priority=self.numbers.choice((-1, 0, 0, 5)),
            created=f"{self.numbers.randrange(20):03d}",
            labels=(("app", self.numbers.choice("abc")),),
        )
        return replace(pod, key=PodKey(self.numbers.choice(("one", "two")), name))

    def _tenant(self, number: int) -> None:
        pod = self.pod(f"t{number:02d}")
        node = self.reference.fits_somewhere(pod)
        if node is None:
            return
        held = self.reference.holding(pod, node)
        if self.numbers.random() < 0.1:
            pod = replace(pod, scheduler_name="other")
        if self.numbers.random() < 0.1:
            pod = replace(pod, deleting=True)
        self.reference.held[pod.uid] = held
        allocation = held.allocation or Allocation(token=a_pod().uid)  # type: ignore[arg-type]
        self.reference.pods[pod.uid] = replace(pod, node_name=node, allocation=allocation)

    def _group_up(self) -> None:
        uids = sorted(self.reference.pods)
        for name in ("g", "h"):
            size = 2 + self.numbers.randrange(2)
            least = self.numbers.randrange(1, size + 1)
            some = [uid for uid in uids if self.reference.pods[uid].scheduler_name != "other"][
                :size
            ]
            uids = [uid for uid in uids if uid not in some]
            if len([uid for uid in some if not self.reference.pods[uid].deleting]) < least:
                continue
            group = PodGroup(name=name, headcount=size, min_available=least)
            for uid in some:
                pod, held = self.reference.pods[uid], self.reference.held[uid]
                assert pod.allocation is not None
                allocation = replace(pod.allocation, group=name, min_available=least)
                held.allocation = allocation if held.allocation else None
                key = PodKey("one", pod.key.name)
                self.reference.pods[uid] = replace(pod, group=group, allocation=allocation, key=key)

    def _count_budgets(self) -> None:
        for app in "ab":
            self.reference.budgets.append(
                Budget(
                    key=PodKey(self.numbers.choice(("one", "two")), app),
                    selector=(Requirement("app", "In", (app,)),),
                    allowed=self.numbers.randrange(3),
                )
            )

    def plan(self, *pods: Pod) -> PreemptionPlan | None:
        """What the planner says."""
        machine = self.machine
        for pod in pods:
            self.reference.pods[pod.uid] = pod
            machine.handle(PodsListed(tuple(self.reference.pods.values()), 0.0), 0.0)
        planner = Planner(
            machine.ledger,
            machine.records,
            machine.gangs,
            machine.snapshots,
            machine.profiles,
            machine.boundary,
        )
        planner.budgets = {budget.key: budget for budget in self.reference.budgets}
        records = [machine.records[pod.uid] for pod in pods]
        return planner.plan(preemptor_of(pods), records)

    def newcomer(self) -> Pod | None:
        """A pod that fits nowhere."""
        pod = self.pod("new")
        return None if self.reference.fits_somewhere(pod) else pod


@examples(400)
@given(Draws)
def test_nobody_too_many_goes_and_nobody_who_need_not(seed: int) -> None:
    scene = Scene(seed)
    pod = scene.newcomer()
    if pod is None:
        return
    plan = scene.plan(pod)
    if plan is None:
        assert not scene.reference.possible(pod), "somebody could have gone"
        return
    scene.reference.expect_right(plan, [pod])
    scene.reference.expect_lean(plan, pod)


@examples(400)
@given(Draws)
def test_no_node_would_have_been_better_by_the_order_of_kube_scheduler(seed: int) -> None:
    scene = Scene(seed, gangs=False)
    pod = scene.newcomer()
    plan = scene.plan(pod) if pod is not None else None
    if pod is None or plan is None:
        return
    reference = scene.reference
    gone = [reference.pods[victim.uid] for victim in plan.victims]
    violating = plan.violations
    cost = (violating, *reference.cost(gone, ())[1:])
    assert cost <= min(cost for cost, _ in reference.kubernetes(pod))


@examples(200)
@given(Draws)
def test_for_several_pods_all_seats_are_free_once_the_victims_are_gone(seed: int) -> None:
    scene = Scene(seed, pods=24)
    first = scene.pod("new-0")
    count = 2 + scene.numbers.randrange(3)
    others = [
        replace(scene.pod(f"new-{n}"), key=PodKey(first.key.namespace, f"new-{n}"))
        for n in range(1, count)
    ]
    if scene.numbers.random() < 0.5:
        others = [replace(other, shape=first.shape) for other in others]
    pods = [first, *others]
    plan = scene.plan(*pods)
    if plan is not None:
        scene.reference.expect_right(plan, pods)
