"""Watches the pods of one node.

The watch selects by `spec.nodeName`. A pod enters it when it is bound, with the annotations of its
Binding. It never leaves it alive, because its node never changes: DELETED is the pod's end. A
selector of the phase would hide that: a pod that leaves it looks deleted, in its old state.
"""

from collections.abc import Callable, Iterable
from contextlib import aclosing

from kubeshare_py.dialects.read_back import read_back
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.edges.process import decision_log
from kubeshare_py.manifests.pods.node_pod import NodePod
from kubeshare_py.manifests.watch import DELETED, Changes, Codec, ListResult, Problem, WatchLine
from kubeshare_py.node_agent.tenants import NodeTenant, Tenants

PODS = "/api/v1/pods"


class TenantWatch:
    """Keeps the pods of `node`. `on_change` is called after each batch that changes any."""

    def __init__(
        self, client: KubeClient, node: NodeName, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._client = client
        self._node = node
        self._on_change = on_change
        self._said: dict[PodUid, str] = {}
        self.tenants = Tenants()
        #: Whether the API server is in contact.
        self.is_connected = False

    async def run(self) -> None:
        """Watch for ever. While the API server is away, the pods stay as they are."""
        stream = follow(
            self._client,
            PODS,
            Codec(NodePod),
            selector={"fieldSelector": f"spec.nodeName={self._node}"},
            connected=self._connected,
        )
        async with aclosing(stream):
            async for update in stream:
                if self._take(update):
                    self._on_change()

    def _connected(self, is_connected: bool) -> None:
        self.is_connected = is_connected

    def _take(self, update: ListResult[NodePod] | Changes[NodePod]) -> bool:
        self.is_connected = True
        if isinstance(update, Changes):
            has_changed = [self._line(line) for line in update.changed]
            return any(has_changed)
        found = [one for pod in update.items if (one := tenant_of(pod)) is not None]
        undecoded = [self._undecoded(problem) for problem in update.problems]
        is_new = self.tenants.listed(found, undecoded)
        self._say(found)
        self._said = {one.uid: one.problem for one in found if one.problem}
        return is_new

    def _line(self, line: WatchLine[NodePod]) -> bool:
        if line.item is None:
            uid = self._undecoded(line.problem or Problem(text=""))
            return line.type == DELETED and self.tenants.changed(uid, None)
        tenant = None if line.type == DELETED else tenant_of(line.item)
        uid = PodUid(line.item.metadata.uid)
        if tenant is None:
            self._said.pop(uid, None)
        else:
            self._say([tenant])
        return self.tenants.changed(uid, tenant)

    def _undecoded(self, problem: Problem) -> PodUid:
        pod = f"{problem.namespace}/{problem.name}"
        decision_log.warn("pod", pod=pod, message=problem.text)
        return PodUid(problem.uid)

    def _say(self, tenants: Iterable[NodeTenant]) -> None:
        """Log each problem of a pod once."""
        for one in tenants:
            if one.problem and self._said.get(one.uid) != one.problem:
                self._said[one.uid] = one.problem
                decision_log.warn("allocation", pod=str(one.key), message=one.problem)


def tenant_of(pod: NodePod) -> NodeTenant | None:
    """The pod with what it holds; None if it is not bound, or has ended and holds nothing."""
    if not pod.may_hold:
        return None
    about = pod.metadata
    held = read_back(about.annotations or {})
    return NodeTenant(
        uid=PodUid(about.uid),
        key=PodKey(about.namespace, about.name),
        allocation=held.allocation,
        problem=held.problem,
        is_running=pod.status.phase == "Running",
    )
