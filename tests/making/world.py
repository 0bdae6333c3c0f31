"""A world around the machine: an API server with a delayed watch, and answers that get lost.

In a `GangWorld` there are gangs too: their pods come late and replace dead ones, jobs end, and the
scheduler dies. A history is a list of small numbers; each picks an action and its object, so that
Hypothesis can shrink it and a subprocess can repeat it.
"""

from collections.abc import Callable, Iterable
from typing import Self

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.effects import Bind, Effect, Evict
from kubeshare_py.domain.events import (
    BindAnswered,
    BindOutcome,
    BindRefused,
    BindSlotsFree,
    BindUnknown,
    Bound,
    Event,
    FinishedMember,
    InventoryRead,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
    PodSeen,
    PodsListed,
    Refusal,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import HostPort, Pod, PodGroup, Shape
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.manifests.events import portions_of
from kubeshare_py.scheduling.machine import Machine, MachineEvent
from tests.making import GIB, a_claim, a_gpu, a_machine, a_node, a_pod, a_shape, whole
from tests.scheduling.gang_reference import GangReference
from tests.scheduling.reference_model import ReferenceModel

SHAPES = (
    a_shape(a_claim(300)),
    a_shape(a_claim(700)),
    a_shape(a_claim(443)),
    a_shape(a_claim(558)),
    a_shape(a_claim(1000)),
    a_shape(a_claim(0)),
    a_shape(a_claim(200, memory_bytes=30 * GIB)),
    a_shape(a_claim(100, models=("T4",))),
    a_shape(whole(2)),
    a_shape(whole(3, memory_bytes=GIB)),
    a_shape(),
    a_shape(cpu=40_000),
    a_shape(a_claim(100), cpu=60_000),
    a_shape(a_claim(300), a_claim(500)),
    a_shape(a_claim(600), whole(1), a_claim(600)),
    a_shape(host_ports=(HostPort(80),)),
    a_shape(a_claim(200), host_ports=(HostPort(80, address="10.0.0.1"), HostPort(81))),
)
NODES = tuple(NodeName(name) for name in ("n1", "n2", "n3"))
#: Pods that are created one by one are in them by turns: pods of one shape are of several.
NAMESPACES = ("default", "b", "c", "d", "e")
ACTIONS = 16

#: Refusals of bindings, by the number that picks what the API server makes of one.
REFUSALS = {2: Refusal.INVALID, 6: Refusal.DENIED, 7: Refusal.FORBIDDEN, 8: Refusal.DENIED}

#: A number that picks the action, one that picks its object, and one that says how.
Step = tuple[int, int, int]
Action = Callable[[int, int], None]
#: Those of a world with gangs.
GANG_ACTIONS = ACTIONS + 14
X = GroupApi.COSCHEDULING
GANG_SHAPES = (
    a_shape(a_claim(1000)),
    a_shape(a_claim(500)),
    a_shape(a_claim(700)),
    a_shape(whole(2)),
    a_shape(a_claim(400), cpu=30_000),
    a_shape(a_claim(600), a_claim(600)),
    a_shape(),
)


def scrambled(number: int) -> str:
    """A name for each number up to 1000, in another order."""
    return f"{number * 617 % 1000:03d}"


class World:
    """Runs a history; every event and effect passes the books."""

    #: The most pods of a list that come at a time.
    portion = 3

    def __init__(self, document: object = None) -> None:
        self.document = document
        self.machine = a_machine(document)
        self.reference = ReferenceModel()
        self.now = 0.0
        self.stored: dict[PodUid, Pod] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.cards: dict[NodeName, dict[str, Gpu]] = {}
        self.watch: list[Event] = []
        self.asked: PodsListed | None = None
        self.portions: list[PodsListed] = []
        self.sent: list[Bind] = []
        self.log: list[tuple[MachineEvent, float, tuple[Effect, ...]]] = []
        self.count = 0
        for name, cards in zip(NODES, (1, 2, 1), strict=True):
            self.nodes[name] = a_node(name, pods=6)
            model = "T4" if name == "n3" else "A100"
            self.cards[name] = {
                f"GPU-{name}-{index}": a_gpu(f"GPU-{name}-{index}", index=index, model=model)
                for index in range(cards)
            }

    def start(self) -> None:
        """The first lists."""
        self.tell(PodsListed((), self.now))
        self.tell(NodesListed(tuple(self.nodes.values())))
        self.tell(InventoryRead(tuple((n, tuple(c.values())) for n, c in self.cards.items())))

    def follow(self, steps: Iterable[Step]) -> Self:
        """The first lists and this history, each decision checked by the books when it is made."""
        self.start()
        for step in steps:
            self.step(step)
        return self

    def run(self, steps: Iterable[Step]) -> Self:
        """This history, until everything that is under way came to an end."""
        self.follow(steps).settle()
        return self

    def expect_same_effects(self, again: Machine) -> None:
        """Fail unless this machine, which knows nothing yet, answers the history alike."""
        assert self.log
        for event, now, effects in self.log:
            assert tuple(again.handle(event, now)) == effects

    def tell(self, event: Event) -> None:
        """Hand an event to the machine, and both to the books."""
        self.reference.event(event, self.now)
        effects = self.machine.handle(event, self.now)
        self.log.append((event, self.now, tuple(effects)))
        self.reference.effects(effects)
        for effect in effects:
            if isinstance(effect, Bind):
                self.sent.append(effect)
        if isinstance(event, BindSlotsFree):
            assert len([e for e in effects if isinstance(e, Bind)]) <= event.slots + len(self.sent)

    @property
    def actions(self) -> tuple[Action, ...]:
        """What the numbers of a history pick from."""
        return (
            self.create,
            self.create,
            self.create,
            self.delete,
            self.delete,
            self.answer,
            self.answer,
            self.answer,
            self.deliver,
            self.deliver,
            self.decide,
            self.decide,
            self.relist,
            self.change_node,
            self.change_cards,
            self.foreign,
        )

    def step(self, step: Step) -> None:
        """One thing happens."""
        action, which, how = step
        self.now += 0.1 * (how % 5)
        actions = self.actions
        actions[action % len(actions)](which, how)
        if how % 2 == 0:  # as the program does after every batch of events
            self.deliver(0, 9)
            self.tell(BindSlotsFree(64))

    def create(self, which: int, how: int) -> None:
        """A pod is created, now and then a gated, malformed or urgent one."""
        self.count += 1
        pod = a_pod(
            scrambled(self.count),
            SHAPES[which % len(SHAPES)],
            priority=how % 3,
            created=f"{self.count // 3:06d}",
            gates=("wait",) if how == 7 else (),
            problem=InvalidRequest(field="l", value="v", rule="r") if how == 8 else None,
        )
        key = PodKey(NAMESPACES[self.count % len(NAMESPACES)], pod.key.name)
        self.stored[pod.uid] = replace(pod, key=key)
        self.watch.append(PodSeen(self.stored[pod.uid]))

    def delete(self, which: int, how: int) -> None:
        """A pod is deleted, finishes, or loses its gate."""
        if not self.stored:
            return
        uid = sorted(self.stored)[which % len(self.stored)]
        pod = self.stored[uid]
        if pod.gates:
            self.stored[uid] = replace(pod, gates=())
            self.watch.append(PodSeen(self.stored[uid]))
        else:
            del self.stored[uid]
            self.watch.append(PodGone(uid))

    def answer(self, which: int, how: int) -> None:
        """A binding that was sent comes to an end."""
        if not self.sent:
            return
        bind = self.sent.pop(which % len(self.sent))
        outcome = self.outcome(bind, how)
        self.tell(BindAnswered(bind.uid, bind.allocation.token, outcome))
        if how == 9:  # and once more
            self.tell(BindAnswered(bind.uid, bind.allocation.token, outcome))

    def outcome(self, bind: Bind, how: int) -> BindOutcome:
        """What the API server makes of a binding, and what the client learns of it."""
        if how == 1:
            return BindUnknown("503")
        pod = self.stored.get(bind.uid)
        if pod is None:
            return BindRefused(Refusal.GONE, "gone")
        if pod.node_name is not None:
            ours = pod.allocation is not None and pod.allocation.token == bind.allocation.token
            return Bound() if ours else BindRefused(Refusal.ASSIGNED, "assigned")
        if how in REFUSALS:
            return BindRefused(REFUSALS[how], "no")
        if how == 4:
            return Bound()  # and then the API server forgot it, restored from a backup
        self.stored[bind.uid] = replace(pod, node_name=bind.node, allocation=bind.allocation)
        self.watch.append(PodSeen(self.stored[bind.uid]))
        return BindUnknown("timeout") if how == 3 else Bound()

    def deliver(self, which: int, how: int) -> None:
        """The watch brings what is due; not while a list is under way."""
        if self.asked is not None:
            return
        count = 1 if how < 5 else len(self.watch)
        events, self.watch = self.watch[:count], self.watch[count:]
        for event in events:
            self.tell(event)

    def decide(self, which: int, how: int) -> None:
        """Slots are free."""
        self.tell(BindSlotsFree(1 + how))

    def relist(self, which: int, how: int) -> None:
        """The watch was lost: a list is asked for, and some time later its portions come."""
        if self.asked is None:
            self.watch.clear()
            self.asked = PodsListed(tuple(self.stored.values()), self.now)
            return
        if not self.portions:
            self.portions = [*portions_of(self.asked, self.portion)]
        self.tell(self.portions.pop(0))
        if not self.portions:
            self.asked = None

    def change_node(self, which: int, how: int) -> None:
        """A node is cordoned, uncordoned, removed or added, or cannot be decoded in a list."""
        name = NODES[which % len(NODES)]
        if how < 4 and name in self.nodes:
            cordoned = not self.nodes[name].unschedulable
            self.nodes[name] = replace(self.nodes[name], unschedulable=cordoned)
            self.tell(NodeSeen(self.nodes[name]))
        elif how == 9:
            readable = tuple(node for node in self.nodes.values() if node.name != name)
            self.tell(NodesListed(readable, frozenset({name} & self.nodes.keys())))
        elif name in self.nodes:
            del self.nodes[name]
            self.tell(NodeGone(name))
        else:
            self.nodes[name] = a_node(name, pods=6)
            self.tell(NodeSeen(self.nodes[name]))

    def change_cards(self, which: int, how: int) -> None:
        """A card falls ill, recovers, leaves, or comes back."""
        name = NODES[which % len(NODES)]
        cards = self.cards[name]
        uuid = f"GPU-{name}-{how % 3}"
        if uuid not in cards:
            cards[uuid] = a_gpu(uuid, index=how % 3, model="A100")
        elif how < 5:
            cards[uuid] = replace(cards[uuid], healthy=not cards[uuid].healthy)
        else:
            del cards[uuid]
        self.tell(InventoryRead(((name, tuple(cards.values())),)))

    def foreign(self, which: int, how: int) -> None:
        """Somebody else binds one of our pods, or a pod of theirs, to whatever they like."""
        name = NODES[which % len(NODES)]
        unbound = sorted(uid for uid, pod in self.stored.items() if pod.node_name is None)
        token = DecisionToken(f"foreign-{self.count}")
        charge = (CardCharge(a_gpu(f"GPU-{name}-{how % 4}").uuid, 500, 20 * GIB),)
        allocation = Allocation(token=token, cards=charge, port=None) if how % 2 else None
        if unbound and how < 3:
            pod = self.stored[unbound[which % len(unbound)]]
        else:
            self.count += 1
            native = (("cpu", 100), ("nvidia.com/gpu", 1 + how % 2)) if how > 5 else (("cpu", 100),)
            shape = a_shape(resources=native)
            pod = a_pod(scrambled(self.count), shape, scheduler_name="other")
        self.stored[pod.uid] = replace(pod, node_name=name, allocation=allocation)
        self.watch.append(PodSeen(self.stored[pod.uid]))

    def _turns(self) -> float | None:
        """Turns as long as it wants one at once, as the program does; when it wants the next."""
        for _ in range(50):
            self.tell(BindSlotsFree(64))
            wake_at = self.machine.wake_at(self.now)
            if wake_at is None or wake_at > self.now or self.sent:
                break
        return wake_at

    def settle(self) -> None:
        """Everything that is under way comes to an end: two quiet rounds in a row."""
        quiet = 0
        for _ in range(200):
            wake_at, is_silent = self.round()
            # Backoffs are over sooner than texts are looked at again.
            idle = wake_at is None or wake_at > self.now + 12
            quiet = min(quiet + 1, 2) if is_silent and idle else 0
            # Pods avoid nodes that were refused for minutes, wherever there is room.
            if quiet == 2 and not (self.sent or self.watch or self.machine.refused.pods):
                return
        raise AssertionError("never settles")

    def round(self) -> tuple[float | None, bool]:
        """Everybody is told everything; when it wants its next turn, and whether it did nothing."""
        effects = sum(len(entry[2]) for entry in self.log)
        self.relist(0, 0)
        self.now += 30
        while self.asked is not None:
            self.relist(0, 0)
        self.deliver(0, 9)
        while self.sent:
            self.answer(0, 5)
        self.deliver(0, 9)
        wake_at = self._turns()
        return wake_at, effects == sum(len(entry[2]) for entry in self.log)


class GangWorld(World):
    """Runs a history; what the machine decides about gangs passes books of its own."""

    reference: GangReference

    #: The books of gangs know of whole lists only.
    portion = 1000

    def __init__(self, document: object = None) -> None:
        super().__init__(document)
        self.reference = GangReference()
        self.jobs: dict[str, tuple[PodGroup, tuple[Shape, ...], int]] = {}
        self.finished: dict[PodUid, FinishedMember] = {}
        self.evictions: list[PodUid] = []
        self.settling = False
        #: Jobs whose group an object describes, and the objects that there are.
        self.described: list[str] = []
        self.objects: dict[str, PodGroupObject] = {}
        for name, cards in zip(NODES, (2, 4, 2), strict=True):
            uuids = [f"GPU-{name}-{index}" for index in range(cards)]
            self.cards[name] = {uuid: a_gpu(uuid, index=int(uuid[-1])) for uuid in uuids}

    def tell(self, event: Event) -> None:
        super().tell(event)
        for effect in self.log[-1][2]:
            if isinstance(effect, Evict):
                self.evictions.append(effect.uid)

    @property
    def actions(self) -> tuple[Action, ...]:
        return (
            *super().actions,
            self.begin,
            self.begin,
            self.begin,
            self.grow,
            self.grow,
            self.grow,
            self.finish,
            self.finish,
            self.evict,
            self.wait,
            self.relabel,
            self.describe,
            self.describe,
            self.restart,
        )

    def begin(self, which: int, how: int) -> None:
        """A job makes its gang's pods, all at once or only some of them yet."""
        name = f"g{len(self.jobs)}"
        least = 2 + which % 3
        group = PodGroup(name=name, headcount=least + how % 3, min_available=least)
        shapes: tuple[Shape, ...] = (GANG_SHAPES[which % len(GANG_SHAPES)],)
        if how == 9:
            shapes = (*shapes, GANG_SHAPES[(which + 1) % len(GANG_SHAPES)])
        self.jobs[name] = (group, shapes, how % 3)
        if which % 4 == 3:
            self.described.append(name)
            if how % 4 != 3:
                self.put_object(name, least)
        for _ in range(group.headcount if how < 6 else least - 1):
            self.member(name)

    def member(self, name: str, priority: int | None = None) -> None:
        """One pod of a gang."""
        group, shapes, usual = self.jobs[name]
        self.count += 1
        pod = a_pod(
            scrambled(self.count),
            shapes[self.count % len(shapes)],
            priority=usual if priority is None else priority,
            created=f"{self.count // 3:06d}",
            group=None if name in self.described else group,
            group_reference=GroupReference(X, name) if name in self.described else None,
            owner=name,
        )
        self.stored[pod.uid] = pod
        self.watch.append(PodSeen(pod))

    def grow(self, which: int, how: int) -> None:
        """A gang gets one pod more, late or in place of a dead one."""
        if self.jobs:
            self.member(sorted(self.jobs)[which % len(self.jobs)], how if how < 3 else None)

    def finish(self, which: int, how: int) -> None:
        """A bound member is over; or one that is over is deleted."""
        if how == 9 and self.finished:
            uid = sorted(self.finished)[which % len(self.finished)]
            del self.finished[uid]
            self.watch.append(PodGone(uid))
            return
        bound = sorted(
            uid
            for uid, pod in self.stored.items()
            if pod.node_name is not None and (pod.group or pod.group_reference)
        )
        if bound:
            pod = self.stored.pop(bound[which % len(bound)])
            member = FinishedMember(
                uid=pod.uid,
                namespace=pod.key.namespace,
                group=pod.group_reference.gang if pod.group_reference else pod.owner,
                owner=pod.owner,
                succeeded=how % 2 == 0,
            )
            self.finished[pod.uid] = member
            self.watch.append(PodGone(pod.uid, member))

    def evict(self, which: int, how: int) -> None:
        """An eviction that was asked for is done, or the server refuses it."""
        if self.evictions:
            uid = self.evictions.pop(0)
            if how < 8 and self.stored.pop(uid, None) is not None:
                self.watch.append(PodGone(uid))

    def wait(self, which: int, how: int) -> None:
        """A while passes."""
        self.now += 7.0 * which
        self.tell(BindSlotsFree(64))

    def relabel(self, which: int, how: int) -> None:
        """The minimum changes on one pod that waits."""
        waiting = sorted(uid for uid, pod in self.stored.items() if not pod.node_name and pod.group)
        if waiting:
            pod = self.stored[waiting[which % len(waiting)]]
            assert pod.group is not None
            group = replace(pod.group, min_available=1 + how % pod.group.headcount)
            self.stored[pod.uid] = replace(pod, group=group)
            self.watch.append(PodSeen(self.stored[pod.uid]))

    def describe(self, which: int, how: int) -> None:
        """A PodGroup is made, changed or deleted, or all are listed anew."""
        if not self.described:
            return
        name = self.described[which % len(self.described)]
        if how == 9:
            self.tell(PodGroupsListed(X, tuple(self.objects.values())))
        elif how > 6 and name in self.objects:
            del self.objects[name]
            self.tell(PodGroupGone(X, "default", name))
        else:
            self.put_object(name, 1 + how % 4)

    def put_object(self, name: str, least: int) -> None:
        """There is such a PodGroup."""
        found = PodGroupObject(api=X, namespace="default", name=name, min_member=least)
        self.objects[name] = found
        self.tell(PodGroupSeen(found))

    def relist(self, which: int, how: int) -> None:
        """A list also shows finished pods."""
        super().relist(which, how)
        if self.asked is not None and not self.asked.finished:
            self.asked = replace(self.asked, finished=tuple(self.finished.values()))

    def foreign(self, which: int, how: int) -> None:
        """Other schedulers bind pods; not such whose cards are unknown, which shift what fits."""
        super().foreign(which, how % 6)

    def restart(self, which: int, how: int) -> None:
        """The scheduler dies; what it sent is stored or not, and another one lists."""
        for bind in self.sent:
            self.outcome(bind, 5 if how % 2 else 1)
        self.sent, self.watch, self.evictions, self.asked, self.log = [], [], [], None, []
        self.portions = []
        self.count += 1
        self.begin_anew()
        pods, finished = tuple(self.stored.values()), tuple(self.finished.values())
        objects = PodGroupsListed(X, tuple(self.objects.values()))
        if how % 3:
            self.tell(objects)
        self.tell(PodsListed(pods, self.now, finished=finished))
        self.tell(NodesListed(tuple(self.nodes.values())))
        self.tell(InventoryRead(tuple((n, tuple(c.values())) for n, c in self.cards.items())))
        if not how % 3:
            self.tell(objects)

    def begin_anew(self) -> None:
        """A scheduler that knows nothing."""
        self.machine = a_machine(self.document, name=f"test-{self.count}")
        self.reference = GangReference(
            minds_models=self.reference.minds_models, minds_cordons=self.reference.minds_cordons
        )

    def deliver(self, which: int, how: int) -> None:
        """At the end the server deletes what it is asked to delete."""
        while self.settling and self.evictions:
            self.evict(0, 0)
        super().deliver(which, how)

    def settle(self) -> None:
        """Also every deadline passes."""
        self.settling = True
        for _ in range(4):
            super().settle()
            self.now += 65
            self.tell(BindSlotsFree(64))
        super().settle()
