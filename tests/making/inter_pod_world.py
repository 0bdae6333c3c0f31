"""Histories of pods that ask something about each other, and books that judge every placement.

The books know nothing of counts and columns: they ask the definitions (`inter_pod_model`), one
placement after the other, and add up what pods hold of each node.
"""

from random import Random
from typing import Any

from kubeshare_py.domain.cluster_objects import Labels, NamespaceObject, Requirement, WatchedKind
from kubeshare_py.domain.effects import Bind, Effect, Evict
from kubeshare_py.domain.events import (
    BindAnswered,
    BindRefused,
    BindSlotsFree,
    Bound,
    InventoryRead,
    NodeSeen,
    NodesListed,
    ObjectSeen,
    ObjectsListed,
    PodGone,
    PodSeen,
    PodsListed,
    Refusal,
    TimePassed,
)
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import (
    AffinityTerm,
    HostPort,
    InterPodTerms,
    Pod,
    PodGroup,
    PodSelector,
    SpreadConstraint,
)
from kubeshare_py.domain.values import replace
from tests.making import a_machine, a_node, a_pod, a_shape
from tests.plugins.kubernetes.inter_pod_model import Model, ModelNode, ModelPod

HOST, ZONE = "kubernetes.io/hostname", "zone"
NODES = ("n1", "n2", "n3", "n4")
CPU, PODS = 10_000, 7
APPS, NAMESPACES = ("web", "db"), ("a", "b")


