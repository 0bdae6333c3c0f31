"""kubelet's pod-resources service, v1: which containers have which devices.

https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#monitoring-device-plugin-resources
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.node.kubelet.channels import calling
from kubeshare_py.edges.node.kubelet.wire import podresources_pb2 as wire
from kubeshare_py.node_agent.device_plugin.owners import ContainerDevices

_METHOD = "/v1.PodResourcesLister/List"
#: kubelet gives a container's start 30 s to be answered.
_LIST_S = 10.0


class PodResources:
    """The service on `socket`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def listed(self) -> list[ContainerDevices]:
        """All containers of active pods; of their init containers the sidecars.

        Raises KubeletUnreachable.
        """
        async with calling(self._socket) as channel:
            ask: Any = channel.unary_unary(
                _METHOD,
                wire.ListPodResourcesRequest.SerializeToString,
                wire.ListPodResourcesResponse.FromString,
            )
            answer = await ask(wire.ListPodResourcesRequest(), timeout=_LIST_S)
        return [
            ContainerDevices(PodKey(pod.namespace, pod.name), one.name, _together(one))
            for pod in answer.pod_resources
            for one in pod.containers
        ]


def _together(container: wire.ContainerResources) -> dict[str, frozenset[str]]:
    """All devices of each resource; kubelet has an entry for each since 1.21."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for entry in container.devices:
        found[entry.resource_name] |= {*entry.device_ids}
    return {name: frozenset(devices) for name, devices in found.items()}
