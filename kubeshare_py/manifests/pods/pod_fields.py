"""A v1 Pod as it comes over the wire, in the fields that placement depends on.

Structs are frozen and hold tuples, so that parts of them can be cache keys. Unknown fields are
ignored by the decoder; fields that are only recognised, not used, are kept undecoded.
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.quantity import INT32, Quantity
from kubeshare_py.manifests.common_definitions import ObjectMeta, RequirementFields
from kubeshare_py.manifests.decoding import UNDECODABLE

ResourceList = dict[str, Quantity]
Int32 = Annotated[int, Meta(ge=INT32.least, le=INT32.most)]
#: The value of an undecoded field that is not there.
ABSENT = msgspec.Raw()


class _PodFieldsBase(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Camel case in JSON, no cycles, no changes; what is not there is not written either."""


class ContainerResources(_PodFieldsBase, frozen=True):
    """Requests and limits."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None


class Port(_PodFieldsBase, frozen=True):
    """A container's port."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(_PodFieldsBase, frozen=True):
    """What happens when the container exits in some way."""

    action: str = ""


class Container(_PodFieldsBase, frozen=True):
    """A container or init container; `restart_policy` Always makes the latter a sidecar."""

    name: str = ""
    image: str = ""
    resources: ContainerResources | None = None
    ports: tuple[Port, ...] | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] | None = None


class TolerationFields(_PodFieldsBase, frozen=True):
    """A toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TermFields(_PodFieldsBase, frozen=True):
    """One alternative of a node affinity."""

    match_expressions: tuple[RequirementFields, ...] | None = None
    match_fields: tuple[RequirementFields, ...] | None = None


class NodeSelectorFields(_PodFieldsBase, frozen=True):
    """The alternatives of a required node affinity."""

    node_selector_terms: tuple[TermFields, ...] | None = None


class PreferredTermFields(_PodFieldsBase, frozen=True):
    """A preferred node affinity."""

    weight: Int32 = 0
    preference: TermFields = TermFields()


class NodeAffinityFields(_PodFieldsBase, frozen=True):
    """Node affinity."""

    required: NodeSelectorFields | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredTermFields, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class AffinityFields(_PodFieldsBase, frozen=True):
    """The three kinds of affinity; `inter_pod` decodes the last two."""

    node_affinity: NodeAffinityFields | None = None
    pod_affinity: msgspec.Raw = ABSENT
    pod_anti_affinity: msgspec.Raw = ABSENT


class NamedField(_PodFieldsBase, frozen=True):
    """An object of which only the name matters."""

    name: str = ""


class PodSpec(_PodFieldsBase, frozen=True):
    """The spec. `volumes` are maps from `name` and the kind of source to undecoded values."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    active_deadline_seconds: int | None = None
    preemption_policy: str = ""
    termination_grace_period_seconds: int | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: ResourceList | None = None
    resources: ContainerResources | None = None
    node_selector: dict[str, str] | None = None
    affinity: AffinityFields | None = None
    tolerations: tuple[TolerationFields, ...] | None = None
    topology_spread_constraints: msgspec.Raw = ABSENT
    volumes: tuple[dict[str, msgspec.Raw], ...] | None = None
    scheduling_gates: tuple[NamedField, ...] | None = None
    resource_claims: tuple[msgspec.Raw, ...] | None = None
    scheduling_group: dict[str, msgspec.Raw] | None = None
    workload_ref: dict[str, msgspec.Raw] | None = None
    host_network: bool = False
    host_users: bool | None = None

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of its scheduling gates."""
        gates = self.scheduling_gates
        return tuple([gate.name for gate in gates]) if gates else ()

    @property
    def pod_group(self) -> str:
        """The name of the PodGroup in `schedulingGroup`; "" if there is none that can be read."""
        if not self.scheduling_group or "podGroupName" not in self.scheduling_group:
            return ""
        try:
            return msgspec.json.decode(self.scheduling_group["podGroupName"], type=str)
        except UNDECODABLE:
            return ""


class ContainerState(_PodFieldsBase, frozen=True):
    """A container's state; `terminated` is set once it has ended."""

    terminated: dict[str, msgspec.Raw] | None = None


class ContainerStatus(_PodFieldsBase, frozen=True):
    """A container's state, and its resources, which differ from its spec during a resize."""

    name: str = ""
    state: ContainerState | None = None
    allocated_resources: ResourceList | None = None
    resources: ContainerResources | None = None


class PodCondition(_PodFieldsBase, frozen=True):
    """A condition of the pod."""

    type: str = ""
    status: str = ""
    reason: str = ""


class PodStatus(_PodFieldsBase, frozen=True):
    """The status."""

    phase: str = ""
    qos_class: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[ContainerStatus, ...] | None = None
    allocated_resources: ResourceList | None = None
    resources: ContainerResources | None = None
    resource_claim_statuses: tuple[msgspec.Raw, ...] | None = None


class PodFields(_PodFieldsBase, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
