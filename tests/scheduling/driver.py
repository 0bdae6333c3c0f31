"""A machine on a cluster, told things and asked to decide."""

from dataclasses import replace
from typing import Any

from kubeshare_py.domain.effects import Bind, Effect
from kubeshare_py.domain.events import BindAnswered, BindOutcome, BindSlotsFree, Event, PodSeen
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_repair import RepairRules
from tests.builders import a_cluster, a_machine


class Driver:
    """Nodes with so many cards each, and a machine that knows them. `now` is the test's to set."""

    def __init__(
        self,
        cards: dict[str, int],
        document: object = None,
        rules: RepairRules | None = None,
        machine: Machine | None = None,
        **node_fields: Any,
    ) -> None:
        self.machine = machine or a_machine(document, rules)
        self.now = 0.0
        self.tell(*a_cluster(cards, **node_fields))

    def tell(self, *events: Event) -> list[Effect]:
        return [effect for event in events for effect in self.machine.handle(event, self.now)]

    def decide(self, slots: int = 64) -> list[Bind]:
        effects = self.tell(BindSlotsFree(slots))
        return [effect for effect in effects if isinstance(effect, Bind)]

    def seen(self, pod: Pod) -> list[Bind]:
        self.tell(PodSeen(pod))
        return self.decide()

    def answer(self, bind: Bind, outcome: BindOutcome) -> list[Effect]:
        return self.tell(BindAnswered(bind.uid, bind.allocation.token, outcome))

    def place(self, pod: Pod) -> Bind:
        """The pod is seen, placed, and seen bound."""
        (bind,) = self.seen(pod)
        self.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
        return bind
