"""PodGroups of the coscheduling plugin and of Kubernetes, in the fields that placement depends on.

- `scheduling.x-k8s.io/v1alpha1`: `minMember`. Its `minResources` is an estimate of what is known
  exactly here, and its `scheduleTimeoutSeconds` is about cards that waiting members hold: none do.
  https://github.com/kubernetes-sigs/scheduler-plugins/tree/master/apis/scheduling/v1alpha1
- `scheduling.k8s.io`, v1alpha2 in Kubernetes 1.36, v1beta1 and v1alpha3 in 1.37:
  `schedulingPolicy.gang.minCount`, or `schedulingPolicy.basic` for pods that are scheduled one by
  one, and `schedulingConstraints.topology[].key`. A group's disruption mode and priority do not
  matter for placement: pods have their own.

The annotation `sharedgpu/group_within` on a PodGroup of either is a topology key as well. Any other
field of the spec is named as unsupported.
"""

from collections.abc import Iterator, Mapping

import msgspec

from kubeshare_py.dialects.pod_keys import WITHIN, within_problem
from kubeshare_py.domain.cluster_objects import GroupApi, PodGroupObject
from kubeshare_py.domain.quantity import GROUP_MEMBERS
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.decoding import UNDECODABLE

#: Where an API's PodGroups may be, the newest first.
PATHS: Mapping[GroupApi, tuple[str, ...]] = {
    GroupApi.COSCHEDULING: ("/apis/scheduling.x-k8s.io/v1alpha1/podgroups",),
    GroupApi.KUBERNETES: (
        "/apis/scheduling.k8s.io/v1beta1/podgroups",
        "/apis/scheduling.k8s.io/v1alpha2/podgroups",
    ),
}

_UNDERSTOOD = {
    GroupApi.COSCHEDULING: frozenset({"minMember", "minResources", "scheduleTimeoutSeconds"}),
    GroupApi.KUBERNETES: frozenset(
        {
            "schedulingPolicy",
            "schedulingConstraints",
            "podGroupTemplateRef",
            "workloadRef",
            "disruptionMode",
            "priorityClassName",
            "priority",
            "preemptionPolicy",
        }
    ),
}
_MINIMUM_FIELDS = {GroupApi.COSCHEDULING: "minMember", GroupApi.KUBERNETES: "schedulingPolicy"}
_EMPTY = frozenset({b"null", b"{}", b"[]", b'""'})


class PodGroupFields(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup of either API."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, msgspec.Raw] | None = None


class _GangPolicy(msgspec.Struct, frozen=True, rename="camel"):
    min_count: int = 1


class _Basic(msgspec.Struct, frozen=True):
    pass


class _TopologyConstraint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str


class _Constraints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topology: tuple[_TopologyConstraint, ...] = ()


class _Policy(msgspec.Struct, frozen=True, rename="camel"):
    gang: _GangPolicy | None = None
    basic: _Basic | None = None


def to_domain(api: GroupApi, group: PodGroupFields) -> PodGroupObject:
    """The domain's PodGroup. Never raises."""
    spec = {name: value for name, value in (group.spec or {}).items() if bytes(value) not in _EMPTY}
    minimum = _minimum(api, spec)
    if isinstance(minimum, int) and minimum > GROUP_MEMBERS.most:
        minimum = f"spec.{_MINIMUM_FIELDS[api]} above {GROUP_MEMBERS.most}"
    problems = sorted(f"spec.{name}" for name in _unknown(api, spec))
    if isinstance(minimum, str):
        problems.append(minimum)
    keys = _keys(group.metadata.annotations or {}, spec)
    if within_problem(group.metadata.annotations or {}) is not None:
        problems.append(f"metadata.annotations[{WITHIN}]")
        keys = []
    if len(keys) > 1:
        problems.append("spec.schedulingConstraints")
    return PodGroupObject(
        api=api,
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        min_member=max(1, minimum) if isinstance(minimum, int) else 1,
        within=next(iter(keys), ""),
        unsupported=tuple(problems),
    )


def _unknown(api: GroupApi, spec: Mapping[str, msgspec.Raw]) -> Iterator[str]:
    yield from spec.keys() - _UNDERSTOOD[api]


def _keys(annotations: Mapping[str, str], spec: Mapping[str, msgspec.Raw]) -> list[str]:
    """Labels of which all members must share a value; several if the objects disagree."""
    annotated = annotations.get(WITHIN, "")
    keys = [annotated] if annotated else []
    try:
        constraints = msgspec.json.decode(
            spec.get("schedulingConstraints", b"{}"), type=_Constraints
        )
    except UNDECODABLE:
        return ["", ""]
    return list(dict.fromkeys([*keys, *(one.key for one in constraints.topology)]))


def _minimum(api: GroupApi, spec: Mapping[str, msgspec.Raw]) -> int | str:
    """The minMember or minCount; the name of the field if it cannot be understood."""
    field = _MINIMUM_FIELDS[api]
    raw = spec.get(field)
    try:
        if api is GroupApi.COSCHEDULING:
            return msgspec.json.decode(raw, type=int) if raw is not None else 1
        policy = msgspec.json.decode(raw, type=_Policy) if raw is not None else _Policy()
    except UNDECODABLE:
        return f"spec.{field}"
    if policy.gang is not None:
        return policy.gang.min_count
    return 1 if policy.basic is not None else f"spec.{field}"