class InterPodWorld:
    """A machine, what the API server would show, and the books."""

    def __init__(self, seed: int, *, preempts: bool = False) -> None:
        self.random = Random(seed)
        document = {"profiles": [{"schedulerName": "kubeshare-scheduler"}]} if preempts else None
        self.machine = a_machine(document)
        self.preempts = preempts
        self.now = 0.0
        self.count = 0
        self.zones = {name: "east" if name < "n3" else "west" for name in NODES}
        self.teams = dict.fromkeys(NAMESPACES, "x")
        self.stored: dict[PodUid, Pod] = {}
        self.sent: list[Bind] = []
        #: Where pods are or will be: from their Bind on until they are gone.
        self.placed: dict[PodUid, tuple[str, Pod]] = {}
        #: Pods that are evicted, which the watch does not show yet.
        self.victims: dict[PodUid, None] = {}
        self.placements = self.evictions = 0
        self.tell(PodsListed((), 0.0))
        self.tell(NodesListed(tuple(self.node(name) for name in NODES)))
        self.tell(InventoryRead(()))
        self.tell(ObjectsListed(WatchedKind.NAMESPACE, tuple(map(self.namespace, NAMESPACES))))

    def node(self, name: str) -> Node:
        return a_node(name, labels={HOST: name, ZONE: self.zones[name]}, cpu=CPU, pods=PODS)

    def namespace(self, name: str) -> NamespaceObject:
        return NamespaceObject(name=name, labels=(("team", self.teams[name]),))

    # --- the books -----------------------------------------------------------------------------

    def model(self, without: PodUid | None = None) -> Model:
        nodes = [ModelNode(name, {HOST: name, ZONE: self.zones[name]}) for name in NODES]
        placed = [
            (node, as_model(pod)) for uid, (node, pod) in self.placed.items() if uid != without
        ]
        return Model(nodes, placed, {name: {"team": team} for name, team in self.teams.items()})

    def refusal(self, pod: Pod, name: str) -> str | None:
        """Why a pod may not go to a node, as the books know the cluster."""
        there = [one for node, one in self.placed.values() if node == name]
        if len(there) >= PODS:
            return "too many pods"
        if sum(map(cpu_of, there)) + cpu_of(pod) > CPU:
            return "cpu"
        ports = [port for one in there for port in one.shape.host_ports]
        if any(port.conflicts(other) for port in pod.shape.host_ports for other in ports):
            return "ports"
        model = self.model()
        node = next(one for one in model.nodes if one.name == name)
        asked = as_model(pod)
        return model.refusal(asked, node) or model.skew_refusal(asked, node)

    def tell(self, event: object) -> list[Effect]:
        effects = self.machine.handle(event, self.now)  # type: ignore[arg-type]
        for effect in effects:
            if isinstance(effect, Bind):
                pod = self.stored[effect.uid]
                if effect.uid not in self.placed:
                    assert self.refusal(pod, effect.node) is None, (pod, effect.node)
                    self.placed[effect.uid] = (effect.node, pod)
                    self.placements += 1
                assert self.placed[effect.uid][0] == effect.node
                self.sent.append(effect)
            elif isinstance(effect, Evict):
                self.evict(effect)
        return effects

    def evict(self, effect: Evict) -> None:
        """A victim is to leave; the watch shows some steps later that it does."""
        self.evictions += 1
        self.victims[effect.uid] = None

    # --- what happens --------------------------------------------------------------------------

    def step(self) -> None:
        random = self.random
        self.now += random.choice((0.0, 0.1, 1.5))
        random.choice(
            (
                self.create,
                self.create,
                self.create,
                self.create_gang,
                self.delete,
                self.answer,
                self.answer,
                self.move_zone,
                self.move_team,
                self.terminate,
                self.leave,
                self.relabel,
            )
        )()
        if random.random() < 0.6:
            self.tell(BindSlotsFree(64))

    def selector(self) -> PodSelector:
        random = self.random
        lines = (Requirement("app", "In", (random.choice(APPS),)),)
        if random.random() < 0.2:
            lines = (Requirement("app", random.choice(("Exists", "DoesNotExist"))),)
        kind = random.random()
        if kind < 0.2:
            return PodSelector((), lines, (Requirement("team", "In", ("x",)),))
        return PodSelector(("a", "b") if kind < 0.4 else (random.choice(NAMESPACES),), lines)

    def pod(self, group: PodGroup | None = None, namespace: str = "") -> Pod:
        random = self.random
        self.count += 1
        namespace = namespace or random.choice(NAMESPACES)
        labels: Labels = (("app", random.choice(APPS)),) if random.random() < 0.8 else ()
        labels += (("pod", str(self.count)),) if random.random() < 0.3 else ()
        terms = [
            AffinityTerm(self.selector(), random.choice((HOST, ZONE)))
            for _ in range(random.choice((0, 0, 1, 1, 2)))
        ]
        near = [term for term in terms if random.random() < 0.4]
        far = [term for term in terms if term not in near]
        own = Requirement("app", "In", (random.choice(APPS),))
        spread = [
            SpreadConstraint(
                max_skew=random.choice((1, 2)),
                topology_key=random.choice((HOST, ZONE)),
                selector=PodSelector((namespace,), (own,)),
                hard=True,
                min_domains=random.choice((1, 1, 2)),
            )
            for _ in range(random.choice((0, 0, 0, 1)))
        ]
        asks = near or far or spread
        terms_of_pod = InterPodTerms(
            namespace=namespace,
            labels=labels,
            affinity=tuple(near),
            anti_affinity=tuple(far),
            spread=tuple(spread),
        )
        port = (HostPort(random.choice((80, 81))),) if random.random() < 0.2 else ()
        shape = a_shape(
            cpu=random.choice((0, 1000, 4000)),
            inter_pod=terms_of_pod if asks else None,
            host_ports=port,
        )
        name = f"p{self.count}"
        priority = random.choice((0, 0, 10)) if self.preempts else 0
        pod = a_pod(name, shape, labels=labels, priority=priority, group=group)
        return replace(pod, key=PodKey(namespace, name))

    def show(self, pod: Pod) -> None:
        self.stored[pod.uid] = pod
        self.tell(PodSeen(pod))

    def create(self) -> None:
        self.show(self.pod())

    def create_gang(self) -> None:
        size = self.random.choice((2, 3))
        group = PodGroup(name=f"g{self.count}", headcount=size, min_available=size)
        namespace = self.random.choice(NAMESPACES)
        for _ in range(size):
            self.show(self.pod(group, namespace))

    def some(self, uids: list[PodUid]) -> PodUid | None:
        return self.random.choice(uids) if uids else None

    def delete(self) -> None:
        uid = self.some([*self.stored])
        if uid is not None:
            self.gone(uid)

    def terminate(self) -> None:
        """The watch shows that a victim is being deleted, or any other pod that has a place."""
        uid = self.some([*self.victims] or [*self.placed])
        if uid is not None:
            self.victims.pop(uid, None)
            self.edit(uid, deleting=True)

    def relabel(self) -> None:
        """A pod has other labels from now on."""
        uid = self.some([*self.stored])
        if uid is None:
            return
        labels: Labels = (("app", self.random.choice(APPS)),) if self.random.random() < 0.8 else ()
        shape = self.stored[uid].shape
        if shape.inter_pod is not None:
            shape = replace(shape, inter_pod=replace(shape.inter_pod, labels=labels))
        self.edit(uid, labels=labels, shape=shape)

    def edit(self, uid: PodUid, **fields: Any) -> None:
        """Change a pod; what others see of one that is being bound changes once it is bound."""
        pod = replace(self.stored[uid], **fields)
        if pod.node_name is not None:
            self.placed[uid] = (pod.node_name, pod)
        self.show(pod)

    def leave(self) -> None:
        """A victim has left."""
        uid = self.some([uid for uid, (_, pod) in self.placed.items() if pod.deleting])
        if uid is not None:
            self.gone(uid)

    def gone(self, uid: PodUid) -> None:
        del self.stored[uid]
        self.victims.pop(uid, None)
        self.placed.pop(uid, None)
        self.sent = [bind for bind in self.sent if bind.uid != uid]
        self.tell(PodGone(uid, stopped=True))

    def answer(self) -> None:
        if not self.sent:
            return
        bind = self.sent.pop(self.random.randrange(len(self.sent)))
        # A member of a gang keeps its place when it is refused, and its Binding is sent again.
        alone = bind.uid in self.stored and self.stored[bind.uid].group is None
        refused = alone and self.random.random() < 0.1
        if refused:
            self.placed.pop(bind.uid, None)
            outcome: Bound | BindRefused = BindRefused(Refusal.INVALID, "no")
        else:
            outcome = Bound()
        self.tell(BindAnswered(bind.uid, bind.allocation.token, outcome))
        if not refused and bind.uid in self.stored:
            self.bound(bind)

    def bound(self, bind: Bind) -> None:
        """The watch shows the pod bound, as it is by then."""
        pod = replace(self.stored[bind.uid], node_name=bind.node, allocation=bind.allocation)
        self.placed[bind.uid] = (bind.node, pod)
        self.show(pod)

    def move_zone(self) -> None:
        name = self.random.choice(NODES)
        self.zones[name] = self.random.choice(("east", "west"))
        self.tell(NodeSeen(self.node(name)))

    def move_team(self) -> None:
        name = self.random.choice(NAMESPACES)
        self.teams[name] = self.random.choice(("x", "y"))
        self.tell(ObjectSeen(self.namespace(name)))

    def settle(self) -> None:
        """Answer everything, and let all backoffs and pauses end."""
        for _ in range(12):
            while self.sent:
                bind = self.sent.pop(0)
                self.tell(BindAnswered(bind.uid, bind.allocation.token, Bound()))
                if bind.uid in self.stored:
                    self.bound(bind)
            leaving = [uid for uid, (_, pod) in self.placed.items() if pod.deleting]
            for uid in {**self.victims, **dict.fromkeys(leaving)}:
                self.gone(uid)
            self.now += 120.0
            for _ in range(6):
                self.tell(TimePassed())
                self.tell(BindSlotsFree(64))

    def waiting(self) -> list[Pod]:
        """Pods without a place that are in no gang."""
        return [
            pod
            for uid, pod in self.stored.items()
            if uid not in self.placed and pod.group is None and not pod.deleting
        ]


def cpu_of(pod: Pod) -> int:
    return dict(pod.shape.resources).get("cpu", 0)


def as_model(pod: Pod) -> ModelPod:
    terms = pod.shape.inter_pod
    return ModelPod(pod.key.namespace, dict(pod.labels), terms, terminating=pod.deleting)
