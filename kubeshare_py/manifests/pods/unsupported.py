"""Fields of a pod that this scheduler does not implement: such a pod is not bound.

Placing it would ignore a requirement. Preferences (preferred affinity, ScheduleAnyway) may be
ignored, and are. The volume sources that do not matter for placement are listed; any other,
including those of later Kubernetes releases, is unsupported.
"""

import re
from collections.abc import Iterator

import msgspec

from kubeshare_py.domain.remembered import remembered
from kubeshare_py.manifests.pods.pod_fields import (
    AffinityFields,
    Container,
    NodeSelectorFields,
    PodSpec,
)

_VOLUMES_ANYWHERE = frozenset(
    {"name", "configMap", "secret", "emptyDir", "hostPath", "projected", "downwardAPI", "nfs"}
)
_NODE_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})

#: The domains of resources that ask for GPUs in another dialect.
_GPU_DOMAINS = ("aliyun.com", "elasticgpu.io", "nano-gpu.io", "4pd.io", "hami.io")
#: Resources that stand for a claim on a device class (dynamic resource allocation).
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io"
_OWNERS = "|".join(one.replace(".", "[.]") for one in (*_GPU_DOMAINS, _DEVICE_CLASS))
#: Qualified resource names in lower case that ask for GPUs; valid for RE2 too, which the API
#: server's CEL uses. NVIDIA's device plugin names GPUs `nvidia.com/gpu*` and MIG instances
#: `nvidia.com/mig-*`; other resources of nvidia.com (the network operator's `hostdev` and `rdma*`)
#: are ordinary ones: https://github.com/NVIDIA/k8s-device-plugin
GPU_RESOURCE = f"gpu|(^|[.])nvidia[.]com/mig-|(^|[.])({_OWNERS})/"


def unsupported_fields(
    spec: PodSpec,
    resources: tuple[tuple[str, int], ...],
    own: frozenset[str] = frozenset(),
    foreign: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """The paths of such fields; empty for nearly every pod.

    `own` are the resource names that dialects of the pod's profile understand, `foreign` those of
    other profiles.
    """
    found = list(_unsupported_resources(resources, own, foreign))
    if spec.affinity:
        found += _affinity(spec.affinity)
    for volume in spec.volumes or ():
        if not volume.keys() <= _VOLUMES_ANYWHERE:
            found += _volume(volume)
    found += _all_host_ports(spec)
    constraints = spec.topology_spread_constraints
    if constraints and any(one.when_unsatisfiable != "ScheduleAnyway" for one in constraints):
        found.append("spec.topologySpreadConstraints (DoNotSchedule)")
    if spec.resource_claims:
        found.append("spec.resourceClaims")
    group = spec.scheduling_group
    if group is not None and (group.keys() != {"podGroupName"} or not spec.pod_group):
        found.append("spec.schedulingGroup")
    if spec.workload_ref is not None:
        found.append("spec.workloadRef")
    return tuple(found)


@remembered(4096)
def _unsupported_resources(
    resources: tuple[tuple[str, int], ...], own: frozenset[str], foreign: frozenset[str]
) -> tuple[str, ...]:
    return tuple(
        f"resources[{name}]"
        for name, _ in resources
        if name not in own and (name in foreign or _is_anothers(name))
    )


def _is_anothers(resource: str) -> bool:
    return "/" in resource and re.search(GPU_RESOURCE, resource.lower()) is not None


def _affinity(affinity: AffinityFields) -> Iterator[str]:
    if affinity.node_affinity and affinity.node_affinity.required:
        yield from _node_affinity(affinity.node_affinity.required)
    if affinity.pod_affinity and affinity.pod_affinity.required:
        yield "spec.affinity.podAffinity"
    if affinity.pod_anti_affinity and affinity.pod_anti_affinity.required:
        yield "spec.affinity.podAntiAffinity"


def _node_affinity(required: NodeSelectorFields) -> Iterator[str]:
    for term in required.node_selector_terms or ():
        for one in (*(term.match_expressions or ()), *(term.match_fields or ())):
            if one.operator not in _NODE_OPERATORS:
                yield f"spec.affinity.nodeAffinity (operator {one.operator})"
        for one in term.match_fields or ():
            if one.key != "metadata.name":
                yield f"spec.affinity.nodeAffinity (matchFields {one.key})"


def _volume(volume: dict[str, msgspec.Raw]) -> Iterator[str]:
    name = msgspec.json.decode(volume["name"]) if "name" in volume else ""
    for source in sorted(volume.keys() - _VOLUMES_ANYWHERE):
        yield f"spec.volumes[{name}].{source}"


def _all_host_ports(spec: PodSpec) -> list[str]:
    found: list[str] = []
    for container in spec.containers or ():
        if container.ports:
            found += _host_ports("containers", container, spec.host_network)
    for container in spec.init_containers or ():
        if container.ports and container.restart_policy == "Always":
            found += _host_ports("initContainers", container, spec.host_network)
    return found


def _host_ports(kind: str, container: Container, host_network: bool) -> Iterator[str]:
    for port in container.ports or ():
        if port.host_port or host_network:
            yield f"spec.{kind}[{container.name}].ports[{port.container_port}].hostPort"
