"""Any history of locks: one pod at a time on its way to each plugin, and all pods get there."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from kubeshare_py.domain.effects import Bind, Effect, WriteObject
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    BindUnknown,
    Bound,
    NodeSeen,
    NodesListed,
    ObjectWritten,
    PodGone,
    PodSeen,
    PodsListed,
    TimePassed,
    WriteOutcome,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.node import NodeLock
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.storage import LockNode
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import FREE, a_cluster, a_machine, a_share
from tests.scale import seeds

NODES = ("n1", "n2")
STRANGER = "stranger"


@dataclass
class Cluster:
    """The cluster as it is: locks with their owners, pods bound, plugins; news that is on its way.

    A plugin gives its devices to the pod that the lock names. `problems` are what must not be.
    """

    rng: Random
    owners: dict[str, str] = field(default_factory=lambda: dict.fromkeys(NODES, ""))
    pods: dict[PodUid, Pod] = field(default_factory=dict)
    allocating: dict[str, str] = field(default_factory=dict)
    allocated: set[str] = field(default_factory=set)
    news: list[Pod | PodGone | tuple[str, NodeLock]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    bound: Counter[str] = field(default_factory=Counter)

    def lock(self, node: str) -> NodeLock:
        owner = self.owners[node]
        if not owner:
            return FREE
        return replace(FREE, text=f"since,default,{owner}", owner=PodKey("default", owner))

    def put_owner(self, node: str, owner: str) -> None:
        self.owners[node] = owner
        self.news.append((node, self.lock(node)))

    def take(self, write: LockNode) -> bool:
        """The API server's answer to a write."""
        if self.owners[write.node]:
            return False
        self.put_owner(write.node, write.pod)
        return True

    def bind(self, bind: Bind) -> None:
        """A Binding is stored: from now on the kubelet asks the plugin for this pod."""
        name = bind.key.name
        if bind.uid not in self.pods or self.pods[bind.uid].node_name is not None:
            return
        if self.owners[bind.node] != name:
            self.problems.append(f"{name} is bound without the lock of {bind.node}")
        if bind.node in self.allocating:
            self.problems.append(f"{name} and {self.allocating[bind.node]} are on their way")
        self.bound[name] += 1
        pod = replace(self.pods[bind.uid], node_name=bind.node, allocation=bind.allocation)
        self.pods[bind.uid] = pod
        self.allocating[bind.node] = name
        self.news.append(pod)

    def allocate(self, node: str) -> None:
        """The plugin gives a pod its devices, and frees the lock."""
        name = self.allocating.pop(node, None)
        if name is None:
            return
        if self.owners[node] != name:
            self.problems.append(f"the plugin of {node} finds {self.owners[node]} and not {name}")
        self.allocated.add(name)
        self.put_owner(node, "")

    def tidy(self, node: str, coming: set[str]) -> None:
        """Who watches over locks frees those whose pods are gone, or will not come there."""
        owner = self.owners[node]
        if owner and self.allocating.get(node) != owner and owner not in coming:
            self.put_owner(node, "")

    def delete(self, uid: PodUid) -> None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        for node, name in [*self.allocating.items()]:
            if name == pod.key.name:
                del self.allocating[node]
        self.news.append(PodGone(uid, stopped=True))


