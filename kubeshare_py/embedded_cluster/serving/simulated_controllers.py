"""The controllers that a simulated cluster needs, as plain clients of the API.

Jobs, ReplicaSets, Deployments, StatefulSets, disruption budgets, volumes, device claims and garbage
collection. They share one watch per kind.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.embedded_cluster.claims.claim_cache import ClaimCache
from kubeshare_py.embedded_cluster.claims.device_claims import PodClaimCache, ReservationCache
from kubeshare_py.embedded_cluster.claims.ephemeral_volumes import EphemeralVolumeCache
from kubeshare_py.embedded_cluster.claims.provisioning import ProvisionerCache, ReclaimCache
from kubeshare_py.embedded_cluster.claims.volume_cache import VolumeCache
from kubeshare_py.embedded_cluster.controllers.budget_cache import BudgetCache
from kubeshare_py.embedded_cluster.controllers.controller_cache import ControllerCache
from kubeshare_py.embedded_cluster.controllers.deployment_cache import DeploymentCache
from kubeshare_py.embedded_cluster.controllers.job_cache import JobCache
from kubeshare_py.embedded_cluster.controllers.object_kinds import (
    CLAIMS,
    DEPLOYMENTS,
    DEVICE_CLAIMS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ObjectKind,
)
from kubeshare_py.embedded_cluster.controllers.replica_set_cache import ReplicaSetCache
from kubeshare_py.embedded_cluster.controllers.stateful_sets import StatefulSetCache
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.serving.controller_worker import ControllerWorker
from kubeshare_py.embedded_cluster.serving.custom_collection import CustomCollection
from kubeshare_py.embedded_cluster.serving.garbage_collector import GarbageCollector
from kubeshare_py.embedded_cluster.serving.unstructured_watch import Listener, listen
from kubeshare_py.manifests.watch import ListResult

#: Seconds until failed work is repeated.
RETRY_S = 2.0

#: Those of kube-controller-manager.
CONTROLLERS: tuple[type[ControllerCache], ...] = (
    JobCache,
    ReplicaSetCache,
    DeploymentCache,
    StatefulSetCache,
    BudgetCache,
    ClaimCache,
    VolumeCache,
    EphemeralVolumeCache,
    PodClaimCache,
    ReservationCache,
)
#: A storage driver's, which no control plane brings along.
DRIVERS: tuple[type[ControllerCache], ...] = (ProvisionerCache, ReclaimCache)
#: Kinds that may own objects, or be owned.
_COLLECTED = (PODS, JOBS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, CLAIMS, DEVICE_CLAIMS)


class SimulatedControllers:
    """The part of kube-controller-manager that a cluster like this one needs, and its drivers."""

    def __init__(
        self,
        client: KubeClient,
        *,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.time,
        drivers_only: bool = False,
    ) -> None:
        """Refused work is repeated after `retry_s`. `clock` gives Unix time (s).

        With `drivers_only`, others do the work of kube-controller-manager.
        """
        self._client = client
        caches = DRIVERS if drivers_only else (*CONTROLLERS, *DRIVERS)
        self._collected = () if drivers_only else _COLLECTED
        self._workers = [ControllerWorker(client, cache(), retry_s, clock) for cache in caches]
        self._collector = GarbageCollector(client, self._collected, retry_s)
        self._custom = CustomCollection(client, self._collector.garbage, self._collector.news)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._watched():
                listener = Listener(
                    listed=partial(self._listed, kind),
                    seen=partial(self._seen, kind),
                    gone=partial(self._gone, kind),
                    news=self._news,
                )
                group.create_task(listen(self._client, kind.path, listener))
            if self._collected:
                group.create_task(self._collector.run())
                group.create_task(self._custom.run())
            for worker in self._workers:
                group.create_task(worker.run())

    def _watched(self) -> list[ObjectKind]:
        """Each kind that a worker or the garbage collector follows, once."""
        roles = (worker.cache.role for worker in self._workers)
        watched = (kind for role in roles for kind in role.watched)
        return [*dict.fromkeys((*self._collected, *watched))]

    def _listed(self, kind: ObjectKind, found: ListResult[UnstructuredObject]) -> None:
        if kind in self._collected:
            self._collector.garbage.listed(kind, found.items)
        for worker in self._workers_for(kind):
            worker.cache.listed(kind, found.items, found.asked_at)

    def _seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        if kind in self._collected:
            self._collector.garbage.seen(kind, found)
        for worker in self._workers_for(kind):
            worker.cache.seen(kind, found)

    def _gone(self, kind: ObjectKind, uid: str) -> None:
        if kind in self._collected:
            self._collector.garbage.gone(uid)
        for worker in self._workers_for(kind):
            worker.cache.gone(kind, uid)

    def _news(self) -> None:
        self._collector.news()
        for worker in self._workers:
            worker.news()

    def _workers_for(self, kind: ObjectKind) -> list[ControllerWorker]:
        return [worker for worker in self._workers if kind in worker.cache.role.watched]
