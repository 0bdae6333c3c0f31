"""The PodGroup object that a pod names, by a label of the coscheduling plugin or in its spec.

Labels: https://github.com/kubernetes-sigs/scheduler-plugins/tree/master/pkg/coscheduling Field:
`spec.schedulingGroup.podGroupName`, alpha in Kubernetes 1.36.
"""

import msgspec

from kubeshare_py.domain.group_objects import GroupApi, GroupReference
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.pods.pod_fields import PodSpec
from kubeshare_py.manifests.undecodable import UNDECODABLE

LABEL = "scheduling.x-k8s.io/pod-group"
#: The label of the plugin's releases before 0.23.
OLD_LABEL = "pod-group.scheduling.sigs.k8s.io"
FIELD = "spec.schedulingGroup"


def group_reference(
    meta: ObjectMeta, spec: PodSpec, group: str
) -> GroupReference | InvalidRequest | None:
    """The PodGroup that a pod names; a problem if it belongs to several groups.

    `group` is the group by other labels, "" if none.
    """
    labels = meta.labels or {}
    label = labels.get(LABEL) or labels.get(OLD_LABEL)
    field = named_in(spec)
    if label and (field or group):
        given = LABEL if labels.get(LABEL) else OLD_LABEL
        return _second(given, label, field or group)
    if field and group:
        return _second(FIELD, field, group)
    if field:
        return GroupReference(GroupApi.KUBERNETES, field)
    return GroupReference(GroupApi.COSCHEDULING, label) if label else None


def named_in(spec: PodSpec) -> str:
    """The name in the spec; "" if there is none that can be read."""
    if not spec.scheduling_group or "podGroupName" not in spec.scheduling_group:
        return ""
    try:
        return msgspec.json.decode(spec.scheduling_group["podGroupName"], type=str)
    except UNDECODABLE:
        return ""


def _second(field: str, name: str, other: str) -> InvalidRequest:
    rule = f"a pod can only be in one group, and this one is in group {other} as well"
    return InvalidRequest(field=field, value=name, rule=rule)
