"""A machine on a cluster, and gangs that a test makes in a line."""

from dataclasses import replace
from typing import Any

from kubeshare_py.domain.effects import Bind, Evict, ReportPodWarning, ReportWaiting
from kubeshare_py.domain.events import BindSlotsFree, Bound, PodGone, PodSeen
from kubeshare_py.domain.pod import Pod, PodGroup
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from tests.builders import a_claim, a_pod, a_shape
from tests.scheduling.driver import Driver


def a_group(minimum: int, name: str = "g", headcount: int = 0) -> PodGroup:
    """A group with this minimum."""
    return PodGroup(name=name, headcount=headcount or minimum, min_available=minimum)


def members(
    group: PodGroup, count: int, claim: GpuClaim | None = None, start: int = 0, **fields: Any
) -> list[Pod]:
    """Pods of a group, each with a whole card's share, named after it."""
    shape = a_shape(claim or a_claim(1000))
    numbers = range(start, start + count)
    return [a_pod(f"{group.name}-{number}", shape, group=group, **fields) for number in numbers]


class GangDriver(Driver):
    """What the machine wants is kept by kind; `settle` lets it do all that time makes it do."""

    def __init__(
        self,
        cards: dict[str, int],
        document: object = None,
        rules: RepairRules | None = None,
        machine: Machine | None = None,
        **node_fields: Any,
    ) -> None:
        super().__init__(cards, document, rules=rules, machine=machine, **node_fields)
        self.told: dict[str, str] = {}
        self.evicted: list[str] = []
        self.troubles: list[str] = []

    def show(self, *pods: Pod) -> list[Bind]:
        """The watch shows pods; what is bound because of it."""
        self.tell(*(PodSeen(pod) for pod in pods))
        return self.turn()

    def gone(self, *pods: Pod) -> list[Bind]:
        """The watch shows that pods were deleted."""
        self.tell(*(PodGone(pod.uid) for pod in pods))
        return self.turn()

    def turn(self) -> list[Bind]:
        """Decide until nothing is left to do at once."""
        binds: list[Bind] = []
        for _ in range(1000):
            for effect in self.tell(BindSlotsFree(64)):
                if isinstance(effect, Bind):
                    binds.append(effect)
                elif isinstance(effect, ReportWaiting):
                    self.told[effect.key.name] = effect.diagnosis.message
                elif isinstance(effect, Evict):
                    self.evicted.append(effect.key.name)
                elif isinstance(effect, ReportPodWarning):
                    self.troubles.append(effect.key.name)
            wake_at = self.machine.wake_at(self.now)
            if wake_at is None or wake_at > self.now or self.machine.unanswered >= 64:
                return binds
        raise AssertionError("never idle")

    def later(self, seconds: float) -> list[Bind]:
        """Time passes, and the machine is woken whenever it wants to be."""
        end = self.now + seconds
        binds: list[Bind] = []
        for _ in range(1000):
            wake_at = self.machine.wake_at(self.now)
            if wake_at is None or wake_at > end:
                self.now = end
                return binds + self.turn()
            self.now = max(self.now, wake_at)
            binds += self.turn()
        raise AssertionError("never idle")

    def bound(self, binds: list[Bind], *pods: Pod) -> list[Bind]:
        """All these Binds are stored, and seen."""
        known = {pod.uid: pod for pod in pods}
        for bind in binds:
            self.answer(bind, Bound())
            pod = known.get(bind.uid) or self.machine.records[bind.uid].pod
            self.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
        return self.turn()


def names(binds: list[Bind]) -> list[str]:
    """Which pods are bound, sorted."""
    return sorted(bind.key.name for bind in binds)
