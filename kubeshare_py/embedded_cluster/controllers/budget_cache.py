"""PodDisruptionBudgets, pods and their controllers, as the disruption controller has seen them."""

from collections.abc import Sequence

from kubeshare_py.embedded_cluster.controllers.budgets import Controlled, NoScale, work_for
from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import ControllerRole, ControllerWork
from kubeshare_py.embedded_cluster.controllers.object_kinds import (
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    ObjectKind,
)
from kubeshare_py.embedded_cluster.controllers.ownership import controller_of
from kubeshare_py.embedded_cluster.controllers.unstructured import Owner, UnstructuredObject
from kubeshare_py.embedded_cluster.protocol.label_selectors import selects


class BudgetCache(ControllerCache):
    """Marks a budget for work when its pods change, or any controller of its namespace."""

    role = ControllerRole(
        component="controllermanager",
        owner=BUDGETS,
        dependents=PODS,
        watched=(BUDGETS, PODS, REPLICA_SETS, DEPLOYMENTS),
    )

    def __init__(self) -> None:
        super().__init__()
        self._scaled: dict[ObjectKind, dict[str, UnstructuredObject]] = {
            REPLICA_SETS: {},
            DEPLOYMENTS: {},
        }

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The writes for a budget."""
        matches = selects(owner.spec.get("selector"))
        around = self.dependents.within(owner.metadata.namespace)
        pods = [pod for pod in around if matches(pod.metadata.labels)]
        return work_for(owner, pods, self._controller, now)

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all objects of a kind."""
        super().listed(kind, found, asked_at)
        if kind in self._scaled:
            self._scaled[kind] = {one.uid: one for one in found}
        for uid in self.owners:
            self.look_again(uid)

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        if kind == PODS:
            before = self.dependents.get(found.uid)
            for pod in (found, before or found):
                self.look_at_selectors_of(pod)
        elif kind in self._scaled:
            self._scaled[kind][found.uid] = found
            self.look_at_namespace(found.metadata.namespace)
        super().seen(kind, found)

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that an object was deleted."""
        pod = self.dependents.get(uid)
        if kind == PODS and pod is not None:
            self.look_at_selectors_of(pod)
        elif kind in self._scaled and (known := self._scaled[kind].pop(uid, None)) is not None:
            self.look_at_namespace(known.metadata.namespace)
        super().gone(kind, uid)

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
        return self._scaled[kind].get(owner.uid) if owner.kind == kind.kind else None
