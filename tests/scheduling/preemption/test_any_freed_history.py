"""Any history with preemptors, polite pods and gangs: what is freed for one goes to no other."""

import random

import pytest

from kubeshare_py.domain.effects import Bind, Evict
from kubeshare_py.domain.events import BindOutcome, BindSlotsFree, Event, PodGone, PodSeen
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.values import replace
from tests.making import a_claim, a_machine, a_node, a_pod, a_shape, whole
from tests.making.world import World
from tests.scale import seeds
from tests.scheduling.freed_reference import FreedReference

SHAPES = (
    a_shape(a_claim(300)),
    a_shape(a_claim(500)),
    a_shape(a_claim(1000)),
    a_shape(a_claim(1000)),
    a_shape(whole(2)),
    a_shape(a_claim(600), a_claim(500)),
    a_shape(cpu=40_000),
)


class FreedWorld(World):
    """Few cards, pods of two namespaces, and victims that leave when they like."""

    reference: FreedReference

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.machine = a_machine({})
        self.reference = FreedReference()
        self.numbers = random.Random(seed)
        self.leaving: list[PodUid] = []
        self.settling = False
        self.nodes = {name: a_node(name, pods=30) for name in self.nodes}

    def happen(self) -> None:
        """One thing, mostly one more pod; all that is told is told at once."""
        draw, which, how = (
            self.numbers.random(),
            self.numbers.randrange(13),
            self.numbers.randrange(10),
        )
        self.now += self.numbers.choice((0.1, 1.0, 5.0))
        rare = (self.delete, self.relist, self.change_node, self.change_cards)
        if draw < 0.4:
            self.create(which, how)
        elif draw < 0.8:
            self.answer(which, how if draw < 0.5 else 5)
        elif draw < 0.9:
            self.numbers.choice(rare)(which, how)
        self.deliver(0, 9)
        self.tell(BindSlotsFree(64))

    def tell(self, event: Event) -> None:
        super().tell(event)
        effects = self.log[-1][2]
        under_way = self.machine.preemption.under_way.values()
        waiting = {place.uid for one in under_way for place in one.plan.nominations}
        assert self.reference.told(event, effects, waiting) == []
        self.leaving += [effect.uid for effect in effects if isinstance(effect, Evict)]

    def create(self, which: int, how: int) -> None:
        """A pod of its own, or a small gang."""
        numbers = self.numbers
        self.count += 1
        name = f"{self.count:03d}"
        pod = a_pod(
            name,
            numbers.choice(SHAPES),
            priority=numbers.randrange(3),
            label_priority=numbers.choice((0, 0, 5)),
            preempts=numbers.random() < 0.6,
            created=f"{self.count:06d}",
        )
        namespace = numbers.choice(("one", "two"))
        if numbers.random() < 0.2:
            size = 2 + numbers.randrange(2)
            group = PodGroup(name=f"g{name}", headcount=size, min_available=size)
            pods = [
                replace(pod, uid=PodUid(f"{pod.uid}-{n}"), key=PodKey(namespace, f"{name}-{n}"))
                for n in range(size)
            ]
            pods = [replace(one, group=group) for one in pods]
        else:
            pods = [replace(pod, key=PodKey(namespace, name))]
        for one in pods:
            self.stored[one.uid] = one
            self.watch.append(PodSeen(one))

    def outcome(self, bind: Bind, how: int) -> BindOutcome:
        """No member of a gang is refused or forgotten: what follows is told elsewhere."""
        in_gang = bind.allocation.group is not None
        return super().outcome(bind, 5 if in_gang and how in (2, 4) else how)

    def deliver(self, which: int, how: int) -> None:
        """Those that were asked to go do so, one by one."""
        while self.leaving and (self.settling or self.numbers.random() < 0.3):
            uid = self.leaving.pop(self.numbers.randrange(len(self.leaving)))
            pod = self.stored.get(uid)
            if pod is None:
                continue
            if not self.settling and self.numbers.random() < 0.5 and not pod.deleting:
                self.stored[uid] = replace(pod, deleting=True)
                self.watch.append(PodSeen(self.stored[uid]))
                self.leaving.append(uid)
                break
            del self.stored[uid]
            self.watch.append(PodGone(uid))
        super().deliver(which, how)


def run(seed: int, steps: int = 80) -> FreedWorld:
    world = FreedWorld(seed)
    world.start()
    for _ in range(steps):
        world.happen()
    world.settling = True
    for _ in range(30):
        world.round()
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6))
def test_what_is_freed_for_a_preemptor_goes_to_no_other(seed: int) -> None:
    """At least 12 histories, and as many more as it takes until a pod is tempted."""
    tempted = plans = 0
    for number in range(100):
        if number >= 12 and tempted:
            break
        world = run(seed * 100 + number)
        tempted += world.reference.tempted
        plans += sum(world.reference.evicting.values())
        assert world.machine.preemption.under_way == {}
        assert not world.machine.reservations
    assert tempted, "no other pod had room where something was kept"
    assert plans > 5
