"""KubeShare 2.0's scheduler as others see it: the pods that it creates, and its cache.

Written from what it writes and reads (pkg/scheduler/pod.go and node.go of github.com/NTHU-LSALab/
KubeShare, release-2.0), and not from our code: it knows neither our dialects nor our allocations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kubeshare_py.edges.kube.client import KubeClient

PODS = "/api/v1/namespaces/default/pods"
#: The first port of a node's pod managers; KubeShare takes them in turn.
_FIRST_PORT = 50051

Json = dict[str, Any]


@dataclass(frozen=True)
class FormerCard:
    """A card as its collector's `gpu_capacity` has it, and the id of its leaf cell."""

    node: str
    uuid: str
    model: str
    memory: int
    cell: str


class FormerKubeShare:
    """Places pods where it is told to, as Reserve does: it creates them anew, already bound."""

    def __init__(self, client: KubeClient, cards: Sequence[FormerCard]) -> None:
        self._client = client
        self._cards = {card.uuid: card for card in cards}
        self._ports: dict[str, int] = {}

    async def place(self, name: str, labels: dict[str, str], *uuids: str) -> Json:
        """A pod with these labels on these cards of one node."""
        cards = [self._cards[uuid] for uuid in uuids]
        request = Decimal(labels.get("sharedgpu/gpu_request", "0.0"))
        if request > 1:
            given = {
                "cell_id": _with_commas(card.cell for card in cards),
                "gpu_uuid": _with_commas(uuids),
                "gpu_model": _with_commas(card.model for card in cards),
                "gpu_mem": str(sum(card.memory for card in cards)),
            }
        else:
            [card] = cards
            memory = int(labels.get("sharedgpu/gpu_mem", "0")) or int(request * card.memory)
            port = self._ports[card.node] = self._ports.get(card.node, _FIRST_PORT - 1) + 1
            given = {
                "cell_id": card.cell,
                "gpu_uuid": card.uuid,
                "gpu_model": card.model,
                "gpu_mem": str(memory),
                "gpu_manager_port": str(port),
            }
        annotations = {f"sharedgpu/{key}": value for key, value in given.items()}
        env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": given["gpu_uuid"]}]
        return await self._client.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": labels, "annotations": annotations},
                "spec": {
                    "schedulerName": "kubeshare-scheduler",
                    "nodeName": cards[0].node,
                    "containers": [{"name": "main", "image": "busybox", "env": env}],
                },
            },
        )


def free_by_kubeshare(
    cards: Iterable[FormerCard], pods: Iterable[Json]
) -> dict[str, tuple[Decimal, int]]:
    """What a KubeShare that starts now counts as free of each card: a part of it, and bytes.

    It reads bound pods that have not ended and have `sharedgpu/gpu_mem`: the share from the labels,
    cards and memory from the annotations; a card of a request above 1 is taken as a whole.
    """
    memory_of = {card.uuid: card.memory for card in cards}
    free = {uuid: (Decimal(1), memory) for uuid, memory in memory_of.items()}
    for pod in pods:
        labels = pod["metadata"].get("labels", {})
        given = pod["metadata"].get("annotations", {})
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        if "sharedgpu/gpu_mem" not in given or ended or not pod["spec"].get("nodeName"):
            continue
        request = Decimal(labels.get("sharedgpu/gpu_request", "0.0"))
        for uuid in filter(None, given["sharedgpu/gpu_uuid"].split(",")):
            part, memory = free[uuid]
            taken = int(given["sharedgpu/gpu_mem"])
            whole = (Decimal(1), memory_of[uuid])
            minus, less = whole if request > 1 else (request, taken)
            free[uuid] = (part - minus, memory - less)
    return free


def _with_commas(names: Iterable[str]) -> str:
    """As KubeShare lists whole cards: a comma behind each."""
    return "".join(f"{name}," for name in names)
