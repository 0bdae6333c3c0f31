"""The kubelets of a simulated cluster: one HTTP client for all nodes, whatever the API server is.

They register nodes, renew Leases, start and end pods (`embedded_cluster.nodes.kubelet`), and can
be lost.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus

from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.controllers.unstructured import Json, ObjectKind
from kubeshare_py.embedded_cluster.nodes.kubelet import (
    CLAIM_KINDS,
    FinishDeletion,
    Kubelets,
    KubeletStep,
    PodSteps,
    ReportStatus,
    WriteAnnotations,
)
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import (
    SimulatedNode,
    conditions,
    lost_conditions,
    lost_taints,
    node_address,
    node_lease,
    node_metadata,
    node_object,
    node_status,
    ready_taints,
    taints,
)
from kubeshare_py.embedded_cluster.serving.api_access import Listener, listen, persist

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
#: Seconds between renewals of a kubelet's Lease.
HEARTBEAT_S = 10.0

_log = logging.getLogger(__name__)


class SimulatedKubelets:
    """All nodes of a cluster file. `run` is the process; nodes may be lost and return."""

    def __init__(
        self,
        client: KubeClient,
        nodes: Iterable[SimulatedNode],
        *,
        stop_s: float = 0.0,
        heartbeat_s: float | None = HEARTBEAT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`stop_s`: how long (s) deleted pods take to end that do not state it themselves.

        `heartbeat_s` None renews no Leases. `clock` gives Unix time (s).
        """
        self._client = client
        self._nodes: Mapping[NodeName, SimulatedNode] = {node.name: node for node in nodes}
        self._addresses = {
            name: node_address(ordinal) for ordinal, name in enumerate(self._nodes, start=1)
        }
        self._kubelets = Kubelets(self._addresses, stop_s=stop_s)
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._lost: set[NodeName] = set()
        self._news = asyncio.Event()
        self._last: dict[str, asyncio.Task[None]] = {}
        #: Set when all nodes are registered.
        self.registered = asyncio.Event()

    async def run(self) -> None:
        """Register the nodes, then be their kubelets until cancelled.

        Raises an ExceptionGroup of KubeError if a node cannot be registered.
        """
        async with asyncio.TaskGroup() as group:
            for node in self._nodes.values():
                group.create_task(self._register(node))
        self.registered.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            for kind in CLAIM_KINDS:
                group.create_task(self._follow_claims(kind))
            group.create_task(self._write(group))
            if self._heartbeat_s is not None:
                group.create_task(self._beat(self._heartbeat_s))

    async def lose_node(self, name: NodeName) -> None:
        """Let a node fall silent, and mark it as the node controller would after a while.

        Raises LookupError for other nodes, KubeError when the API server refuses.
        """
        self._node(name)
        self._lost.add(name)
        self._kubelets.lose(name)
        await self._mark(name, lost_conditions(self._clock()), lost=True)

    async def return_node(self, name: NodeName) -> None:
        """Let a lost node be ready again; its pods catch up. Raises as `lose_node` does."""
        self._node(name)
        self._lost.discard(name)
        ready = conditions("True", "KubeletReady", "the simulated kubelet is well", self._clock())
        await self._mark(name, ready, lost=False)
        self._kubelets.come_back(name)
        self._news.set()

    def _node(self, name: NodeName) -> SimulatedNode:
        if name not in self._nodes:
            raise LookupError(f"there is no simulated node {name}")
        return self._nodes[name]

    async def _register(self, node: SimulatedNode) -> None:
        now, address, path = self._clock(), self._addresses[node.name], f"{NODES}/{node.name}"
        try:
            made = await persist(
                partial(self._client.create, NODES, node_object(node, address, now))
            )
        except KubeError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            # Left by an earlier process, or created by our own request whose answer was lost.
            status = {"status": node_status(node, address, now)}
            made = await self._strategic(f"{path}/status", status)
            await self._merge(path, {"metadata": node_metadata(node)})
        # API servers give new nodes a not-ready taint, for a node controller to take away.
        wanted = taints(node.taints)
        if (made.get("spec", {}).get("taints") or []) != wanted:
            await self._merge(path, {"spec": {"taints": wanted or None}})

    async def _mark(self, name: NodeName, found: list[Json], *, lost: bool) -> None:
        path = f"{NODES}/{name}"
        await self._strategic(f"{path}/status", {"status": {"conditions": found}})
        node = await persist(partial(self._client.get, path))
        present = node.get("spec", {}).get("taints") or []
        changed = lost_taints(present, self._clock()) if lost else ready_taints(present)
        await self._merge(path, {"spec": {"taints": changed or None}})

    async def _follow(self) -> None:
        listener = Listener(
            listed=lambda found: self._kubelets.pods_listed(found.items, self._clock()),
            seen=lambda pod: self._kubelets.pod_seen(pod, self._clock()),
            gone=self._kubelets.pod_gone,
            news=self._news.set,
        )
        bound = {"fieldSelector": "spec.nodeName!="}
        await listen(self._client, "/api/v1/pods", listener, selector=bound)

    async def _follow_claims(self, kind: ObjectKind) -> None:
        claims = self._kubelets.claims
        listener = Listener(
            listed=lambda found: claims.listed(kind, found.items),
            seen=partial(claims.seen, kind),
            gone=partial(claims.gone, kind),
            news=self._look_at_claims,
        )
        await listen(self._client, kind.path, listener)

    def _look_at_claims(self) -> None:
        self._kubelets.claims_changed(self._clock())
        self._news.set()

    async def _write(self, group: asyncio.TaskGroup) -> None:
        """Perform due steps, and look again after each event."""
        while True:
            self._news.clear()
            for work in self._kubelets.due(self._clock()):
                self._last[work.uid] = group.create_task(
                    self._perform(work, self._last.get(work.uid))
                )
            wake = self._kubelets.wake_at()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wake is None else wake - self._clock()):
                    await self._news.wait()

    async def _perform(self, work: PodSteps, earlier: asyncio.Task[None] | None) -> None:
        """Write one pod's steps, after its earlier ones."""
        if earlier is not None:
            await asyncio.wait([earlier])
        try:
            for step in work.steps:
                await self._send(work.pod, work.uid, step)
        except KubeError as error:
            if not error.is_gone:
                _log.warning("pod %s: %s", work.pod, error)
        if self._last.get(work.uid) is asyncio.current_task():
            del self._last[work.uid]

    async def _send(self, pod: PodKey, uid: str, step: KubeletStep) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        match step:
            case WriteAnnotations(annotations):
                metadata = {"uid": uid, "annotations": dict(annotations)}
                await self._merge(path, {"metadata": metadata})
            case ReportStatus(body):
                await self._strategic(f"{path}/status", {"metadata": {"uid": uid}, **body})
            case FinishDeletion():
                await persist(partial(self._client.delete, path, uid=uid, grace_period_s=0))

    async def _beat(self, every_s: float) -> None:
        """Renew each node's Lease at once, then once per `every_s`, one after the other."""
        for name in self._nodes:
            await self._renew(name)
        while self._nodes:
            for name in self._nodes:
                await asyncio.sleep(every_s / len(self._nodes))
                if name not in self._lost:
                    await self._renew(name)

    async def _renew(self, name: NodeName) -> None:
        lease = node_lease(name, self._clock())
        try:
            try:
                await self._merge(f"{LEASES}/{name}", {"spec": lease["spec"]})
            except KubeError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                await persist(partial(self._client.create, LEASES, lease))
        except KubeError as error:
            _log.warning("lease of node %s: %s", name, error)

    async def _merge(self, path: str, body: Json) -> Json:
        return await persist(partial(self._client.merge_patch, path, body))

    async def _strategic(self, path: str, body: Json) -> Json:
        return await persist(partial(self._client.strategic_patch, path, body))
