"""Jobs and their pods as the Job controller has seen them."""

from collections.abc import Sequence

from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.controller_work import ControllerRole, ControllerWork
from kubeshare_py.embedded_cluster.controllers.job_pods import owning_job
from kubeshare_py.embedded_cluster.controllers.jobs import Finished, finish_of, work_for
from kubeshare_py.embedded_cluster.controllers.object_kinds import JOBS, PODS, ObjectKind
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject


class JobCache(ControllerCache):
    """Remembers how pods ended, even after they are gone."""

    role = ControllerRole(
        component="job-controller", owner=JOBS, dependents=PODS, watched=(JOBS, PODS)
    )

    def __init__(self) -> None:
        super().__init__()
        self._finished: dict[str, dict[str, Finished]] = {}

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The work for a Job."""
        pods = self.dependents.of(owner.uid)
        return work_for(owner, pods, self._finished.get(owner.uid, {}), now)

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all Jobs or all pods."""
        super().listed(kind, found, asked_at)
        if kind == PODS:
            for pod in found:
                self._remember(pod)

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in a Job or a pod as it is now."""
        super().seen(kind, found)
        if kind == PODS:
            self._remember(found)

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that a Job or a pod was deleted."""
        super().gone(kind, uid)
        if kind == JOBS:
            self._finished.pop(uid, None)

    def _remember(self, pod: UnstructuredObject) -> None:
        owner, end = owning_job(pod), finish_of(pod)
        if owner is not None and end is not None and (owner in self.owners or self._unlisted):
            self._finished.setdefault(owner, {})[pod.uid] = end
