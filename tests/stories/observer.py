"""Books kept from pods alone, by what people wrote and what they were given; judges every state.

It knows neither the scheduler nor its allocation annotation: shares come from the label, cards,
memory and ports from the result annotations, capacities from the cluster file.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import aclosing

from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_watch import Listed, follow
from kubeshare_py.manifests.watch import Codec
from kubeshare_py.simulation.cluster_file import SimulatedNode
from kubeshare_py.simulation.loose_objects import LooseObject, is_finished

WHOLE = 1000


class Observer:
    """Follows all pods. `problems` lists whatever was ever wrong, in any state they were in."""

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._capacity: dict[str, int] = {
            card.uuid: card.memory_bytes for node in nodes for card in node.cards
        }
        self._home: dict[str, str] = {card.uuid: node.name for node in nodes for card in node.cards}
        self._pods: dict[str, LooseObject] = {}
        self._node_of: dict[str, str] = {}
        self.problems: list[str] = []

    async def run(self, client: KubeClient) -> None:
        """Watch until cancelled."""
        codec: Codec[LooseObject] = Codec(LooseObject)
        async with aclosing(follow(client, "/api/v1/pods", codec)) as stream:
            async for news in stream:
                if isinstance(news, Listed):
                    self.listed(news.items)
                    continue
                for change in news.changed:
                    if change.item is not None:
                        self.seen(change.type, change.item)

    def listed(self, pods: Iterable[LooseObject]) -> None:
        """All pods at one instant."""
        self._pods = {pod.uid: pod for pod in pods}
        self._judge()

    def seen(self, change: str, pod: LooseObject) -> None:
        """One pod changed."""
        if change == "DELETED":
            self._pods.pop(pod.uid, None)
        else:
            self._pods[pod.uid] = pod
        self._judge()

    def _judge(self) -> None:
        milli: Counter[str] = Counter()
        memory: Counter[str] = Counter()
        tenants: Counter[str] = Counter()
        alone: set[str] = set()
        ports: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in self._pods.values():
            node = pod.spec.get("nodeName", "")
            self._check_node(pod, node)
            if not node or is_finished(pod):
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
                ports[node][given["sharedgpu/gpu_manager_port"]] += 1
        for uuid, used in milli.items():
            self._check(used <= WHOLE, f"{uuid} gives {used} milli")
            self._check(memory[uuid] <= self._capacity[uuid], f"{uuid} gives too much memory")
            self._check(uuid not in alone or tenants[uuid] == 1, f"{uuid} is not alone")
        for node, used_ports in ports.items():
            twice = [port for port, count in used_ports.items() if count > 1]
            self._check(not twice, f"ports {twice} are used twice on {node}")

    def _check_node(self, pod: LooseObject, node: str) -> None:
        """A pod that has a node keeps it."""
        before = self._node_of.get(pod.uid, "")
        self._check(not before or before == node, f"{pod.key} moved from {before} to {node}")
        if node:
            self._node_of[pod.uid] = node

    def _check(self, right: bool, problem: str) -> None:
        if not right and problem not in self.problems:
            self.problems.append(problem)
