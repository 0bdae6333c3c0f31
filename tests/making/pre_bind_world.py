"""A world in which some pods wait for a claim of their own before they can be bound.

A Reserve plugin keeps the books: the calls that it gets begin and end with each charge.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.cluster_objects import ObjectKey, WatchedKind
from kubeshare_py.domain.effects import Bind, Effect, WriteObject
from kubeshare_py.domain.events import (
    BindAnswered,
    BindRefused,
    Event,
    FinishedMember,
    ObjectGone,
    ObjectSeen,
    ObjectsListed,
    ObjectWritten,
    PodGone,
    PodSeen,
    PodsListed,
    WriteOutcome,
)
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.storage import ObjectRef, PersistentVolumeClaim, SelectNode
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.points import READY, PendingPlacement, PreBindAnswer, Rejected, Wait
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.reservation_policy import ReservationRules
from tests.making.pre_bind import NO_PREEMPTION
from tests.making.world import GANG_ACTIONS, GangWorld, Step
from tests.scheduling.reference_model import Holding, ReferenceModel

PRE_BIND_ACTIONS = GANG_ACTIONS + 9
LIMITS = (3, 5)
FOR_S = 20.0
#: What a pod with a claim has among its labels.
CLAIMS = (("claims", "yes"),)


class Provisioned:
    """PreBind of pods with a claim of their name: made for the chosen node by a provisioner."""

    name = "Patient"

    def pre_bind(self, pod: Pod, row: Rows, placement: PendingPlacement) -> PreBindAnswer:
        if pod.labels != CLAIMS:
            return READY
        key = ObjectKey(pod.key.namespace, pod.key.name)
        claim = row.objects(PersistentVolumeClaim).get(key)
        on = (ObjectRef(WatchedKind.CLAIM, key),)
        if claim is None:
            return Wait(sentence="its claim", on=on, for_s=FOR_S)
        if claim.is_bound:
            return READY
        (node,) = row.names
        mine = [one for one in placement.written if isinstance(one, SelectNode)]
        is_behind = any(one.version == claim.version for one in mine)
        if claim.selected_node == node or is_behind:
            return Wait(sentence="a volume", on=on, for_s=FOR_S)
        if mine:
            return Rejected("provisioning failed")
        write = SelectNode(
            namespace=key.namespace, claim=key.name, version=claim.version, node=node or ""
        )
        return Wait(sentence="a volume", writes=(write,), on=on, for_s=FOR_S)


class Bookkeeper:
    """Tells the books of each charge."""

    name = "Books"

    def __init__(self) -> None:
        self.books = PreBindReference()

    def reserve(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> None:
        self.books.reserved(pod, node, allocation)

    def unreserve(self, pod: Pod, node: NodeName) -> None:
        self.books.unreserved(pod)


@dataclass
class PreBindReference(ReferenceModel):
    """What is charged counts from the charge on, not from the Binding."""

    #: Charges that began here and have not ended, and the tokens of Bindings that were sent.
    charged: dict[PodUid, DecisionToken] = field(default_factory=dict)
    bound: set[DecisionToken] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    finished: dict[PodUid, FinishedMember] = field(default_factory=dict)

    def event(self, event: Event, now: float) -> None:
        super().event(event, now)
        if isinstance(event, PodsListed):
            self.finished = {one.uid: one for one in event.finished}
        elif isinstance(event, PodGone):
            self.finished.pop(event.uid, None)
            if event.finished is not None:
                self.finished[event.uid] = event.finished

    def _answered(self, event: BindAnswered, now: float) -> None:
        """The charge ends when the machine ends it: a gang may keep the place for a while."""
        if not isinstance(event.outcome, BindRefused):
            super()._answered(event, now)

    def reserved(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> None:
        """A charge begins."""
        held = self.held.get(pod.uid)
        if held is not None and held.settled and held.node == node:
            return  # it was shown bound
        assert allocation is not None
        if self.node_refusal(pod, node) is not None:
            self.problems.append(f"{pod.key} on {node}: {self.node_refusal(pod, node)}")
        self._check_cards(pod, node, allocation)
        cpu = dict(pod.shape.resources).get("cpu", 0)
        self.held[pod.uid] = Holding(node, cpu, allocation, ports=pod.shape.host_ports)
        self.charged[pod.uid] = allocation.token

    def unreserved(self, pod: Pod) -> None:
        """A charge ends."""
        self.charged.pop(pod.uid, None)
        held = self.held.get(pod.uid)
        if held is not None and not held.settled:
            del self.held[pod.uid]

    def effects(self, effects: list[Effect]) -> None:
        new = Counter[str]()
        for effect in effects:
            if isinstance(effect, Bind) and effect.allocation.token not in self.bound:
                group = self.pods[effect.uid].group
                if group is not None and not self._has_bound(group.name):
                    new[group.name] += 1
        for effect in effects:
            if isinstance(effect, Bind):
                held = self.held[effect.uid]
                assert (held.node, held.allocation) == (effect.node, effect.allocation)
                self.bound.add(effect.allocation.token)
        for name, count in new.items():
            members = [pod for pod in self.pods.values() if pod.group and pod.group.name == name]
            least = min(pod.group.min_available for pod in members if pod.group)
            done = sum(one.group == name and one.succeeded for one in self.finished.values())
            if count + done < least:
                self.problems.append(f"{name} is bound with {count} of {least}")

    def pending(self) -> list[Pod]:
        """Pods with a charge of which no Binding was sent."""
        return [
            self.pods[uid]
            for uid, token in self.charged.items()
            if uid in self.pods and token not in self.bound and not self.held[uid].settled
        ]

    def check_limits(self) -> None:
        """Few placements wait; a large gang may, alone in its namespace."""
        pending = self.pending()
        by_namespace: dict[str, list[Pod]] = {}
        for pod in pending:
            by_namespace.setdefault(pod.key.namespace, []).append(pod)
        for pods in by_namespace.values():
            gangs = {pod.owner for pod in pods}
            is_one_gang = len(gangs) == 1 and gangs != {""}
            assert len(pods) <= LIMITS[0] or is_one_gang, [str(pod.key) for pod in pods]

    def _has_bound(self, name: str) -> bool:
        """Whether members of the group run, or ran: others may then come one by one."""
        if any(one.group == name and one.had_node for one in self.finished.values()):
            return True
        return any(
            pod.group is not None
            and pod.group.name == name
            and uid in self.held
            and (self.held[uid].settled or self.charged.get(uid) in self.bound)
            for uid, pod in self.pods.items()
        )


class PreBindWorld(GangWorld):
    """Claims are made, answered late, failed and deleted; provisioners take their time."""

    reference: PreBindReference  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[ObjectKey, PersistentVolumeClaim] = {}
        self.requests: list[WriteObject] = []
        self.writes = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """A scheduler that knows nothing."""
        keeper = Bookkeeper()
        self.machine = a_provisioning_machine(keeper, f"test-{self.count}")
        self.reference = keeper.books

    def tell(self, event: Event) -> None:
        super().tell(event)
        for effect in self.log[-1][2]:
            if isinstance(effect, WriteObject):
                self.requests.append(effect)
        self.reference.check_limits()

    def step(self, step: Step) -> None:
        action, which, how = step
        if action % PRE_BIND_ACTIONS < GANG_ACTIONS:
            super().step((action % PRE_BIND_ACTIONS, which, how))
            return
        self.now += 0.1 * (how % 5)
        (
            self.write,
            self.write,
            self.write,
            self.provision,
            self.provision,
            self.provision,
            self.fail,
            self.delete_claim,
            self.wait_a_little,
        )[action % PRE_BIND_ACTIONS - GANG_ACTIONS](which, how)
        if how % 2 == 0:
            self.deliver(0, 9)

    def create(self, which: int, how: int) -> None:
        """Every other pod has a claim, which may come late."""
        super().create(which, how)
        self._give_claim(which, how)

    def member(self, name: str, priority: int | None = None) -> None:
        """So does every other member of a gang."""
        super().member(name, priority)
        self._give_claim(self.count, self.count)

    def _give_claim(self, which: int, how: int) -> None:
        if which % 2:
            return
        pod = replace(list(self.stored.values())[-1], labels=CLAIMS)
        self.stored[pod.uid] = pod
        self.watch.pop()
        claim = PersistentVolumeClaim(
            namespace=pod.key.namespace, name=pod.key.name, uid=f"claim-{pod.uid}", version="0"
        )
        self.claims[claim.key] = claim
        seen: list[Event] = [ObjectSeen(claim), PodSeen(pod)]
        self.watch += seen[:: -1 if how % 3 == 0 else 1]

    def write(self, which: int, how: int) -> None:
        """A write that was requested comes to an end."""
        if self.requests:
            effect = self.requests.pop(which % len(self.requests))
            self.tell(self._written(effect, how))

    def _written(self, effect: WriteObject, how: int) -> ObjectWritten:
        def answered(outcome: WriteOutcome) -> ObjectWritten:
            return ObjectWritten(effect.uid, effect.token, effect.write, outcome, "so it is")

        write = effect.write
        assert isinstance(write, SelectNode)
        claim = self.claims.get(ObjectKey(write.namespace, write.claim))
        if how == 1:
            return answered(WriteOutcome.UNKNOWN)
        if claim is None or how == 2:
            return answered(WriteOutcome.REFUSED)
        if claim.version != write.version:
            return answered(WriteOutcome.STALE)
        self._store(replace(claim, selected_node=write.node))
        return answered(WriteOutcome.UNKNOWN if how == 3 else WriteOutcome.DONE)

    def provision(self, which: int, how: int) -> None:
        """A claim with a node gets its volume."""
        selected = [key for key, claim in self.claims.items() if claim.selected_node]
        waiting = [key for key in selected if not self.claims[key].is_bound]
        if waiting:
            claim = self.claims[waiting[which % len(waiting)]]
            self._store(replace(claim, volume="pv", bind_completed=True))

    def fail(self, which: int, how: int) -> None:
        """A provisioner cannot make a volume there, or someone touches a claim."""
        keys = [key for key, claim in self.claims.items() if not claim.is_bound]
        if keys:
            claim = self.claims[keys[which % len(keys)]]
            self._store(claim if how < 4 else replace(claim, selected_node=None))

    def delete_claim(self, which: int, how: int) -> None:
        """A claim is deleted, and perhaps made anew."""
        keys = sorted(key for key, claim in self.claims.items() if not claim.is_bound)
        if not keys:
            return
        key = keys[which % len(keys)]
        claim = self.claims.pop(key)
        self.watch.append(ObjectGone(WatchedKind.CLAIM, key))
        self._store(replace(claim, selected_node=None, uid=f"{claim.uid}-again"))

    def wait_a_little(self, which: int, how: int) -> None:
        """Some seconds pass: less than a plugin waits, or more."""
        self.wait(0, how)
        self.now += 2.5 * which
        self.decide(0, 9)

    def _store(self, claim: PersistentVolumeClaim) -> None:
        self.writes += 1
        claim = replace(claim, version=str(self.writes))
        self.claims[claim.key] = claim
        self.watch.append(ObjectSeen(claim))

    def relist(self, which: int, how: int) -> None:
        """Only the watch of pods is lost."""
        kept = [event for event in self.watch if isinstance(event, ObjectSeen | ObjectGone)]
        super().relist(which, how)
        seen = [event for event in self.watch if not isinstance(event, ObjectSeen | ObjectGone)]
        self.watch = kept + seen

    def restart(self, which: int, how: int) -> None:
        """What was requested is stored or not."""
        for effect in self.requests:
            self._written(effect, 5 if how % 2 else 1)
        self.requests = []
        super().restart(which, how)
        self.tell(ObjectsListed(WatchedKind.CLAIM, tuple(self.claims.values())))

    def start(self) -> None:
        super().start()
        self.tell(ObjectsListed(WatchedKind.CLAIM, ()))

    def round(self) -> tuple[float | None, bool]:
        """All writes are stored, and all volumes are made."""
        effects = sum(len(entry[2]) for entry in self.log)
        for _ in range(3):
            while self.requests:
                self.write(0, 5)
            while any(claim.selected_node and not claim.is_bound for claim in self.claims.values()):
                self.provision(0, 0)
            self.deliver(0, 9)
            self._turns()
        wake_at, _ = super().round()
        return wake_at, effects == sum(len(entry[2]) for entry in self.log)


def a_provisioning_machine(keeper: object, name: str) -> Machine:
    """A machine with the plugin, with narrow limits, and with books at Reserve."""
    points: dict[str, Any] = {
        "preBind": {"enabled": [{"name": "Patient"}]},
        "reserve": {"enabled": [{"name": "Books"}]},
        **NO_PREEMPTION,
    }
    factories = {**IN_TREE, "Patient": Provisioned, "Books": lambda: keeper}
    configuration = read({"profiles": [{"plugins": points}]})
    made = profiles(configuration, factories)
    machine = Machine(made, name, reservations=ReservationRules(0.0, 0.0))
    machine.pre_binds.limits.use(*LIMITS)
    return machine
