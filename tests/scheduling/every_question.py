"""Everything that people, monitoring and the process itself can ask a machine."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from kubeshare_py.domain.cluster_objects import GroupApi
from kubeshare_py.domain.events import NodeSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import (
    cluster_portions,
    cluster_view,
    overview,
    pod_portions,
    why,
)
from kubeshare_py.scheduling.explain.figures import (
    card_figures,
    decision_figures,
    ledger_figures,
    pod_figures,
)
from kubeshare_py.scheduling.explain.prospects import prospect_steps
from kubeshare_py.scheduling.explain.question import Sees, completed, namespaces, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record
from tests.scheduling.machine_state import objects_of

#: Of so many pods it is asked what would become of one more.
MOST_NEW = 8
#: The machine's methods that are no questions: what they are asked for is to change something.
CHANGING = {"handle", "time_plugins", "slow_plugins"}
#: Its other methods, and how to ask them; its properties are asked like those of all its parts.
OF_MACHINE: Mapping[str, Callable[[Machine, float], object]] = {
    "awaits_pod_groups": lambda machine, _: [machine.awaits_pod_groups(api) for api in GroupApi],
    "diagnosis_of": lambda machine, _: [machine.diagnosis_of(one) for one in _records(machine)],
    "doubt_about": lambda machine, _: [machine.doubt_about(one) for one in _records(machine)],
    "is_evicted": lambda machine, _: [machine.is_evicted(uid) for uid in machine.records],
    "is_known": lambda machine, _: [
        machine.is_known(NodeSeen(node)) for node in machine.ledger.columns.nodes if node
    ],
    "key_of": lambda machine, _: [machine.key_of(uid) for uid in machine.records],
    "newcomer": lambda machine, _: [
        machine.newcomer(one.pod, machine.reading())
        for one in _records(machine)
        if one.pod.scheduler_name in machine.profiles
    ],
    "node_names": lambda machine, _: [*machine.node_names()],
    "progress_of": lambda machine, _: [machine.progress_of(uid) for uid in machine.records],
    "reading": lambda machine, _: machine.reading(),
    "shape_of": lambda machine, _: [
        machine.shape_of(one.pod)
        for one in _records(machine)
        if one.pod.scheduler_name in machine.profiles
    ],
    "standing_warnings": lambda machine, _: [*machine.standing_warnings()],
    "time_since_s": lambda machine, now: machine.time_since_s(now),
    "time_until_s": lambda machine, now: machine.time_until_s(now),
    "wake_at": lambda machine, now: [machine.wake_at(now), machine.wake_at(now + 60)],
    "waiting_reports": lambda machine, _: [*machine.waiting_reports()],
}


def sees_default(namespace: str) -> bool:
    """A reader of one namespace."""
    return namespace == "default"


def questions(machine: Machine, now: float) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each question by name; asked, it is answered completely."""
    yield "cluster", lambda: cluster_view(machine)
    yield "gpus --details", lambda: [*cluster_portions(machine, topology=True, sees=sees_default)]
    yield "pods", lambda: [*pod_portions(machine), *pod_portions(machine, "default", sees_default)]
    yield "overview", lambda: overview(machine)
    yield "metrics", lambda: [*card_figures(machine), *pod_figures(machine)]
    yield "figures", lambda: (ledger_figures(machine), decision_figures(machine))
    yield "namespaces", lambda: namespaces(machine)
    for name, ask in OF_MACHINE.items():
        yield name, partial(ask, machine, now)
    records = [*machine.records.values()]
    for number, record in enumerate(records):
        pod = record.pod
        yield f"why {pod.key}", partial(why, machine, pod.key)
        yield f"why {pod.key} in part", partial(why, machine, pod.key, sees_default)
        if number < MOST_NEW:
            yield f"another {pod.key}", partial(_another, machine, pod, sees_all)
            yield f"another {pod.key} in part", partial(_another, machine, pod, sees_default)


def _another(machine: Machine, like: Pod, sees: Sees) -> object:
    """What would become of one more pod like this one."""
    pod = replace(like, uid=PodUid("one more"), node_name=None, allocation=None)
    return completed(prospect_steps(machine, pod, sees))


def ask_everything(machine: Machine, now: float) -> int:
    """Ask it all; how many questions that were."""
    return sum(1 for _, question in questions(machine, now) if question() is not question)


def _records(machine: Machine) -> list[Record]:
    return [*machine.records.values()]


def properties(machine: Machine) -> Iterator[object]:
    """The value of every public property of every object below the machine."""
    for one in objects_of(machine):
        if type(one).__module__.startswith("kubeshare_"):
            for name, kept in _public(type(one)).items():
                if isinstance(kept, property):
                    yield getattr(one, name)


def _public(kind: type) -> Mapping[str, object]:
    """What a class and those that it inherits from define, without private names."""
    return {
        name: kept
        for base in reversed(kind.__mro__)
        for name, kept in vars(base).items()
        if not name.startswith("_")
    }


def methods_of_machine() -> set[str]:
    """The names of its public methods."""
    return {name for name, kept in _public(Machine).items() if callable(kept)}
