"""Books kept from pods alone, by what people wrote and what they were given; judges every state.

It knows neither the scheduler nor its allocation annotation: shares come from the label, cards,
memory and ports from the result annotations, capacities from the cluster file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import aclosing

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject, is_finished
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.manifests.watch import Codec, ListResult

WHOLE = 1000


class Observer:
    """Follows all pods. `problems` lists whatever was ever wrong, in any state they were in."""

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._capacity: dict[str, int] = {
            card.uuid: card.memory_bytes for node in nodes for card in node.cards
        }
        self._home: dict[str, str] = {card.uuid: node.name for node in nodes for card in node.cards}
        #: Bound pods by node and uid: all that a version may have made wrong is on one node.
        self._on: defaultdict[str, dict[str, UnstructuredObject]] = defaultdict(dict)
        self._node_of: dict[str, str] = {}
        self.problems: list[str] = []

    def know(self, node: str, cards: Mapping[str, int]) -> None:
        """Cards that the cluster file does not have: their bytes, by uuid."""
        self._capacity.update(cards)
        self._home.update(dict.fromkeys(cards, node))

    async def run(self, client: KubeClient) -> None:
        """Watch until cancelled."""
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        async with aclosing(follow(client, "/api/v1/pods", codec)) as stream:
            async for news in stream:
                if isinstance(news, ListResult):
                    self.listed(news.items)
                    continue
                for change in news.changed:
                    if change.item is not None:
                        self.seen(change.type, change.item)

    def listed(self, pods: Iterable[UnstructuredObject]) -> None:
        """All pods at one instant."""
        self._on.clear()
        for pod in pods:
            self._put(pod)
        for node in self._on:
            self._judge(node)

    def seen(self, change: str, pod: UnstructuredObject) -> None:
        """One pod changed."""
        node = self._put(pod)
        if change == "DELETED":
            self._on[node].pop(pod.uid, None)
        if node:
            self._judge(node)

    def _put(self, pod: UnstructuredObject) -> str:
        """Take a pod in; where it is, "" for nowhere. A pod that has a node keeps it."""
        node, before = pod.spec.get("nodeName", ""), self._node_of.get(pod.uid, "")
        self._check(not before or before == node, f"{pod.key} moved from {before} to {node}")
        self._on[before].pop(pod.uid, None)
        if node:
            self._node_of[pod.uid] = node
            self._on[node][pod.uid] = pod
        return str(node)

    def _judge(self, node: str) -> None:
        milli: Counter[str] = Counter()
        memory: Counter[str] = Counter()
        tenants: Counter[str] = Counter()
        alone: set[str] = set()
        ports: Counter[str] = Counter()
        for pod in self._on[node].values():
            if is_finished(pod):
                continue
            given, labels = pod.metadata.annotations or {}, pod.metadata.labels or {}
            if "sharedgpu/allocation" not in given:
                continue  # somebody else's binding
            uuids = [uuid for uuid in given.get("sharedgpu/gpu_uuid", "").split(",") if uuid]
            asked = round(float(labels.get("sharedgpu/gpu_request", "0")) * WHOLE)
            for uuid in uuids:
                self._check(self._home.get(uuid) == node, f"{pod.key} on {node} has {uuid}")
                milli[uuid] += min(asked, WHOLE)
                memory[uuid] += int(given["sharedgpu/gpu_mem"]) // len(uuids)
                tenants[uuid] += 1
            if asked > WHOLE:
                self._check(len(uuids) * WHOLE == asked, f"{pod.key} has {uuids} for {asked}")
                alone.update(uuids)
            elif asked:
                self._check(len(uuids) == 1, f"{pod.key} has {uuids}")
                ports[given["sharedgpu/gpu_manager_port"]] += 1
        for uuid, used in milli.items():
            self._check(used <= WHOLE, f"{uuid} gives {used} milli")
            self._check(memory[uuid] <= self._capacity[uuid], f"{uuid} gives too much memory")
            self._check(uuid not in alone or tenants[uuid] == 1, f"{uuid} is not alone")
        twice = [port for port, count in ports.items() if count > 1]
        self._check(not twice, f"ports {twice} are used twice on {node}")

    def _check(self, right: bool, problem: str) -> None:
        if not right and problem not in self.problems:
            self.problems.append(problem)
