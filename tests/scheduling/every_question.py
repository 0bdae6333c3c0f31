"""Everything that people, monitoring and the process itself can ask a machine."""

from collections.abc import Callable, Iterator
from functools import partial

from kubeshare_py.domain.group_objects import GroupApi
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
from kubeshare_py.scheduling.explain.visibility import namespaces
from kubeshare_py.scheduling.machine import Machine


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
    yield "wake_at", lambda: machine.wake_at(now)
    yield "reports", lambda: [*machine.waiting_reports(), *machine.standing_warnings()]
    yield "PodGroups", lambda: [machine.awaits_pod_groups(api) for api in GroupApi]
    yield "flags", lambda: (machine.ready, machine.unanswered, [*machine.node_names()])
    for record in [*machine.records.values()]:
        pod = record.pod
        yield f"why {pod.key}", partial(why, machine, pod.key)
        yield f"why {pod.key} in part", partial(why, machine, pod.key, sees_default)
        yield f"progress of {pod.key}", partial(machine.progress_of, pod.uid)
        yield f"whether {pod.key} is evicted", partial(machine.is_evicted, pod.uid)


def ask_everything(machine: Machine, now: float) -> int:
    """Ask it all; how many questions that were."""
    return sum(1 for _, question in questions(machine, now) if question() is not question)
