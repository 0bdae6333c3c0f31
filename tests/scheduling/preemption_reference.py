"""Books about preemption: who may go for whom, and for whom nobody need go, the plain way.

Works on the books of the other properties: a plan is judged without asking the machine anything.
"""

import copy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.domain.cluster_objects import Budget
from kubeshare_py.domain.effects import PreemptionPlan
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from tests.scheduling.reference_model import ReferenceModel

Key = tuple[int, ...]


@dataclass
class PreemptionReference(ReferenceModel):
    """`budgets` are as the API server shows them; groups are told apart by name alone."""

    budgets: list[Budget] = field(default_factory=list)

    def without(self, uids: Collection[PodUid]) -> "PreemptionReference":
        """The same cluster when these pods are gone."""
        trial = copy.copy(self)
        trial.held = {uid: held for uid, held in self.held.items() if uid not in uids}
        return trial

    def fits_on(self, pod: Pod, name: NodeName) -> bool:
        """Whether the pod could go to this node."""
        trial = copy.copy(self)
        trial.nodes = {name: self.nodes[name]}
        return trial.fits_somewhere(pod) is not None

    def may_go(self, pod: Pod, preemptor: Pod) -> bool:
        """By priority, and by the label only among neighbours."""
        if pod.scheduler_name != SCHEDULER_NAME or pod.deleting or pod.uid not in self.held:
            return False
        if pod.priority != preemptor.priority:
            return pod.priority < preemptor.priority
        neighbours = pod.key.namespace == preemptor.key.namespace
        return neighbours and pod.label_priority <= 0 < preemptor.label_priority

    def members(self, name: str) -> list[Pod]:
        """The bound pods of a group that stay."""
        found = [self.pods[uid] for uid in self.held]
        return [pod for pod in found if pod.group and pod.group.name == name and not pod.deleting]

    def gangs_are_whole(self, gone: Collection[PodUid]) -> bool:
        """Whether every gang that has members left has as many as it must."""
        groups = {pod.group for uid in gone if (pod := self.pods[uid]).group is not None}
        for group in groups:
            assert group is not None
            left = [pod for pod in self.members(group.name) if pod.uid not in gone]
            if left and len(left) < group.min_available:
                return False
        return True

    def units(self, gone: Collection[PodUid]) -> Iterator[set[PodUid]]:
        """Who could be spared on its own: a pod, or the gang of which it is one."""
        seen: set[str] = set()
        for uid in sorted(gone):
            group = self.pods[uid].group
            if group is None or self.gangs_are_whole({*gone} - {uid}):
                yield {uid}
            elif group.name not in seen:
                seen.add(group.name)
                yield {pod.uid for pod in self.members(group.name)} & {*gone}

    def expect_right(self, plan: PreemptionPlan, pods: Sequence[Pod]) -> None:
        """All that must hold of every plan."""
        gone = {victim.uid for victim in plan.victims}
        lowest = min(pods, key=lambda pod: (pod.priority, pod.label_priority > 0))
        for uid in gone:
            assert self.may_go(self.pods[uid], lowest), f"{uid} need not give way"
        assert self.gangs_are_whole(gone), "a gang was left below its minimum"
        room = self.without(gone | {*plan.awaited})
        assert len(plan.nominations) == len(pods)
        for place in plan.nominations:
            pod = next(pod for pod in pods if pod.uid == place.uid)
            assert room.node_refusal(pod, place.node) is None
            left, places = [*place.cards], []
            for claim in pod.shape.claims:
                cards, left = tuple(left[: claim.count]), left[claim.count :]
                assert len({*cards}) == claim.count
                assert all(room.card(place.node, uuid, claim) for uuid in cards)
                places.append(cards)
            assert not left
            assert room.take_what_is_free(pod, place.node, [*places])
            room.held[pod.uid] = room.holding_there(pod, place.node, [*places])

    # --- one pod, by brute force ---------------------------------------------------------------

    def expect_lean(self, plan: PreemptionPlan, pod: Pod) -> None:
        """Nobody on the node of the plan could be spared."""
        gone = {victim.uid for victim in plan.victims}
        node = plan.nominations[0].node
        for unit in self.units(gone):
            left = (gone | {*plan.awaited}) - unit
            assert not self.without(left).fits_on(pod, node), f"{unit} could stay"

    def possible(self, pod: Pod) -> bool:
        """Whether the pod would fit with everybody gone who may go."""
        all_gone = [one for one in self.pods.values() if self.may_go(one, pod)]
        for count in range(len(all_gone) + 1):
            for some in combinations(all_gone, count):
                gone = {one.uid for one in some}
                if self.gangs_are_whole(gone) and self.without(gone).fits_somewhere(pod):
                    return True
        return False

    def kubernetes(self, pod: Pod) -> list[tuple[Key, list[Pod]]]:
        """What kube-scheduler would do on each node, for clusters without gangs."""
        found = []
        for name in sorted(self.nodes):
            there = [self.pods[uid] for uid, held in self.held.items() if held.node == name]
            may_go = sorted((one for one in there if self.may_go(one, pod)), key=importance)
            if not self.without([one.uid for one in may_go]).fits_on(pod, name):
                continue
            violating = self.violating(may_go)
            order = [one for one in may_go if one.uid in violating]
            order += [one for one in may_go if one.uid not in violating]
            gone = list(order)
            for one in order:
                left = [other.uid for other in gone if other is not one]
                if self.without(left).fits_on(pod, name):
                    gone.remove(one)
            found.append((self.cost(gone, violating), gone))
        return found

    def violating(self, pods: Sequence[Pod]) -> set[PodUid]:
        """Whose eviction a budget would not allow, the most important first."""
        left = {budget.key: budget.allowed for budget in self.budgets}
        found = set()
        for pod in sorted(pods, key=importance):
            for budget in self.budgets:
                if budget.covers(pod.key, pod.labels):
                    left[budget.key] -= 1
                    if left[budget.key] < 0:
                        found.add(pod.uid)
                        break
        return found

    def cost(self, pods: Sequence[Pod], violating: Collection[PodUid]) -> Key:
        """kube-scheduler's order of nodes."""
        if not pods:
            return (0,)
        highest = max(pod.priority for pod in pods)
        first = min(int(pod.created) for pod in pods if pod.priority == highest)
        total = sum(pod.priority + (1 << 31) for pod in pods)
        return sum(pod.uid in violating for pod in pods), highest, total, len(pods), -first


def importance(pod: Pod) -> tuple[int, int, int, PodUid]:
    """Sorts the most important pods first."""
    return -pod.priority, -pod.label_priority, int(pod.created), pod.uid
