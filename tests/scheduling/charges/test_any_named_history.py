"""Any history of pods that name their cards, alone and in gangs, with evictions and reservations.

The books are the test's own: what each bound pod holds, and what its user wrote.
"""

from dataclasses import dataclass
from random import Random

import pytest

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.gpu import CardTag, CardTags, TagKind
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import GpuClaim
from tests.making import Driver, a_claim, a_group, a_machine, a_pod, a_shape, members
from tests.scale import scaled, seeds

CARDS = {"n1": 2, "n2": 2, "n3": 1}


@dataclass(frozen=True)
class Held:
    """A bound pod's part of a card, by its Binding, and whether its user named the card."""

    pod: Pod
    node: str
    card: str
    milli: int
    name: str
    asked: str


class World:
    """A machine with reservations and evictions, and books."""

    def __init__(self) -> None:
        machine = a_machine({}, reservation_after_s=5.0, reservation_patience_s=3600.0)
        self.driver = Driver(CARDS, machine=machine)
        self.evictions = 0
        self.pods: dict[str, tuple[Pod, str, int]] = {}
        self.held: dict[str, Held] = {}

    def show(self, name: str, milli: int, *pods: Pod) -> None:
        self.pods |= {pod.key.name: (pod, name, milli) for pod in pods}
        self.see(self.driver.show(*pods))

    def gone(self, *names: str) -> None:
        pods = [self.pods.pop(name)[0] for name in names]
        for name in names:
            self.held.pop(name, None)
        self.see(self.driver.gone(*pods))

    def later(self, seconds: float) -> None:
        self.see(self.driver.later(seconds))

    def see(self, binds: list[Bind]) -> None:
        """Judge Bindings one after the other; what was evicted is gone, and others may come."""
        for bind in binds:
            self.judge(bind)
        self.driver.bound(binds, *(self.pods[bind.key.name][0] for bind in binds))
        # Who is not gone after a while is evicted once more.
        victims = [name for name in dict.fromkeys(self.driver.evicted) if name in self.pods]
        self.driver.evicted.clear()
        self.evictions += len(victims)
        if victims:
            self.gone(*victims)

    def judge(self, bind: Bind) -> None:
        pod, asked, milli = self.pods[bind.key.name]
        [card] = bind.allocation.cards
        [name] = [tag.word for tag in card.tags]
        there = [one for one in self.held.values() if one.card == card.uuid]
        assert sum(one.milli for one in there) + milli <= 1000
        assert {one.name for one in there} <= {name}, "a card has one name"
        same = {one.card for one in self.held.values() if one.name == name}
        assert same <= {card.uuid}, "a name in use is that of one card"
        assert not asked or asked == name
        assert not asked or same or not there, "a new name has a card without pods"
        self.held[bind.key.name] = Held(pod, bind.node, card.uuid, milli, name, asked)

    def takes(self, asked: str, milli: int) -> bool:
        """Whether some card takes a pod now, if nothing is kept for others."""
        for node, count in CARDS.items():
            for slot in range(count):
                card = f"GPU-{node}-{slot}"
                there = [one for one in self.held.values() if one.card == card]
                room = sum(one.milli for one in there) + milli <= 1000
                in_use = any(one.name == asked for one in self.held.values())
                if room and (
                    not asked or (any(one.name == asked for one in there) if in_use else not there)
                ):
                    return True
        return False


def a_named(name: str, milli: int) -> GpuClaim:
    tags: CardTags = (CardTag(TagKind.NAME, "default", name),) if name else ()
    return a_claim(milli, memory_bytes=1, tags=tags, is_named=True)


@pytest.mark.parametrize("seed", seeds(10))
def test_no_history_gives_a_card_two_names_or_a_name_two_cards(seed: int) -> None:
    bound = evicted = 0
    for number in range(scaled(20, least=3)):
        world, rng = World(), Random(seed * 1000 + number)
        for step in range(30):
            choice = rng.random()
            if world.pods and choice < 0.3:
                world.gone(rng.choice(sorted(world.pods)))
            elif choice < 0.4:
                world.later(rng.choice((1.0, 20.0)))
            else:
                name = rng.choice(("", "", "abc", "xyz"))
                milli, priority = rng.choice((200, 300, 500, 800)), rng.choice((0, 0, 10))
                claim = a_named(name, milli)
                if choice < 0.55:
                    size = rng.choice((2, 3))
                    group = a_group(size, f"g{step}")
                    world.show(name, milli, *members(group, size, claim, priority=priority))
                else:
                    pod = a_pod(f"p{step}", a_shape(claim), priority=priority)
                    world.show(name, milli, pod)
            bound += len(world.held)
        evicted += world.evictions
        for name in sorted(world.pods):
            pod, *_ = world.pods[name]
            if pod.group is not None and name not in world.held:
                world.gone(name)  # gangs that wait keep places for themselves
        world.later(4000.0)
        for name, (_, asked, milli) in world.pods.items():
            assert name in world.held or not world.takes(asked, milli), f"{name} could be placed"
    assert bound
    assert evicted