class History:
    """A scheduler and the cluster; requests are answered in any order, news comes in order."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.cluster = Cluster(self.rng)
        self.now = 0.0
        self.requests: list[Effect] = []
        self.count = self.starts = 0
        self.machine = self._new_machine()
        self.effects: list[str] = []

    def _new_machine(self) -> Machine:
        self.starts += 1
        machine = a_machine(None, name=f"test-{self.starts}")
        for event in a_cluster(dict.fromkeys(NODES, 2), locks=(FREE,)):
            machine.handle(event, self.now)
        return machine

    def tell(self, *events: object) -> None:
        for event in events:
            for effect in self.machine.handle(event, self.now):  # type: ignore[arg-type]
                self.effects.append(repr(effect))
                if isinstance(effect, Bind | WriteObject):
                    self.requests.append(effect)

    def decide(self) -> None:
        for _ in range(50):
            self.tell(BindSlotsFree(self.rng.randint(1, 8)))
            wake_at = self.machine.wake_at(self.now)
            if wake_at is None or wake_at > self.now:
                return

    def hear(self) -> None:
        """The watches show the oldest news."""
        if not self.cluster.news:
            return
        news = self.cluster.news.pop(0)
        if isinstance(news, Pod):
            self.tell(PodSeen(news))
        elif isinstance(news, PodGone):
            self.tell(news)
        else:
            node, lock = news
            columns = self.machine.ledger.columns
            known = columns.nodes[columns.row_of[NodeName(node)]]
            assert known is not None
            self.tell(NodeSeen(replace(known, locks=(lock,))))

    def answer(self, *, faults: bool = True) -> None:
        """The API server answers any request."""
        if not self.requests:
            return
        effect = self.requests.pop(self.rng.randrange(len(self.requests)))
        is_lost = faults and self.rng.random() < 0.2
        is_done = not is_lost or self.rng.random() < 0.5
        if isinstance(effect, Bind):
            if is_done:
                self.cluster.bind(effect)
            outcome = BindUnknown("lost") if is_lost else Bound()
            self.tell(BindAnswered(effect.uid, effect.allocation.token, outcome))
            return
        assert isinstance(effect, WriteObject)
        assert isinstance(effect.write, LockNode)
        taken = is_done and self.cluster.take(effect.write)
        answer = WriteOutcome.DONE if taken else WriteOutcome.STALE
        if is_lost:
            answer = WriteOutcome.UNKNOWN
        self.tell(ObjectWritten(effect.uid, effect.token, effect.write, answer))

    def add(self) -> None:
        self.count += 1
        pod = a_share(f"p{self.count}", self.rng.choice([100, 250, 500]))
        self.cluster.pods[pod.uid] = pod
        self.cluster.news.append(pod)

    def restart(self) -> None:
        """A new scheduler lists everything; requests of the former one are lost or stored."""
        for effect in self.requests:
            if isinstance(effect, Bind) and self.rng.random() < 0.5:
                self.cluster.bind(effect)
        self.requests.clear()
        self.cluster.news.clear()
        self.machine = self._new_machine()
        columns = self.machine.ledger.columns
        nodes = [one for one in columns.nodes if one is not None]
        shown = tuple(replace(one, locks=(self.cluster.lock(one.name),)) for one in nodes)
        self.tell(NodesListed(shown), PodsListed(tuple(self.cluster.pods.values()), self.now))

    def coming(self) -> set[str]:
        """Pods that may be bound yet: the scheduler has not given their turn up."""
        known = self.machine.records.values()
        asked = {effect.key.name for effect in self.requests if isinstance(effect, Bind)}
        placed = (PodState.PREBINDING, PodState.ASSUMED)
        return asked | {one.pod.key.name for one in known if one.state in placed}

    def step(self) -> None:
        way = self.rng.random()
        node = self.rng.choice(NODES)
        self.now += self.rng.choice([0.0, 0.01, 0.1, 1.0])
        if way < 0.15:
            self.add()
        elif way < 0.45:
            self.hear()
        elif way < 0.65:
            self.answer()
        elif way < 0.8:
            self.cluster.allocate(node)
        elif way < 0.84 and self.cluster.pods:
            self.cluster.delete(self.rng.choice([*self.cluster.pods]))
        elif way < 0.88:
            self.cluster.tidy(node, self.coming())
        elif way < 0.9 and not self.cluster.owners[node]:
            self.cluster.put_owner(node, STRANGER)
        elif way < 0.92:
            self.restart()
        else:
            self.now += self.rng.choice([1.0, 3.0])
        self.tell(TimePassed())
        self.decide()

    def settle(self) -> None:
        """Nothing goes wrong any more: news and answers come, plugins answer."""
        for _ in range(300):
            self.now += 1.0
            while self.cluster.news:
                self.hear()
            while self.requests:
                self.answer(faults=False)
            for node in NODES:
                self.cluster.allocate(node)
                self.cluster.tidy(node, self.coming())
            self.tell(TimePassed())
            self.decide()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(60))
def test_one_pod_at_a_time_is_on_its_way_and_none_is_forgotten(seed: int) -> None:
    history = History(seed)
    for _ in range(250):
        history.step()
    history.settle()
    assert history.cluster.problems == []
    waiting = [pod.key.name for pod in history.cluster.pods.values() if pod.node_name is None]
    full = 2 * len(NODES) * 1000
    held = sum(
        card.milli
        for pod in history.cluster.pods.values()
        if pod.allocation is not None
        for card in pod.allocation.cards
    )
    least = min((pod.shape.claim.milli for pod in history.cluster.pods.values()
                 if pod.node_name is None and pod.shape.claim), default=0)  # fmt: skip
    assert not waiting or full - held < 4 * least, f"{waiting} wait beside {full - held} free"
    assert max(history.cluster.bound.values(), default=0) <= 1
    assert len(history.machine.pre_binds) == 0


@pytest.mark.slow
def test_the_same_history_has_the_same_effects() -> None:
    lived = []
    for _ in range(2):
        history = History(7)
        for _ in range(250):
            history.step()
        lived.append(history.effects)
    assert lived[0] == lived[1]
