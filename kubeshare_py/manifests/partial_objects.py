"""Pods and ConfigMaps in the few fields that an inventory or the agent of a node needs."""

from collections.abc import Sequence

import msgspec

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.manifests.common_definitions import ObjectMeta

# Objects besides Nodes from which an inventory is read, in the few fields that it needs.
#
# A collector's v1 Pod says where it answers, a v1 ConfigMap which cards of a node are unhealthy,
# and a Prometheus of the Prometheus Operator where that answers:
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
# https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/config-map-v1/
# https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.Prometheus


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


class PrometheusWeb(msgspec.Struct, frozen=True, rename="camel"):
    """How its pages are served."""

    tls_config: dict[str, object] | None = None


class PrometheusSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Where its pods answer: at port 9090 of a Service without an address of its own."""

    service_name: str = ""
    route_prefix: str = ""
    shards: int | None = None
    listen_local: bool = False
    web: PrometheusWeb | None = None


class PrometheusObject(msgspec.Struct, frozen=True):
    """A Prometheus that the Prometheus Operator runs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PrometheusSpec = PrometheusSpec()

    @property
    def url(self) -> str:
        """The URL at which it answers in the cluster."""
        service = self.spec.service_name or "prometheus-operated"
        has_tls = self.spec.web is not None and self.spec.web.tls_config is not None
        path = self.spec.route_prefix.strip("/")
        scheme = "https" if has_tls else "http"
        return f"{scheme}://{service}.{self.metadata.namespace}.svc:9090/{path}".rstrip("/")


def only_prometheus(objects: Sequence[PrometheusObject]) -> tuple[str, str]:
    """The URL of the only Prometheus, or "" and why there is none to ask.

    Of several none is chosen: users who may make one could otherwise invent cards.
    """
    if not objects:
        return "", "no inventory.url is set and the Prometheus Operator runs no Prometheus"
    names = ", ".join(f"{one.metadata.namespace}/{one.metadata.name}" for one in objects[:4])
    if len(objects) > 1:
        return "", f"there are several Prometheuses ({names}): inventory.url says which one counts"
    if objects[0].spec.listen_local or (objects[0].spec.shards or 1) > 1:
        return (
            "",
            f"the Prometheus {names} listens to its pod alone or has shards: set inventory.url",
        )
    return objects[0].url, ""


# A v1 Pod in the few fields that the agent of its node needs.
#
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/


_ENDED = ("Succeeded", "Failed")


class BoundSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Its node, "" before it is bound, and its scheduler."""

    node_name: str = ""
    scheduler_name: str = ""


class PhaseStatus(msgspec.Struct, frozen=True, gc=False):
    """Its phase."""

    phase: str = ""


class NodePod(msgspec.Struct, frozen=True, gc=False):
    """A pod of one node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BoundSpec = BoundSpec()
    status: PhaseStatus = PhaseStatus()

    @property
    def may_hold(self) -> bool:
        """Whether it is bound and has not ended."""
        return bool(self.spec.node_name) and self.status.phase not in _ENDED
