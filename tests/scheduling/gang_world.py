"""A world with gangs: pods come late and replace dead ones, jobs end, the scheduler dies."""

from dataclasses import replace

from kubeshare_py.domain.effects import Evict
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    FinishedMember,
    InventoryRead,
    NodesListed,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.group_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import PodGroup, Shape
from tests.builders import a_claim, a_gpu, a_machine, a_pod, a_shape, whole
from tests.scheduling.gang_reference import GangReference
from tests.scheduling.world import ACTIONS, NODES, Step, World, scrambled

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


class GangWorld(World):
    """Runs a history; what the machine decides about gangs passes books of its own."""

    reference: GangReference

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

    def step(self, step: Step) -> None:
        action, which, how = step
        if action % GANG_ACTIONS < ACTIONS:
            super().step((action % GANG_ACTIONS, which, how))
            return
        self.now += 0.1 * (how % 5)
        (
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
        )[action % GANG_ACTIONS - ACTIONS](which, how)
        if how % 2 == 0:
            self.deliver(0, 9)
            self.tell(BindSlotsFree(64))

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
        """Somebody changes the minimum on one pod that waits."""
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
        """A list also shows who is over."""
        super().relist(which, how)
        if self.asked is not None and not self.asked.finished:
            self.asked = replace(self.asked, finished=tuple(self.finished.values()))

    def foreign(self, which: int, how: int) -> None:
        """Others bind pods, but none whose cards nobody knows: those shift what fits."""
        super().foreign(which, how % 6)

    def restart(self, which: int, how: int) -> None:
        """The scheduler dies; what it sent is stored or not, and another one lists."""
        for bind in self.sent:
            self.outcome(bind, 5 if how % 2 else 1)
        self.sent, self.watch, self.evictions, self.asked, self.log = [], [], [], None, []
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
