"""Fields of a pod that this scheduler does not implement: such a pod is not bound.

Placing it would ignore a requirement. Preferences (preferred affinity, ScheduleAnyway) may be
ignored, and are. Sources of volumes that are unknown here, those of later Kubernetes releases among
them, are unsupported.
"""

import re
from collections.abc import Iterator

from kubeshare_py.dialects.unread_resources import unread
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.manifests.pods.pod_device_claims import unreadable_claims
from kubeshare_py.manifests.pods.pod_fields import (
    NodeSelectorFields,
    PodSpec,
)
from kubeshare_py.manifests.pods.pod_volumes import ANYWHERE_WITH_NAME, unreadable

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


def unsupported_fields(spec: PodSpec) -> tuple[str, ...]:
    """The paths of such fields; empty for nearly every pod."""
    found: list[str] = []
    if spec.affinity and spec.affinity.node_affinity and spec.affinity.node_affinity.required:
        found += _node_affinity(spec.affinity.node_affinity.required)
    for volume in spec.volumes or ():
        if not volume.keys() <= ANYWHERE_WITH_NAME:
            found += unreadable(volume)
    if spec.resource_claims:
        found += unreadable_claims(spec.resource_claims)
    group = spec.scheduling_group
    if group is not None and (group.keys() != {"podGroupName"} or not spec.pod_group):
        found.append("spec.schedulingGroup")
    if spec.workload_ref is not None:
        found.append("spec.workloadRef")
    return tuple(found)


@remembered(4096)
def unread_resources(
    resources: tuple[tuple[str, int], ...],
    own: frozenset[str],
    foreign: frozenset[str],
    scheduler: str,
) -> InvalidRequest | None:
    """The problem of a pod that asks for GPUs by names that its profile does not read.

    `own` are the resource names that dialects of the pod's profile understand, `foreign` those of
    other profiles.
    """
    found = tuple(
        name for name, _ in resources if name not in own and (name in foreign or _is_anothers(name))
    )
    if not found:
        return None
    return unread(found, scheduler, elsewhere=any(name in foreign for name in found))


def _is_anothers(resource: str) -> bool:
    return "/" in resource and re.search(GPU_RESOURCE, resource.lower()) is not None


def _node_affinity(required: NodeSelectorFields) -> Iterator[str]:
    for term in required.node_selector_terms or ():
        for one in (*(term.match_expressions or ()), *(term.match_fields or ())):
            if one.operator not in _NODE_OPERATORS:
                yield f"spec.affinity.nodeAffinity (operator {one.operator})"
        for one in term.match_fields or ():
            if one.key != "metadata.name":
                yield f"spec.affinity.nodeAffinity (matchFields {one.key})"
