"""ReplicaSets and their pods as the ReplicaSet controller has seen them."""

from functools import partial

from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import ControllerRole, ControllerWork
from kubeshare_py.embedded_cluster.controllers.object_kinds import PODS, REPLICA_SETS
from kubeshare_py.embedded_cluster.controllers.ownership import claim, controller_of
from kubeshare_py.embedded_cluster.controllers.replica_sets import ReplicaSetContext, work_for
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject


class ReplicaSetCache(ControllerCache):
    """A ReplicaSet whose pods were refused reports it in its status before it tries again."""

    role = ControllerRole(
        component="replicaset-controller",
        owner=REPLICA_SETS,
        dependents=PODS,
        watched=(REPLICA_SETS, PODS),
    )
    adopts = True

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The work for a ReplicaSet."""
        unowned = self.dependents.unowned(owner.metadata.namespace)
        claimed = claim(owner, REPLICA_SETS, self.dependents.of(owner.uid), unowned)
        around = ReplicaSetContext(
            siblings=partial(self._siblings, owner),
            now=now,
            refusal=self.refusals.get(owner.uid),
            may_try=owner.uid not in self.resting,
        )
        return work_for(owner, claimed, around)

    def refused(self, uid: str, why: str) -> None:
        """Record that a pod was refused, which is reported at once."""
        super().refused(uid, why)
        self.look_again(uid)

    def _siblings(self, replica_set: UnstructuredObject) -> list[UnstructuredObject]:
        """The pods of all ReplicaSets of the same controller, its own included."""
        controller = controller_of(replica_set)
        if controller is None:
            return self.dependents.of(replica_set.uid)
        return [
            pod
            for uid, other in self.owners.items()
            if (found := controller_of(other)) is not None and found.uid == controller.uid
            for pod in self.dependents.of(uid)
        ]
