"""Deployments, their ReplicaSets and the pods of these, as the Deployment controller saw them."""

from collections.abc import Sequence

from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import ControllerRole, ControllerWork
from kubeshare_py.embedded_cluster.controllers.dependents import Dependents
from kubeshare_py.embedded_cluster.controllers.deployments import DeploymentContext, work_for
from kubeshare_py.embedded_cluster.controllers.object_kinds import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    ObjectKind,
)
from kubeshare_py.embedded_cluster.controllers.ownership import claim
from kubeshare_py.embedded_cluster.controllers.rollouts import RECREATE
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject, is_finished


class DeploymentCache(ControllerCache):
    """Pods matter only to Deployments that wait for the last old one."""

    role = ControllerRole(
        component="deployment-controller",
        owner=DEPLOYMENTS,
        dependents=REPLICA_SETS,
        watched=(DEPLOYMENTS, REPLICA_SETS, PODS),
    )
    adopts = True

    def __init__(self) -> None:
        super().__init__()
        self._pods = Dependents(REPLICA_SETS.kind, self._pods_changed)

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """What a Deployment needs."""
        namespace = owner.metadata.namespace
        owned, unowned = self.dependents.of(owner.uid), self.dependents.unowned(namespace)
        around = DeploymentContext(
            names=self.dependents.names(namespace), has_pods=self._has_pods, now=now
        )
        return work_for(owner, claim(owner, DEPLOYMENTS, owned, unowned), around)

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all objects of a kind."""
        super().listed(kind, found, asked_at)
        if kind == PODS:
            self._pods.listed(found, asked_at)

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        super().seen(kind, found)
        if kind == PODS:
            self._pods.seen(found)

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that an object was deleted."""
        super().gone(kind, uid)
        if kind == PODS:
            self._pods.gone(uid)
            self._pods.all_answered()  # this controller creates no pods

    def _has_pods(self, replica_set: UnstructuredObject) -> bool:
        return any(not is_finished(pod) for pod in self._pods.of(replica_set.uid))

    def _pods_changed(self, replica_set: str) -> None:
        for uid, owner in self.owners.items():
            waits = owner.spec.get("strategy", {}).get("type") == RECREATE
            if waits and any(one.uid == replica_set for one in self.dependents.of(uid)):
                self.look_again(uid)
