"""Whatever users, kubelets, the network and SIGKILL do: judged by the books of a world."""

import random
from dataclasses import dataclass, field

import pytest

from kubeshare_py.domain.events import TimePassed
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.sharepods.effects import (
    EffectAnswered,
    ReportSharePod,
    RequestFailed,
    SharePodEffect,
    SharePodEvent,
    SharePodRequest,
)
from kubeshare_py.sharepods.reconciler import Reconciler, key_of
from kubeshare_py.sharepods.share_pod import ConditionType, SharePod
from tests.scale import seeds
from tests.sharepods.world import REFUSED, World

KEYS = [PodKey("default", name) for name in ("a", "b", "c")]
STEPS = 400
#: Longer than any pause after a failure.
CALM_S = 400.0


@dataclass
class History:
    """One process after the other in front of one world."""

    world: World
    rng: random.Random
    reconciler: Reconciler = field(default_factory=Reconciler)
    now: float = 0.0
    #: Requests that were not sent yet, and answers that have not arrived.
    unsent: list[SharePodRequest] = field(default_factory=list)
    unheard: list[EffectAnswered] = field(default_factory=list)
    handled: list[tuple[SharePodEvent, float]] = field(default_factory=list)
    effects: list[list[SharePodEffect]] = field(default_factory=list)
    replayed: int = 0

    def tell(self, event: SharePodEvent) -> None:
        found = self.reconciler.handle(event, self.now)
        self.handled.append((event, self.now))
        self.effects.append(found)
        self.unsent += [one for one in found if not isinstance(one, ReportSharePod)]
        asked = [key_of(one) for one in (*self.unsent, *(one.request for one in self.unheard))]
        if len(asked) != len({*asked}):
            self.world.problems.append("two requests at once for one name")

    def send(self) -> None:
        """One request arrives; its answer may be lost, as may the request."""
        if not self.unsent:
            return
        request = self.unsent.pop(self.rng.randrange(len(self.unsent)))
        luck = self.rng.random()
        lost = RequestFailed(message="no answer", retry_after_s=self.rng.choice([0.0, 3.0]))
        outcome = lost if luck < 0.1 else self.world.perform(request)
        self.unheard.append(EffectAnswered(request, lost if luck < 0.2 else outcome))

    def hear(self) -> None:
        if self.unheard:
            self.tell(self.unheard.pop(self.rng.randrange(len(self.unheard))))

    def watch(self, which: int) -> None:
        if self.world.news[which]:
            self.tell(self.world.news[which].popleft())

    def relist(self) -> None:
        for event in self.world.lists(self.now):
            self.tell(event)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        if self.reconciler.wake_at() <= self.now:
            self.tell(TimePassed())

    def kill(self) -> None:
        """SIGKILL: requests on their way may still arrive, and are answered to nobody."""
        self.replay()
        for request in self.unsent:
            if self.rng.random() < 0.5:
                self.world.perform(request)
        self.unsent, self.unheard, self.handled, self.effects = [], [], [], []
        self.reconciler = Reconciler()
        self.relist()

    def replay(self) -> None:
        """The same events have the same effects."""
        again = Reconciler()
        assert [again.handle(event, now) for event, now in self.handled] == self.effects
        self.replayed += len(self.handled)

    def step(self) -> None:
        key = self.rng.choice(KEYS)
        choices = [lambda: self.world.somebody_acts(key)] * 4 + [self.send, self.hear] * 4
        choices += [lambda: self.watch(0), lambda: self.watch(1)] * 4
        choices += [lambda: self.pass_time(self.rng.choice([0.1, 0.6, 5.0]))] * 2
        choices += [self.world.garbage]
        if self.rng.random() < 0.02:
            choices = [self.kill, self.relist]
        self.rng.choice(choices)()

    def calm_down(self) -> None:
        """Nobody does anything any more; what was begun is finished, and nothing is lost."""
        ends_at = self.now + CALM_S
        while self.now < ends_at:
            while any(self.world.news) or self.unsent or self.unheard:
                for which in (0, 1):
                    self.watch(which)
                if self.unsent:
                    request = self.unsent.pop(0)
                    outcome = self.world.perform(request)
                    self.unheard.append(EffectAnswered(request, outcome))
                self.hear()
            self.world.garbage()
            self.pass_time(0.25 if self.reconciler.wake_at() < ends_at else 50.0)


def expect_right(world: World, share: SharePod) -> None:
    """In the end each SharePod has its pod and shows it, or says why it has none."""
    pod = world.pods.get(share.key)
    synced = share.status.condition(ConditionType.SYNCED)
    if pod is not None and pod.owner == share.uid:
        assert share.status.mirror == pod.mirror
        if not (share.problem and not pod.is_bound):
            assert synced is not None
            assert synced.is_true
        ignored = share.status.condition(ConditionType.EDITS_IGNORED)
        differs = pod.field_hashes != share.template.field_hashes
        assert (ignored is not None) == (differs and pod.is_bound)
        if not (pod.is_bound or share.problem or share.is_deleting):
            assert not differs
        if pod.is_bound and not share.chooses_card_name:
            assert share.card_name == pod.card_name
        return
    if share.is_deleting or share.is_finished(share.status.mirror.phase):
        return
    assert synced is not None
    wanted = "ErrValueError" if share.problem else "ErrResourceExists"
    if pod is None and not share.problem:
        wanted = "ErrPodRefused"
        assert REFUSED in share.template.manifest.decode()
    assert (synced.is_true, synced.reason) == (False, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1000))
def test_any_history_ends_with_each_pod_made_once_and_shown(seed: int) -> None:
    rng = random.Random(seed)
    history = History(World(rng), rng)
    history.relist()
    for _ in range(STEPS):
        history.step()
    history.calm_down()
    history.replay()
    world = history.world
    assert world.problems == []
    assert history.replayed > 0
    for share in world.shares.values():
        expect_right(world, share)
    owners = {one.uid for one in world.shares.values()}
    assert all(pod.owner in owners for pod in world.pods.values() if pod.owner)
