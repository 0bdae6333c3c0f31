"""kube-scheduler's preemption of pods without GPUs, written down the plain way.

After pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode) and
pkg/scheduler/framework/preemption (pickOneNodeForPreemption) of 1.36. Pods ask for cpu, memory and
a place on the node; nothing else decides.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kubeshare_py.domain.cluster_objects import Budget
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod

_MAX_INT32 = (1 << 31) - 1
#: kube-scheduler takes the present as the start of pods that have not started.
_NOW = "9999"


@dataclass(frozen=True)
class KubeCandidate:
    """A node, and its victims from the most important one down."""

    node: NodeName
    victims: tuple[Pod, ...]
    violations: int

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """What is compared first: the lowest is best."""
        total = sum(pod.priority + _MAX_INT32 + 1 for pod in self.victims)
        return self.violations, self.victims[0].priority, total, len(self.victims)

    @property
    def start(self) -> str:
        """The earliest start among the victims of the highest priority: the latest is best."""
        highest = max(pod.priority for pod in self.victims)
        return min(start_of(pod) for pod in self.victims if pod.priority == highest)


@dataclass
class KubeCluster:
    """Nodes, bound pods by node, and budgets."""

    nodes: list[Node] = field(default_factory=list)
    pods: dict[NodeName, list[Pod]] = field(default_factory=dict)
    budgets: list[Budget] = field(default_factory=list)

    def fits(self, pod: Pod, node: Node, there: Collection[Pod]) -> bool:
        """Whether the pod fits beside these pods."""
        return all(
            amount <= dict(node.allocatable).get(name, 0) - sum(needs(one)[name] for one in there)
            for name, amount in needs(pod).items()
            if amount
        )

    def fits_somewhere(self, pod: Pod) -> bool:
        """Whether the pod needs no victims."""
        return any(
            self.may_go_to(pod, node) and self.fits(pod, node, self.pods[node.name])
            for node in self.nodes
        )

    def may_go_to(self, pod: Pod, node: Node) -> bool:
        """Whether evictions could help there: no taint, selector or size rules the node out."""
        labels = dict(node.labels)
        return (
            not node.unschedulable
            and all(labels.get(key) == value for key, value in pod.shape.node_selector)
            and self.fits(pod, node, ())
        )

    def candidates(self, pod: Pod) -> list[KubeCandidate]:
        """The nodes where evictions would help, each with the victims that would go."""
        if not pod.preempts or self.fits_somewhere(pod):
            return []
        able = [node for node in self.nodes if self.may_go_to(pod, node)]
        found = (self._on(pod, node) for node in able)
        return [one for one in found if one is not None]

    def best(self, pod: Pod) -> list[KubeCandidate]:
        """The candidates of which kube-scheduler takes one: they differ in nothing it compares."""
        candidates = self.candidates(pod)
        least = min((one.rank for one in candidates), default=None)
        candidates = [one for one in candidates if one.rank == least]
        latest = max((one.start for one in candidates), default="")
        return [one for one in candidates if one.start == latest]

    def _on(self, pod: Pod, node: Node) -> KubeCandidate | None:
        there = self.pods[node.name]
        lower = sorted((one for one in there if one.priority < pod.priority), key=importance)
        staying = [one for one in there if one not in lower]
        if not lower or not self.fits(pod, node, staying):
            return None
        violating = self._violating(lower)
        victims, violations = [], 0
        for one in (*violating, *(one for one in lower if one not in violating)):
            if self.fits(pod, node, [*staying, one]):
                staying.append(one)
            else:
                victims.append(one)
                violations += one in violating
        return KubeCandidate(node.name, tuple(sorted(victims, key=importance)), violations)

    def _violating(self, pods: Sequence[Pod]) -> list[Pod]:
        """The pods whose eviction a budget does not allow, the most important ones first."""
        left = [budget.allowed for budget in self.budgets]
        return [pod for pod in pods if self._violates(pod, left)]

    def _violates(self, pod: Pod, left: list[int]) -> bool:
        is_violated = False
        for number, budget in enumerate(self.budgets):
            if budget.covers(pod.key, pod.labels) and pod.key.name not in budget.disrupted:
                left[number] -= 1
                is_violated |= left[number] < 0
        return is_violated


def needs(pod: Pod) -> Mapping[str, int]:
    """What a pod takes of its node."""
    asked = dict(pod.shape.resources)
    return {"cpu": asked.get("cpu", 0), "memory": asked.get("memory", 0), "pods": 1}


def start_of(pod: Pod) -> str:
    """When it started."""
    return pod.started or _NOW + pod.created


def importance(pod: Pod) -> tuple[int, str]:
    """Sorts the most important pods first."""
    return -pod.priority, start_of(pod)
