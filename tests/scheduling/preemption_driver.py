"""A machine on a cluster, and who goes for whom in it."""

from dataclasses import replace
from typing import Any

from kubeshare_py.domain.effects import Bind, Effect, Evict, Nominate, Preempt
from kubeshare_py.domain.events import Event, PodGone, PodSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from tests.builders import a_claim, a_pod, a_shape
from tests.scheduling.gang_driver import GangDriver


class PreemptionDriver(GangDriver):
    """`victims` are those asked to go, by name, in order, and `notes` what their owners are told.

    `nominated` says who was told which node.
    """

    def __init__(self, cards: dict[str, int], document: object = None) -> None:
        self.victims: list[str] = []
        self.nominated: dict[str, str | None] = {}
        self.plans: list[Preempt] = []
        self.notes: list[str] = []
        self.binds: list[Bind] = []
        super().__init__(cards, document or {})

    def tell(self, *events: Event) -> list[Effect]:
        effects = super().tell(*events)
        for effect in effects:
            if isinstance(effect, Evict):
                self.victims.append(effect.key.name)
                self.notes.append(effect.note)
            elif isinstance(effect, Nominate):
                self.nominated[effect.key.name] = effect.node
            elif isinstance(effect, Preempt):
                self.plans.append(effect)
            elif isinstance(effect, Bind):
                self.binds.append(effect)
        return effects

    def fill(self, *pods: Pod) -> None:
        """Pods that are bound, and nobody remembers how."""
        for pod in pods:
            self.bound(self.show(pod), pod)

    def leaves(self, name: str) -> None:
        """The API server shows that a pod is being deleted."""
        pod = self.machine.records[PodUid(f"uid-{name}")].pod
        self.tell(PodSeen(replace(pod, deleting=True)))
        self.turn()

    def left(self, *names: str) -> list[Bind]:
        """Pods are gone."""
        self.tell(*(PodGone(PodUid(f"uid-{name}")) for name in names))
        return self.turn()


def pod(name: str, milli: int = 1000, priority: int = 0, **fields: Any) -> Pod:
    """A pod that wants a share of one card."""
    return a_pod(name, a_shape(a_claim(milli)), priority=priority, **fields)


def two_cards() -> PreemptionDriver:
    """One with two tenants of priority 1 and 2, and one with a tenant of priority 5."""
    driver = PreemptionDriver({"n1": 2})
    driver.fill(pod("one", 500, 1), pod("two", 500, 2), pod("five", 1000, 5))
    return driver
