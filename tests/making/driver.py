"""A machine in a cluster of nodes with cards: events go in, and effects are kept by kind."""

from collections.abc import Iterable
from typing import Any, TypeVar

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import (
    Bind,
    Effect,
    Evict,
    Nominate,
    Preempt,
    ReportPodWarning,
    ReportWaiting,
    WriteObject,
)
from kubeshare_py.domain.events import (
    AnyObject,
    BindAnswered,
    BindOutcome,
    BindSlotsFree,
    Bound,
    InventoryRead,
    NodeSeen,
    ObjectSeen,
    ObjectWritten,
    PodGone,
    PodSeen,
    WriteOutcome,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.node import Node, NodeLock
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.storage import LockNode
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.machine import Machine, MachineEvent
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from tests.making.values import GIB, a_claim, a_cluster, a_machine, a_pod, a_shape, some_gpus

#: Node and index of each card.
Cards = set[tuple[str, int]]
_Effect = TypeVar("_Effect")


def of(kind: type[_Effect], effects: Iterable[Effect]) -> list[_Effect]:
    """The effects of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def names(binds: Iterable[Bind]) -> list[str]:
    """Which pods are bound, sorted."""
    return sorted(bind.key.name for bind in binds)


class Driver:
    """Nodes with so many cards each, and a machine that knows them. `now` is the test's to set.

    For None it has read no lists yet. What it asked for so far is in `effects`, and by kind in
    the lists below.
    """

    def __init__(
        self,
        cards: dict[str, int] | None,
        document: object = None,
        rules: RepairRules | None = None,
        machine: Machine | None = None,
        **node_fields: Any,
    ) -> None:
        self.machine = machine or a_machine(document, rules)
        self.now = 0.0
        self.effects: list[Effect] = []
        self.binds: list[Bind] = []
        #: The last message of each pod, by name.
        self.told: dict[str, str] = {}
        #: Pods with a warning, by name.
        self.troubles: list[str] = []
        #: Pods that were asked to go, by name, and the text for their owners.
        self.evicted: list[str] = []
        self.notes: list[str] = []
        #: The node that is nominated for a pod, by name.
        self.nominated: dict[str, str | None] = {}
        self.plans: list[Preempt] = []
        self.writes: list[WriteObject] = []
        if cards is not None:
            self.tell(*a_cluster(cards, **node_fields))

    # --- events in, effects out -----------------------------------------------------------------

    def tell(self, *events: MachineEvent) -> list[Effect]:
        """What the machine asks for because of these events."""
        effects = [effect for event in events for effect in self.machine.handle(event, self.now)]
        self.effects += effects
        for effect in effects:
            match effect:
                case Bind():
                    self.binds.append(effect)
                case ReportWaiting(key=key, diagnosis=diagnosis):
                    self.told[key.name] = diagnosis.message
                case ReportPodWarning(key=key):
                    self.troubles.append(key.name)
                case Evict(key=key, note=note):
                    self.evicted.append(key.name)
                    self.notes.append(note)
                case Nominate(key=key, node=node):
                    self.nominated[key.name] = node
                case Preempt():
                    self.plans.append(effect)
                case WriteObject():
                    self.writes.append(effect)
                case _:
                    pass
        return effects

    def decide(self, slots: int = 64) -> list[Bind]:
        """One iteration; what it binds."""
        return of(Bind, self.tell(BindSlotsFree(slots)))

    def turn(self) -> list[Bind]:
        """Decide until nothing is left to do at once; what is bound."""
        binds: list[Bind] = []
        for _ in range(1000):
            binds += self.decide()
            wake_at = self.machine.wake_at(self.now)
            if wake_at is None or wake_at > self.now or self.machine.unanswered >= 64:
                return binds
        raise AssertionError("never idle")

    def later(self, seconds: float) -> list[Bind]:
        """Time passes, and the machine is woken whenever it wants to be; what is bound."""
        end = self.now + seconds
        binds: list[Bind] = []
        for _ in range(1000):
            wake_at = self.machine.wake_at(self.now)
            if wake_at is None or wake_at > end:
                self.now = end
                return binds + self.turn()
            self.now = max(self.now, wake_at)
            binds += self.turn()
        raise AssertionError("never idle")

    # --- pods -----------------------------------------------------------------------------------

    def seen(self, pod: Pod) -> list[Bind]:
        """The watch shows a pod, and there is one iteration; what it binds."""
        self.tell(PodSeen(pod))
        return self.decide()

    def show(self, *pods: Pod) -> list[Bind]:
        """The watch shows pods; what is bound until nothing is left to do."""
        self.tell(*map(PodSeen, pods))
        return self.turn()

    def place(self, pod: Pod) -> Bind:
        """The pod is seen, placed, and seen bound."""
        (bind,) = self.seen(pod)
        self.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
        return bind

    def fill(self, *pods: Pod) -> None:
        """Each pod is seen, placed, stored, and seen bound."""
        for pod in pods:
            self.bound(self.show(pod), pod)

    def answer(self, bind: Bind, outcome: BindOutcome) -> list[Effect]:
        """The API server answers a Binding."""
        return self.tell(BindAnswered(bind.uid, bind.allocation.token, outcome))

    def bound(self, binds: list[Bind], *pods: Pod) -> list[Bind]:
        """All these Bindings are stored, and their pods seen; what is bound then."""
        known = {pod.uid: pod for pod in pods}
        for bind in binds:
            self.answer(bind, Bound())
            pod = known.get(bind.uid) or self.machine.records[bind.uid].pod
            self.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
        return self.turn()

    def leaves(self, name: str) -> None:
        """The watch shows that a pod is being deleted."""
        self.show(replace(self.record(name).pod, deleting=True))

    def gone(self, *pods: Pod | str) -> list[Bind]:
        """The watch shows that pods, or those of these names, were deleted; what is bound then."""
        uids = [PodUid(f"uid-{pod}") if isinstance(pod, str) else pod.uid for pod in pods]
        self.tell(*map(PodGone, uids))
        return self.turn()

    def record(self, name: str) -> Record:
        """What the machine knows of the pod of this name."""
        return self.machine.records[PodUid(f"uid-{name}")]

    def states(self, *names: str) -> list[PodState]:
        """The states of these pods."""
        return [self.record(name).state for name in names]

    def is_charged(self, name: str) -> bool:
        """Whether a pod holds a place."""
        return self.machine.ledger.charge_of(PodUid(f"uid-{name}")) is not None

    # --- objects and writes ---------------------------------------------------------------------

    def see(self, *objects: AnyObject) -> list[Bind]:
        """The watch shows objects as they are now; what is bound because of it."""
        self.tell(*map(ObjectSeen, objects))
        return self.turn()

    def wrote(
        self, outcome: WriteOutcome = WriteOutcome.DONE, message: str = "", at: int = -1
    ) -> list[Effect]:
        """The API server answers the last write, or another one."""
        effect = self.writes[at]
        return self.tell(ObjectWritten(effect.uid, effect.token, effect.write, outcome, message))

    def written(self, outcome: WriteOutcome = WriteOutcome.DONE, at: int = -1) -> list[Bind]:
        """As `wrote`; what is bound until nothing is left to do."""
        self.wrote(outcome, at=at)
        return self.turn()

    @property
    def requested(self) -> list[Any]:
        """What each write is to change."""
        return [effect.write for effect in self.writes]

    def locked(self) -> list[tuple[str, str]]:
        """The node and the pod of each lock that was requested."""
        return [(one.node, one.pod) for one in self.requested if isinstance(one, LockNode)]

    # --- nodes and cards ------------------------------------------------------------------------

    def node(self, name: str = "n1") -> Node:
        """A node as the machine knows it."""
        columns = self.machine.ledger.columns
        node = columns.nodes[columns.row_of[NodeName(name)]]
        assert node is not None
        return node

    def inventory(self, **counts: int) -> list[Bind]:
        """The inventory has so many cards of these nodes from now on; what is bound then."""
        cards = tuple((NodeName(name), some_gpus(name, count)) for name, count in counts.items())
        self.tell(InventoryRead(cards))
        return self.decide()

    def cards_on(self, node: str = "n1") -> tuple[Gpu, ...]:
        """The cards of a node as the inventory has them."""
        return self.machine.ledger.inventory[NodeName(node)]

    def show_lock(self, lock: NodeLock | None, node: str = "n1") -> None:
        """The watch shows the node with this lock; None: its plugin needs none any more."""
        self.tell(NodeSeen(replace(self.node(node), locks=() if lock is None else (lock,))))

    def free(self, node: str = "n1") -> list[int]:
        """The free shares of a node's cards, in thousandths."""
        columns = self.machine.ledger.columns
        found: list[int] = columns.free_milli[columns.row_of[NodeName(node)]].tolist()
        return found

    def use(self, node: str, *indices: int, milli: int = 1000, exclusive: bool = False) -> None:
        """Other pods have so much of these cards, one pod each."""
        cards = {card.index: card for card in self.cards_on(node)}
        for index in indices:
            memory = 40 * GIB * milli // 1000
            charge = CardCharge(cards[index].uuid, milli, memory, exclusive=exclusive)
            name = f"other-{node}-{index}-{milli}"
            allocation = Allocation(token=DecisionToken(name), cards=(charge,))
            shape = a_shape(a_claim(milli), cpu=0)
            pod = a_pod(name, shape, node_name=NodeName(node), allocation=allocation)
            self.tell(PodSeen(pod))

    def unuse(self, node: str, index: int, milli: int = 1000) -> None:
        """One of those other pods is gone."""
        self.tell(PodGone(PodUid(f"uid-other-{node}-{index}-{milli}")))
