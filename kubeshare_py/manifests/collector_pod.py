"""A collector's v1 Pod, in the few fields that say where it answers.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
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
