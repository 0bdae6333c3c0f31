"""Objects besides Nodes from which an inventory is read, in the few fields that it needs.

A collector's v1 Pod says where it answers, a v1 ConfigMap which cards of a node are unhealthy:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/config-map-v1/
"""

import msgspec

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.manifests.metadata import ObjectMeta


class PlaceSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The node that it runs on."""

    node_name: str = ""


class ConditionFields(msgspec.Struct, frozen=True, gc=False):
    """One condition."""

    type: str = ""
    status: str = ""


class PlaceStatus(msgspec.Struct, frozen=True, gc=False):
    """Its address and conditions."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[ConditionFields, ...] | None = None


class CollectorPod(msgspec.Struct, frozen=True, gc=False):
    """A pod of the collectors' DaemonSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PlaceSpec = PlaceSpec()
    status: PlaceStatus = PlaceStatus()

    @property
    def node(self) -> NodeName:
        """The node that it runs on, "" before it does."""
        return NodeName(self.spec.node_name)

    @property
    def can_answer(self) -> bool:
        """Whether it has an address and has not ended."""
        is_over = self.status.phase in ("Succeeded", "Failed")
        return bool(self.node and self.status.pod_ip) and not is_over

    @property
    def is_ready(self) -> bool:
        """The result of its readiness probe."""
        return any(
            one.type == "Ready" and one.status == "True" for one in self.status.conditions or ()
        )


class UnhealthyData(msgspec.Struct, frozen=True):
    """The data of a ConfigMap, of which `gpus` counts."""

    gpus: str = ""


class UnhealthyConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap that may list unhealthy cards."""

    metadata: ObjectMeta = ObjectMeta()
    data: UnhealthyData | None = None

    @property
    def gpus(self) -> str:
        """The text of `data.gpus`, "" without any."""
        return "" if self.data is None else self.data.gpus
