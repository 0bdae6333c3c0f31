"""Gangs on any boards: books of the test's own judge which cards members get.

The plain way of choosing is that of tests/topology/plain.py, written from the decision's text.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.topology.node_topology import topology_of
from tests.making import Driver, a_claim, a_group, a_pod, a_shape, members, whole
from tests.making.boards import boarded, cards_of
from tests.scale import examples
from tests.topology import plain
from tests.topology.test_any_board import boards

#: A gang of so many starts, a pod of nobody's comes, a member dies and is replaced, a pod goes.
STEPS = st.lists(
    st.tuples(st.sampled_from("sspdrg"), st.integers(0, 6), st.integers(0, 3)), max_size=16
)
CLAIMS = (a_claim(1000), whole(1), whole(2), a_claim(1000))
ALONE = (a_claim(1000), a_claim(300), whole(2), a_claim(600))


@dataclass
class Job:
    """A gang that started: its pods, and what each of them has."""

    group: PodGroup
    claim: GpuClaim
    made: int
    pods: dict[str, Pod] = field(default_factory=dict)


class World:
    """Two nodes with these boards, and who holds which of their cards."""

    def __init__(self, given: list[list[Gpu]]) -> None:
        self.driver = boarded({"a": given[0], "b": given[1]})
        self.matrices = {node: topology_of(self.driver.cards_on(node)).bandwidth for node in "ab"}
        self.held: dict[str, frozenset[tuple[str, int]]] = {}
        self.jobs: dict[str, Job] = {}
        self.alone: dict[str, Pod] = {}
        self.count = 0

    def idle(self, node: str) -> frozenset[int]:
        used = {index for cards in self.held.values() for name, index in cards if name == node}
        return frozenset(range(len(self.matrices[node]))) - used

    def on(self, job: Job, node: str) -> frozenset[int]:
        cards = [card for name in job.pods for card in self.held.get(name, ())]
        return frozenset(index for where, index in cards if where == node)

    def step(self, action: str, which: int, how: int) -> None:
        self.count += 1
        if action == "s":
            self.start(2 + which % 4, CLAIMS[how])
        elif action == "p":
            pod = a_pod(f"p{self.count}", a_shape(ALONE[how], cpu=0))
            self.alone[pod.key.name] = pod
            self.take(self.driver.show(pod), self.driver, [pod])
        elif action == "g" and self.alone:
            self.go(self.alone.pop(sorted(self.alone)[which % len(self.alone)]))
        elif self.jobs:
            job = self.jobs[sorted(self.jobs)[which % len(self.jobs)]]
            if action == "d" and len(job.pods) > 1:
                self.go(job.pods.pop(sorted(job.pods)[how % len(job.pods)]))
            elif action == "r":
                self.replace(job)

    def start(self, size: int, claim: GpuClaim) -> None:
        """All at once: on each node they have the best set of so many cards as they have there."""
        before = {node: self.idle(node) for node in self.matrices}
        group = a_group(size, f"g{self.count}")
        pods = members(group, size, claim)
        binds = self.driver.show(*pods)
        if not binds:
            self.driver.gone(*pods)
            return
        assert len(binds) == size
        job = self.jobs[group.name] = Job(group, claim, size, {pod.key.name: pod for pod in pods})
        self.take(binds, self.driver, pods)
        self.check_node(job, before)
        for node, matrix in self.matrices.items():
            cards = self.on(job, node)
            assert cards <= before[node]
            assert cards == plain.best(matrix, before[node], len(cards))
            hops = sorted(
                plain.slowest_hop(matrix, frozenset(index for _, index in self.held[bind.key.name]))
                for bind in binds
                if bind.node == node
            )
            assert hops == plain.hops_of_best_parts(matrix, cards, [claim.count] * len(hops))

    def check_node(self, job: Job, before: dict[str, frozenset[int]]) -> None:
        """Of two equal nodes that hold it, not that on which it is slower by more than half."""
        count = len(job.pods) * job.claim.count
        mine, other = sorted(before, key=lambda node: not self.on(job, node))
        matrix = self.matrices[mine]
        if self.matrices[other] != matrix or min(map(len, before.values())) < count:
            return
        best = plain.best(matrix, range(len(matrix)), count)
        slower = plain.slowest_hop(matrix, self.on(job, mine))
        faster = plain.slowest_hop(matrix, plain.best(matrix, before[other], count))
        assert 2 * (faster - slower) <= plain.slowest_hop(matrix, best) * 1.04
        assert not self.on(job, other)

    def replace(self, job: Job) -> None:
        """One more member: the best beside those of its gang on that node, which has most of it."""
        [pod] = members(job.group, 1, job.claim, start=job.made)
        job.made += 1
        before = {node: (self.idle(node), self.on(job, node)) for node in self.matrices}
        binds = self.driver.show(pod)
        if not binds:
            assert all(len(idle) < job.claim.count for idle, _ in before.values())
            self.driver.gone(pod)
            return
        [bind] = binds
        nearness = {}
        for node, (idle, ours) in before.items():
            best = plain.best(self.matrices[node], idle, job.claim.count, ours)
            if best and ours:
                matrix = self.matrices[node]
                nearness[node] = sum(matrix[one][other] for one in best for other in ours)
            if node == bind.node and ours:
                assert {index for _, index in cards_of(bind)} == best
        if nearness:
            assert nearness[str(bind.node)] == max(nearness.values())
        job.pods[pod.key.name] = pod
        self.take(binds, self.driver, [pod])

    def go(self, pod: Pod) -> None:
        del self.held[pod.key.name]
        assert not self.driver.gone(pod)

    def take(self, binds: list[Bind], driver: Driver, pods: list[Pod]) -> None:
        for bind in binds:
            self.held[bind.key.name] = frozenset(cards_of(bind))
        placed = {bind.uid for bind in binds}
        for pod in pods:
            if pod.uid not in placed:
                self.alone.pop(pod.key.name, None)
                driver.gone(pod)
        driver.bound(binds, *pods)


@pytest.mark.slow
@examples(150)
@given(one=boards(most=6), other=boards(most=6), steps=STEPS, alike=st.booleans())
def test_each_gang_has_the_best_cards_of_those_that_were_idle(
    one: list[Gpu], other: list[Gpu], steps: list[tuple[str, int, int]], alike: bool
) -> None:
    histories = []
    for _ in range(2):
        world = World([one, one if alike else other])
        for step in steps:
            world.step(*step)
        histories.append(world.held)
    assert histories[0] == histories[1]
