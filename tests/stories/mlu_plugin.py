"""Cambricon's own device plugin on all nodes, as pods and the lock of a node show it.

It takes the pod that has no part yet, makes its part, says so on the pod, and frees the lock.
"""

from contextlib import aclosing
from dataclasses import dataclass, field

from kubeshare_py.dialects.cambricon import ASSIGNED, DSMLU_LOCK, PROFILE
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.manifests.watch import Codec, ListResult
from tests.stories.conftest import NODES, PODS


@dataclass(slots=True)
class MluPlugin:
    """`made` has the profile of each pod that got its part, by the pod's name, in order."""

    client: KubeClient
    made: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        """Give parts for ever."""
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        async with aclosing(follow(self.client, PODS, codec)) as stream:
            async for news in stream:
                seen = (
                    news.items if isinstance(news, ListResult) else [c.item for c in news.changed]
                )
                for pod in seen:
                    told = (pod.metadata.annotations or {}) if pod is not None else {}
                    if pod is not None and told.get(ASSIGNED) == "false":
                        await self._give(pod, told[PROFILE])

    async def _give(self, pod: UnstructuredObject, profile: str) -> None:
        name = pod.metadata.name
        if name in self.made:
            return
        self.made[name] = profile
        node = f"{NODES}/{pod.spec['nodeName']}"
        locks = (await self.client.get(node))["metadata"]["annotations"]
        assert DSMLU_LOCK in locks, f"{name} was bound without the lock"
        given = {"metadata": {"annotations": {ASSIGNED: "true"}}}
        await self.client.merge_patch(f"{PODS}/{name}", given)
        await self.client.merge_patch(node, {"metadata": {"annotations": {DSMLU_LOCK: None}}})
