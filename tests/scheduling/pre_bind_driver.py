"""A machine with a PreBind plugin whose answers a test sets, pod by pod."""

from collections.abc import Mapping
from typing import Any

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.effects import Effect, WriteObject
from kubeshare_py.domain.events import ObjectWritten, WriteOutcome
from kubeshare_py.domain.needs.object_writes import ObjectWrite, SelectNode
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.points import READY, PendingPlacement, PreBindAnswer, Wait
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.binding.pre_bind_limits import PreBindLimits
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.builders import a_pod
from tests.scheduling.gang_driver import GangDriver

FOR_S = 600.0
NO_PREEMPTION = {"postFilter": {"disabled": [{"name": "*"}]}}


def select(claim: str, version: str = "1", node: str = "n1") -> SelectNode:
    """A write about a claim."""
    return SelectNode(namespace="default", claim=claim, version=version, node=node)


def waits(*writes: ObjectWrite, for_s: float = FOR_S, what: str = "a volume") -> Wait:
    """An answer that requests these writes."""
    return Wait(sentence=what, writes=writes, for_s=for_s, late="it took too long")


class Patient:
    """Answers as the test says, by the pod's name; Ready for the others."""

    name = "Patient"

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str, tuple[ObjectWrite, ...]]] = []

    def pre_bind(self, pod: Pod, row: Rows, placement: PendingPlacement) -> PreBindAnswer:
        (name,) = row.names
        self.asked.append((pod.key.name, name or "", placement.written))
        answer: PreBindAnswer = self.answers.get(pod.key.name, READY)
        return answer


def a_patient_machine(
    patient: object, more: Mapping[str, Any] | None = None, limits: tuple[int, int] = (100, 1000)
) -> Machine:
    """A machine with this plugin at preBind, and no preemption but with `more` points."""
    points = {"preBind": {"enabled": [{"name": "Patient"}]}, **(more or NO_PREEMPTION)}
    configuration = read({"profiles": [{"plugins": points}]})
    machine = Machine(profiles(configuration, {**IN_TREE, "Patient": lambda: patient}), "test")
    machine.pre_binds.limits = PreBindLimits(*limits)
    return machine


class PreBindDriver(GangDriver):
    """The plugin's answers are in `answers`; what it requests is in `writes`."""

    def __init__(
        self,
        cards: dict[str, int],
        more: Mapping[str, Any] | None = None,
        limits: tuple[int, int] = (100, 1000),
        **node_fields: Any,
    ) -> None:
        self.patient = Patient()
        self.answers = self.patient.answers
        self.writes: list[WriteObject] = []
        machine = a_patient_machine(self.patient, more, limits)
        super().__init__(cards, machine=machine, **node_fields)

    def tell(self, *events: Any) -> list[Effect]:
        effects = super().tell(*events)
        self.writes += [effect for effect in effects if isinstance(effect, WriteObject)]
        return effects

    def wrote(
        self, outcome: WriteOutcome = WriteOutcome.DONE, message: str = "", at: int = -1
    ) -> None:
        """The API server answers the last write, or another one."""
        effect = self.writes[at]
        self.tell(ObjectWritten(effect.uid, effect.token, effect.write, outcome, message))

    def ask_again(self, name: str) -> None:
        """The node of a pod changes, so that the plugin is asked again."""
        record = self.machine.records[a_pod(name).uid]
        assert record.node is not None
        self.machine.pre_binds.node_changed(record.node)

    def states(self, *names: str) -> list[PodState]:
        """The states of these pods."""
        return [self.machine.records[a_pod(name).uid].state for name in names]

    def is_charged(self, name: str) -> bool:
        """Whether a pod holds a place."""
        return self.machine.ledger.charge_of(a_pod(name).uid) is not None
