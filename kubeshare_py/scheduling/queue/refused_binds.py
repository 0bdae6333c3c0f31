"""Pods that the API server refuses to bind: to which nodes, and how soon they are tried again.

A policy or a webhook may refuse one node, all nodes to one pod, or, like a missing right, every
Binding. Nothing says which of these it is. So after some refusals of a node the pod is tried on
others for a while, and all such pods together send few Bindings a second.
"""

from dataclasses import dataclass, field

from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.printable import listed
from kubeshare_py.scheduling.queue.timers import Timers

#: After so many refusals of a node, the pod is tried on others, for so long (s) since the last one.
#: The first may be due to a policy that has just changed.
MOST_REFUSALS, AVOIDED_S = 2, 300.0
#: The most nodes that are avoided for one pod; with another one, the oldest is tried again.
MOST_AVOIDED = 16
#: The most pods a second that are tried again after a refusal.
RETRIES_A_SECOND = 20


@dataclass(slots=True)
class NodeRefusals:
    """How often a pod was refused for a node, until when (s) that counts, and the last answer."""

    times: int
    until: float
    answer: str

    @property
    def is_avoided(self) -> bool:
        """Whether the pod is tried on other nodes."""
        return self.times >= MOST_REFUSALS


@dataclass(slots=True)
class RefusedPod:
    """A pod that was refused lately: until when (s) that counts, and for which nodes."""

    until: float
    nodes: dict[NodeName, NodeRefusals] = field(default_factory=dict)


class RefusedBinds:
    """The pods whose Bindings were refused lately."""

    def __init__(self) -> None:
        #: To be read: empty, so that nothing is asked about plain pods, unless there are any.
        self.pods: dict[PodUid, RefusedPod] = {}
        self._ends: Timers[PodUid] = Timers()

    @property
    def next_at(self) -> float:
        """When (s) a refusal may be over; infinity if there is none."""
        return self._ends.next_at

    @property
    def pause_s(self) -> float:
        """The shortest pause (s) before a refused pod is tried again, given how many there are."""
        return len(self.pods) / RETRIES_A_SECOND

    def refused(self, uid: PodUid, now: float) -> None:
        """A Binding was refused, and would be for any node."""
        self._noted(uid, now)

    def refused_for(self, uid: PodUid, node: NodeName, answer: str, now: float) -> None:
        """A Binding was refused, perhaps because of its node; `answer` is the API server's."""
        nodes = self._noted(uid, now).nodes
        before = nodes.pop(node, None)
        nodes[node] = NodeRefusals(1 + (before.times if before else 0), now + AVOIDED_S, answer)
        if len(nodes) > MOST_AVOIDED:
            del nodes[next(iter(nodes))]

    def avoided(self, uid: PodUid) -> tuple[NodeName, ...]:
        """The nodes that a pod is not to be placed on, sorted."""
        return tuple(sorted(node for node, one in self.of(uid).items() if one.is_avoided))

    def in_words(self, uid: PodUid) -> str:
        """Which nodes are avoided, with the API server's last answer; "" if none are."""
        nodes = [node for node, one in self.of(uid).items() if one.is_avoided]
        if not nodes:
            return ""
        answer = self.of(uid)[nodes[-1]].answer
        where = listed(sorted(nodes))
        return f"The API server refused to bind it to {where}: {answer.rstrip('.')}."

    def of(self, uid: PodUid) -> dict[NodeName, NodeRefusals]:
        """The nodes that were refused to a pod lately, the latest last; to be read."""
        found = self.pods.get(uid)
        return {} if found is None else found.nodes

    def ended(self, now: float) -> list[PodUid]:
        """Forget refusals that are over; the pods that had nodes to avoid and have fewer."""
        freed = []
        for uid in self._ends.due(now):
            pod = self.pods.get(uid)
            if pod is None:
                continue
            over = [node for node, one in pod.nodes.items() if one.until <= now]
            if any(pod.nodes[node].is_avoided for node in over):
                freed.append(uid)
            for node in over:
                del pod.nodes[node]
            if pod.until <= now:
                del self.pods[uid]
            else:
                dues = (one.until for one in pod.nodes.values())
                self._ends.add(min(dues, default=pod.until), uid)
        return freed

    def forget(self, uid: PodUid) -> None:
        """The pod is bound, or gone."""
        self.pods.pop(uid, None)

    def _noted(self, uid: PodUid, now: float) -> RefusedPod:
        until = now + AVOIDED_S
        pod = self.pods.get(uid)
        if pod is None:
            pod = self.pods[uid] = RefusedPod(until)
            self._ends.add(until, uid)
        pod.until = until
        return pod
