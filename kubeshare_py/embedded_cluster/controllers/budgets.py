"""The status of a PodDisruptionBudget: how many of its pods may be evicted now.

After https://kubernetes.io/docs/concepts/workloads/pods/disruptions/. Left out: removing the
condition DisruptionTarget from pods that were not deleted after all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.controller import (
    ControllerCache,
    ControllerEvent,
    ControllerRole,
    ControllerWork,
    MaybeObject,
    controller_of,
    status_patch,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    Json,
    ObjectKind,
    Owner,
    UnstructuredObject,
    condition_of,
    is_ready,
)
from kubeshare_py.embedded_cluster.protocol.quantities import amount_of
from kubeshare_py.embedded_cluster.protocol.selectors import selects
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.views.ages import seconds

ALLOWED, FAILED = "DisruptionAllowed", "SyncFailed"
#: Seconds after which a pod with a granted eviction that still exists counts again.
DELETION_S = 120.0
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status "
    "of the PDB cannot be calculated correctly, which may result in undefined behavior. To account "
    'for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


class NoScale(Exception):
    """The expected number of pods is unknown; the text says why."""


@dataclass(frozen=True, slots=True)
class Controlled:
    """The controller of a pod, and its scale."""

    uid: str
    scale: int


#: Finds a pod's controller; None if it has none; raises NoScale.
FindController = Callable[[UnstructuredObject], Controlled | None]


@dataclass(frozen=True, slots=True)
class _BudgetTarget:
    expected: int
    healthy: int
    unmanaged: bool = False


def work_for(
    budget: UnstructuredObject,
    pods: Sequence[UnstructuredObject],
    controller: FindController,
    now: float,
) -> ControllerWork:
    """The writes for a budget, given the pods that it selects."""
    events = [] if pods else [ControllerEvent("Normal", "NoPods", "No matching pods found")]
    try:
        target = _target(budget.spec, pods, controller)
    except NoScale as problem:
        return _failed(budget, str(problem), now)
    if target.unmanaged:
        events.append(ControllerEvent("Warning", "UnmanagedPods", _UNMANAGED))
    disrupted = _disrupted(budget, pods, now)
    status = _status(budget, target, _healthy(pods, disrupted), disrupted, now)
    patch = status_patch(budget, status)
    until = (seconds(text) + DELETION_S for text in disrupted.values())
    return ControllerWork(
        status=patch,
        events=tuple(events) if patch is not None else (),
        look_at=min(until, default=None),
    )


def allowed_condition(present: Sequence[Json], status: Json, generation: int, now: float) -> Json:
    """The condition DisruptionAllowed that goes with a status; times are kept if it stays so."""
    enough = status["disruptionsAllowed"] > 0
    before = next((one for one in present if one.get("type") == ALLOWED), {})
    return _condition(before, enough, "SufficientPods" if enough else "InsufficientPods", now) | (
        {"observedGeneration": generation} if generation else {}
    )


def _condition(before: Json, holds: bool, reason: str, now: float) -> Json:
    status = "True" if holds else "False"
    changed = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": ALLOWED,
        "status": status,
        "lastTransitionTime": changed or timestamp(now),
        "reason": reason,
        "message": "",
    }


def _target(
    spec: Json, pods: Sequence[UnstructuredObject], controller: FindController
) -> _BudgetTarget:
    """The expected number of pods, and the needed number of healthy ones."""
    most_missing, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most_missing is None and not isinstance(least, str):
        return _BudgetTarget(len(pods) if least is not None else 0, least or 0)
    scales: dict[str, int] = {}
    unmanaged = False
    for pod in pods:
        found = controller(pod)
        unmanaged = unmanaged or found is None
        if found is not None:
            scales[found.uid] = found.scale
    expected = sum(scales.values())
    if most_missing is None:
        return _BudgetTarget(expected, amount_of(least, expected, up=True), unmanaged)
    healthy = max(expected - amount_of(most_missing, expected, up=True), 0)
    return _BudgetTarget(expected, healthy, unmanaged)


def _disrupted(
    budget: UnstructuredObject, pods: Sequence[UnstructuredObject], now: float
) -> dict[str, str]:
    """Pods with a granted eviction whose deletion no watch has shown yet."""
    granted = budget.status.get("disruptedPods") or {}
    names = (pod.metadata.name for pod in pods if pod.metadata.deletionTimestamp is None)
    return {
        name: granted[name]
        for name in names
        if name in granted and seconds(granted[name]) + DELETION_S >= now
    }


def _healthy(pods: Sequence[UnstructuredObject], disrupted: dict[str, str]) -> int:
    return sum(
        is_ready(pod)
        for pod in pods
        if pod.metadata.deletionTimestamp is None and pod.metadata.name not in disrupted
    )


def _status(
    budget: UnstructuredObject,
    target: _BudgetTarget,
    healthy: int,
    disrupted: dict[str, str],
    now: float,
) -> Json:
    spare = max(healthy - target.healthy, 0) if target.expected > 0 else 0
    generation = budget.metadata.generation
    status: Json = {
        "currentHealthy": healthy,
        "desiredHealthy": target.healthy,
        "disruptionsAllowed": spare,
        "expectedPods": target.expected,
    }
    if generation:
        status["observedGeneration"] = generation
    if disrupted:
        status["disruptedPods"] = disrupted
    present = budget.status.get("conditions") or []
    fresh = allowed_condition(present, status, generation, now)
    return {**status, "conditions": [*_others(present), fresh]}


def _failed(budget: UnstructuredObject, why: str, now: float) -> ControllerWork:
    """The status while the number of pods is unknown: no eviction is granted."""
    present = budget.status.get("conditions") or []
    condition = {**_condition(condition_of(budget, ALLOWED), False, FAILED, now), "message": why}
    if observed := budget.status.get("observedGeneration"):
        condition["observedGeneration"] = observed
    conditions = [*_others(present), condition]
    status = {**budget.status, "disruptionsAllowed": 0, "conditions": conditions}
    patch = status_patch(budget, status)
    message = f"Failed to calculate the number of expected pods: {why}"
    event = ControllerEvent("Warning", "CalculateExpectedPodCountFailed", message)
    return ControllerWork(status=patch, events=(event,) if patch is not None else ())


def _others(conditions: Sequence[Json]) -> list[Json]:
    return [one for one in conditions if one.get("type") != ALLOWED]


# PodDisruptionBudgets, pods and their controllers, as the disruption controller has seen them.


class BudgetCache(ControllerCache):
    """Marks a budget for work when its pods change, or any controller of its namespace."""

    role = ControllerRole(
        component="controllermanager",
        owner=BUDGETS,
        dependents=PODS,
        watched=(BUDGETS, PODS, REPLICA_SETS, DEPLOYMENTS),
    )

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The writes for a budget."""
        matches = selects(owner.spec.get("selector"))
        around = self.dependents.within(owner.metadata.namespace)
        pods = [pod for pod in around if matches(pod.metadata.labels)]
        return work_for(owner, pods, self._controller, now)

    def changed(self, kind: ObjectKind, before: MaybeObject, after: MaybeObject) -> None:
        """Look at the budgets of a pod, and at those of a controller's namespace."""
        for found in (before, after):
            if kind == PODS and found is not None:
                self.look_at_selectors_of(found)
            elif kind != BUDGETS and found is not None:
                self.look_at_namespace(found.metadata.namespace)

    def _controller(self, pod: UnstructuredObject) -> Controlled | None:
        """A ReplicaSet, or the Deployment that controls it; other kinds have no scale.

        Raises NoScale.
        """
        owner = controller_of(pod)
        if owner is None:
            return None
        if owner.kind == JOBS.kind:
            raise NoScale("jobs.batch does not implement the scale subresource")
        found = self._found(REPLICA_SETS, owner)
        above = controller_of(found) if found is not None else None
        if above is not None:
            found = self._found(DEPLOYMENTS, above)
        if found is None:
            raise NoScale(f'found no controllers for pod "{pod.metadata.name}"')
        return Controlled(found.uid, int(found.spec.get("replicas", 1)))

    def _found(self, kind: ObjectKind, owner: Owner) -> UnstructuredObject | None:
        return self.known[kind].get(owner.uid) if owner.kind == kind.kind else None
