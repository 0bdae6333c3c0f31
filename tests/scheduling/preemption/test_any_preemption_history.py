"""Any history in which urgent pods push others out: nobody is evicted who need not give way."""

import random

import pytest

from kubeshare_py.domain.effects import Evict, Nominate, Preempt
from kubeshare_py.domain.events import Event, PodGone
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import a_machine
from tests.making.world import World
from tests.scale import seeds
from tests.scheduling.test_any_history import some_steps


class PreemptionWorld(World):
    """The API server deletes who is to be evicted, sooner or later; some not at all for long."""

    def __init__(self, seed: int, document: object = None) -> None:
        super().__init__()
        self.machine = a_machine(document or {})
        self.numbers = random.Random(seed)
        self.evicted: set[PodUid] = set()
        self.nominated: set[PodUid] = set()
        self.settling = False
        self.leaving: list[PodUid] = []

    def tell(self, event: Event) -> None:
        super().tell(event)
        for effect in self.log[-1][2]:
            if isinstance(effect, Preempt):
                self._check(effect)
            elif isinstance(effect, Evict):
                self.leaving.append(effect.uid)
            elif isinstance(effect, Nominate):
                (self.nominated.discard if effect.node is None else self.nominated.add)(effect.uid)

        assert self.machine.preemption.ranks.lowest() == self._lowest(), "as all pods say"

    def _lowest(self) -> tuple[int, bool] | None:
        """The rank of the least important bound pod, by a walk over all of them."""
        staying = [
            record.pod
            for record in self.machine.records.values()
            if record.state is PodState.BOUND and not record.pod.deleting and not record.evicted
        ]
        return min(((pod.priority, pod.label_priority > 0) for pod in staying), default=None)

    def deliver(self, which: int, how: int) -> None:
        if self.settling or self.numbers.random() < 0.3:
            leaving, self.leaving = self.leaving, []
            for uid in leaving:
                if self.stored.pop(uid, None) is not None:
                    self.watch.append(PodGone(uid))
        super().deliver(which, how)

    def settle(self) -> None:
        """Searches that are in vain go on for ever: what counts is that nothing comes of them."""
        self.settling = True
        quiet = 0
        for _ in range(100):
            _, silent = self.round()
            quiet = quiet + 1 if silent and not self.watch else 0
            if quiet == 5:
                return
        raise AssertionError("never settles")

    def _check(self, effect: Preempt) -> None:
        nominee = self.reference.pods[effect.uid]
        assert effect.uid not in self.reference.held
        for victim in effect.plan.victims:
            pod = self.reference.pods[victim.uid]
            assert pod.priority < nominee.priority
            assert pod.scheduler_name == nominee.scheduler_name
            assert victim.uid in self.reference.held


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6))
def test_urgent_pods_get_their_places_and_nobody_else_is_evicted(seed: int) -> None:
    for number in range(12):
        world = PreemptionWorld(seed * 100 + number).run(some_steps(seed * 1000 + number, 80))
        assert world.reference.forgotten() == {}, f"number {number}"
        assert not world.nominated & {pod.uid for pod in world.reference.waiting()}
        assert world.machine.preemption.under_way == {}
