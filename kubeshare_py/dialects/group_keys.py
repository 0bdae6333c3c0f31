"""Labels and annotations about groups that every dialect shares.

A pod may name a PodGroup object, by a label of the coscheduling plugin or in its spec, and an
annotation on members and on PodGroup objects names the node label of which all nodes of a group
must share a value.

Labels: https://github.com/kubernetes-sigs/scheduler-plugins/tree/master/pkg/coscheduling Field:
`spec.schedulingGroup.podGroupName`, alpha in Kubernetes 1.36.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from kubeshare_py.domain.group_objects import GroupApi, GroupReference
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.request import InvalidRequest

#: The label of the coscheduling plugin, and that of its releases before 0.23.
LABEL = "scheduling.x-k8s.io/pod-group"
OLD_LABEL = "pod-group.scheduling.sigs.k8s.io"
FIELD = "spec.schedulingGroup"

#: On members, and on PodGroup objects.
WITHIN = "sharedgpu/group_within"

#: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
LABEL_KEY = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
WITHIN_RULE = "must be the name of a node label, such as topology.kubernetes.io/zone"
_LABEL_KEY = re.compile(LABEL_KEY)
#: The most characters of a bad value that are shown.
SHOWN = 60


def membership(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    in_spec: str,
    group: PodGroup | None,
) -> tuple[PodGroup | None, GroupReference | InvalidRequest | None]:
    """The group with its topology key, and the PodGroup that the pod names or a problem of groups.

    `in_spec` is the PodGroup in the pod's spec, "" if there is none; `group` is the group by the
    labels of the pod's dialect.
    """
    if group is not None and annotations.get(WITHIN):
        problem = within_problem(annotations)
        if problem is not None:
            return group, problem
        group = replace(group, within=annotations[WITHIN])
    return group, _reference(labels, in_spec, group)


def within_problem(annotations: Mapping[str, str]) -> InvalidRequest | None:
    """What is wrong with the annotation `group_within`; None if it is not there."""
    text = annotations.get(WITHIN)
    if not text or _LABEL_KEY.fullmatch(text):
        return None
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return InvalidRequest(field=WITHIN, value=shown, rule=WITHIN_RULE)


def _reference(
    labels: Mapping[str, str], in_spec: str, group: PodGroup | None
) -> GroupReference | InvalidRequest | None:
    """The PodGroup that a pod names; a problem if the pod belongs to several groups."""
    label = labels.get(LABEL) or labels.get(OLD_LABEL)
    if not label and not in_spec:
        return None  # nearly always
    by_dialect = group.name if group is not None else ""
    if label and (in_spec or by_dialect):
        given = LABEL if labels.get(LABEL) else OLD_LABEL
        return _second(given, label, in_spec or by_dialect)
    if in_spec and by_dialect:
        return _second(FIELD, in_spec, by_dialect)
    if label:
        return GroupReference(GroupApi.COSCHEDULING, label)
    return GroupReference(GroupApi.KUBERNETES, in_spec)


def _second(field: str, name: str, other: str) -> InvalidRequest:
    rule = f"a pod can only be in one group, and this one is in group {other} as well"
    return InvalidRequest(field=field, value=name, rule=rule)
