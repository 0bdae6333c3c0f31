"""gpushare's own scheduler as others see it: its books, and the pods that it binds.

Written from what gpushare-scheduler-extender writes and reads (github.com/AliyunContainerService),
and not from our code: it knows the annotations of the first generation alone.
"""

from collections.abc import Iterable
from typing import Any

from kubeshare_py.edges.kube.client import KubeClient

PODS = "/api/v1/namespaces/default/pods"
START = "ALIYUN_COM_GPU_MEM_"

Json = dict[str, Any]


class FormerGpushare:
    """One node with so many cards of so many units."""

    def __init__(self, client: KubeClient, node: str, cards: int, units: int) -> None:
        self._client = client
        self._node, self._cards, self._units = node, cards, units

    def free(self, pods: Iterable[Json]) -> list[int]:
        """Units left of each card: what its pods' annotation POD says, until they have ended."""
        left = [self._units] * self._cards
        for pod in pods:
            given = pod["metadata"].get("annotations", {})
            here = pod["spec"].get("nodeName") == self._node
            ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if here and not ended and f"{START}IDX" in given:
                left[int(given[f"{START}IDX"])] -= int(given[f"{START}POD"])
        return left

    async def place(self, name: str, units: int) -> int:
        """Bind a pod to the card with the least left that has room; the card's index."""
        free = self.free(await self._client.list_all(PODS))
        index = min((left, at) for at, left in enumerate(free) if left >= units)[1]
        amounts = {"IDX": index, "DEV": self._units, "POD": units, "ASSIGNED": "false"}
        told = amounts | {"ASSUME_TIME": 1_700_000_000_123_456_789}
        container = {
            "name": "main",
            "image": "x",
            "resources": {"limits": {"aliyun.com/gpu-mem": str(units)}},
        }
        notes = {f"{START}{key}": str(value) for key, value in told.items()}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": notes},
            "spec": {
                "schedulerName": "default-scheduler",
                "nodeName": self._node,
                "containers": [container],
            },
        }
        await self._client.create(PODS, pod)
        return index
