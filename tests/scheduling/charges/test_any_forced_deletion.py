"""Any history with pods that vanish: no card is given away within their grace periods, or kept."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given

from kubeshare_py.domain.events import (
    BindAnswered,
    Bound,
    Event,
    NodeGone,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import a_machine
from tests.making.world import Step, World
from tests.scale import examples, seeds
from tests.scheduling.reference_model import Holding, ReferenceModel
from tests.scheduling.test_any_history import STEPS, some_steps

#: The longest time for which the machine is to hold a card, and grace periods around it (s).
MAX_S, GRACES = 20.0, (0, 2, 15, 40)


@dataclass
class VanishedReference(ReferenceModel):
    """As other books; what a pod that vanished held of cards is a holding of its ghost."""

    now: float = 0.0
    #: When its deletion was seen first, with what grace period, and whether its containers ended.
    leaves_by: dict[PodUid, float] = field(default_factory=dict)
    ended: set[PodUid] = field(default_factory=set)
    answered: set[PodUid] = field(default_factory=set)
    ghosts: dict[PodUid, float] = field(default_factory=dict)
    #: How many ghosts there were: some must be.
    count: int = 0
    missing: bool = False

    def event(self, event: Event, now: float) -> None:
        """The machine is told this; it ends first what is over."""
        self.now = now
        for uid in [uid for uid, until in self.ghosts.items() if until <= now]:
            self._lay(uid)
        match event:
            case PodGone(uid, _, stopped):
                self._stopped([uid] if stopped else [])
            case PodsListed(stopped=stopped):
                self._stopped(stopped)
                self.missing = True
            case BindAnswered(uid, token, Bound()):
                held = self.held.get(uid)
                if held is not None and held.allocation and held.allocation.token == token:
                    self.answered.add(uid)
            case NodeGone(name):
                self._without(lambda node: node == name)
            case NodesListed(nodes, unreadable):
                there = unreadable.union(node.name for node in nodes)
                self._without(lambda node: node not in there)
            case _:
                pass
        super().event(event, now)
        self.missing = False

    def _stopped(self, uids: object) -> None:
        assert isinstance(uids, list | frozenset)
        for uid in uids:
            self.ended.add(uid)
            self._lay(uid)

    def _without(self, is_gone: object) -> None:
        assert callable(is_gone)
        for uid in [uid for uid in self.ghosts if is_gone(self.held[ghost(uid)].node)]:
            self._lay(uid)

    def _lay(self, uid: PodUid) -> None:
        if self.ghosts.pop(uid, None) is not None:
            del self.held[ghost(uid)]

    def _seen(self, pod: Pod) -> None:
        self._lay(pod.uid)
        super()._seen(pod)
        if pod.node_name is not None:
            if pod.deleting:
                self.leaves_by.setdefault(pod.uid, self.now + pod.grace_s)
            if pod.stopped:
                self.ended.add(pod.uid)

    def _gone(self, uid: PodUid) -> None:
        pod, held = self.pods.get(uid), self.held.get(uid)
        super()._gone(uid)
        if pod is None or held is None or uid in self.ended or held.node not in self.nodes:
            return
        is_bound = held.settled or uid in self.answered or self.missing
        until = min(self.leaves_by.get(uid, self.now + pod.grace_s), self.now + MAX_S)
        cards = held.allocation is not None and held.allocation.cards
        if is_bound and until > self.now and (cards or held.native):
            kept = Holding(held.node, 0, held.allocation, held.native, settled=True)
            self.held[ghost(uid)] = kept
            self.ghosts[uid] = until
            self.count += 1

    def node_refusal(self, pod: Pod, name: NodeName) -> str | None:
        """A ghost takes no place among the pods of its node."""
        ghosts = {ghost(uid) for uid in self.ghosts}
        held = self.held
        self.held = {uid: one for uid, one in held.items() if uid not in ghosts}
        try:
            return super().node_refusal(pod, name)
        finally:
            self.held = held


def ghost(uid: PodUid) -> PodUid:
    """Under what a pod that vanished is in the books."""
    return PodUid(f"ghost of {uid}")


class VanishingWorld(World):
    """Pods have grace periods, and go in all ways that there are."""

    reference: VanishedReference

    def __init__(self) -> None:
        super().__init__()
        self.machine = a_machine(lingering_s=MAX_S)
        self.reference = VanishedReference()
        self.stopped: set[PodUid] = set()

    def create(self, which: int, how: int) -> None:
        super().create(which, how)
        created = self.watch.pop()
        assert isinstance(created, PodSeen)
        self._put(replace(created.pod, grace_s=GRACES[(which + how) % len(GRACES)]))

    def delete(self, which: int, how: int) -> None:
        """A pod is deleted with or without grace, or finishes; a kubelet reports some of it."""
        if not self.stored:
            return
        bound = [uid for uid, pod in self.stored.items() if pod.node_name is not None]
        uids = sorted(bound if bound and how else self.stored)
        uid = uids[which % len(uids)]
        pod = self.stored[uid]
        if pod.node_name is None:
            super().delete(which, how)
        elif how < 4:
            self._put(replace(pod, deleting=True, grace_s=GRACES[how % len(GRACES)]))
        elif how < 6:
            self._put(replace(pod, deleting=True, stopped=True))
        elif how == 6:
            del self.stored[uid]
            self.stopped.add(uid)
            self.watch.append(PodGone(uid, stopped=True))
        else:  # by force, which is written before the object goes
            self._put(replace(pod, deleting=True))
            del self.stored[uid]
            self.watch.append(PodGone(uid))

    def relist(self, which: int, how: int) -> None:
        super().relist(which, how)
        if self.asked is not None:
            self.asked = replace(self.asked, stopped=frozenset(self.stopped))

    def _put(self, pod: Pod) -> None:
        self.stored[pod.uid] = pod
        self.watch.append(PodSeen(pod))


@examples(150)
@given(STEPS)
def test_no_card_is_given_away_while_containers_may_run_on(steps: list[Step]) -> None:
    assert VanishingWorld().run(steps).reference.forgotten() == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4))
def test_in_long_histories_cards_are_held_and_always_freed(seed: int) -> None:
    ghosts = 0
    for number in range(20):
        world = VanishingWorld().run(some_steps(seed * 1000 + number, 150))
        assert world.reference.forgotten() == {}, f"number {number}"
        ghosts += world.reference.count
        world.now += MAX_S
        world.settle()
        assert not world.reference.ghosts
        assert not world.machine.ledger.lingering
    assert ghosts


@examples(50)
@given(STEPS)
def test_the_same_history_gives_the_same_effects_again(steps: list[Step]) -> None:
    world = VanishingWorld().run(steps)
    world.expect_same_effects(a_machine(lingering_s=MAX_S))
