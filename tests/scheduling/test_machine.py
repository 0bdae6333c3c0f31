"""What the machine does with one event after another."""

from dataclasses import replace

from kubeshare_py.domain.effects import Bind, Effect
from kubeshare_py.domain.events import BindSlotsFree, Event, PodGone, PodSeen
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.machine import Machine
from tests.builders import a_claim, a_cluster, a_machine, a_pod, a_shape


class Driver:
    """A machine on a cluster, told things and asked to decide."""

    def __init__(self, cards: dict[str, int]) -> None:
        self.machine: Machine = a_machine()
        self.now = 0.0
        self.tell(*a_cluster(cards))

    def tell(self, *events: Event) -> list[Effect]:
        return [effect for event in events for effect in self.machine.handle(event, self.now)]

    def decide(self) -> list[Bind]:
        effects = self.tell(BindSlotsFree(64))
        return [effect for effect in effects if isinstance(effect, Bind)]

    def place(self, pod: Pod) -> Bind:
        self.tell(PodSeen(pod))
        (bind,) = self.decide()
        self.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
        return bind


def test_a_freed_card_wakes_the_pod_that_it_may_help_at_once() -> None:
    driver = Driver({"n1": 1})
    first = a_pod("first", a_shape(a_claim(700)))
    driver.place(first)
    driver.tell(PodSeen(a_pod("second", a_shape(a_claim(600)))))
    assert driver.decide() == []
    driver.tell(PodGone(first.uid))
    assert [bind.key.name for bind in driver.decide()] == ["second"]
