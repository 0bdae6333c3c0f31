"""A PreBind plugin whose answers a test sets, pod by pod, and a machine with it."""

from collections.abc import Mapping
from typing import Any

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.storage import ObjectWrite, SelectNode
from kubeshare_py.framework.points import READY, PendingPlacement, PreBindAnswer, Wait
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine
from tests.making.driver import Driver

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
    machine.pre_binds.limits.use(*limits)
    return machine


class PreBindDriver(Driver):
    """The plugin is `patient`, and its answers by pod are `answers`."""

    def __init__(
        self,
        cards: dict[str, int],
        more: Mapping[str, Any] | None = None,
        limits: tuple[int, int] = (100, 1000),
        **node_fields: Any,
    ) -> None:
        self.patient = Patient()
        self.answers = self.patient.answers
        machine = a_patient_machine(self.patient, more, limits)
        super().__init__(cards, machine=machine, **node_fields)

    def ask_again(self, name: str) -> None:
        """The node of a pod changes, so that the plugin is asked again."""
        node = self.record(name).node
        assert node is not None
        self.machine.pre_binds.node_changed(node)
