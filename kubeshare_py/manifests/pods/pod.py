"""A v1 Pod as the domain's Pod."""

from dataclasses import replace

from kubeshare_py.dialects import sharedgpu
from kubeshare_py.dialects.group_within import WITHIN, within_problem
from kubeshare_py.dialects.pod_keys import unknown_key
from kubeshare_py.dialects.results import (
    ALLOCATION,
    GPU_UUID,
    MANAGER_PORT,
    RESERVATION,
    is_result,
    visible_cards,
)
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.events import FinishedMember
from kubeshare_py.domain.group_objects import GroupReference
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Labels, Pod, PodGroup
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.manifests.pods.allocation import read_allocation
from kubeshare_py.manifests.pods.effective_requests import Demand, demand
from kubeshare_py.manifests.pods.group_reference import group_reference
from kubeshare_py.manifests.pods.placement import shape_of, shape_without_place
from kubeshare_py.manifests.pods.placement_limits import placement_problem
from kubeshare_py.manifests.pods.pod_end import grace_s, has_stopped
from kubeshare_py.manifests.pods.pod_fields import PodFields, PodSpec
from kubeshare_py.manifests.pods.unsupported import unsupported_fields

_SUCCEEDED = "Succeeded"
_NEVER = "Never"
_REMEMBERED = 4096
#: The most characters of an annotation in a sentence; a list of six cards is not longer.
_MOST_SHOWN = 256
_FINISHED = (_SUCCEEDED, "Failed")


def is_finished(pod: PodFields) -> bool:
    """Whether the pod has ended and holds nothing any more."""
    return pod.status.phase in _FINISHED


def finished_member(pod: PodFields) -> FinishedMember | None:
    """A finished pod as a member of its group; None if it was in none."""
    meta = pod.metadata
    group = sharedgpu.read(meta.labels).group if meta.labels else None
    reference = _reference(pod, group)
    gang = reference.gang if isinstance(reference, GroupReference) else ""
    gang = gang or (group.name if group is not None else "")
    if not gang:
        return None
    return FinishedMember(
        uid=PodUid(meta.uid),
        namespace=meta.namespace,
        group=gang,
        owner=meta.controller_uid,
        succeeded=pod.status.phase == _SUCCEEDED,
        had_node=bool(pod.spec.node_name),
    )


def to_domain(pod: PodFields) -> Pod:
    """The domain's Pod for an unfinished pod. Never raises.

    A bound pod's allocation is read from its annotation. On a pod without a node that annotation,
    like every other result, was written by its user, and is only overwritten.
    """
    meta, spec = pod.metadata, pod.spec
    bound = bool(spec.node_name)
    # Unknown keys matter only before the pod is placed.
    unknown = None if bound else unknown_key(meta.labels, meta.annotations)
    parsed = sharedgpu.read(meta.labels or {}, meta.annotations)
    if unknown is not None:
        parsed = replace(parsed, request=None, problem=unknown)
    too_much = placement_problem(spec)
    if too_much is not None and not bound:
        needs = Demand(())
    else:
        needs = demand(spec, pod.status if bound else None)
    held = _held(meta.annotations) if bound and meta.annotations else None
    reference = _reference(pod, parsed.group)
    return Pod(
        uid=PodUid(meta.uid),
        key=PodKey(meta.namespace, meta.name),
        shape=(
            shape_of(spec, needs.resources, parsed.request)
            if too_much is None
            else shape_without_place(needs.resources, parsed.request)
        ),
        scheduler_name=spec.scheduler_name,
        node_name=NodeName(spec.node_name) if bound else None,
        priority=spec.priority or 0,
        label_priority=parsed.priority,
        created=meta.creation_timestamp or "",
        request=parsed.request,
        problem=unknown
        or (reference if isinstance(reference, InvalidRequest) else parsed.problem)
        or (None if bound else too_much),
        group=_within(parsed.group, meta.annotations),
        group_reference=reference if isinstance(reference, GroupReference) else None,
        owner=meta.controller_uid if parsed.group or reference else "",
        gates=_gates(spec),
        unsupported=() if bound else needs.problems + unsupported_fields(spec, needs.resources),
        deleting=meta.deletion_timestamp is not None,
        allocation=held if isinstance(held, Allocation) else None,
        allocation_problem=f"{ALLOCATION}: {held}" if isinstance(held, str) else "",
        mismatch=_mismatch(meta.annotations, held) if bound and meta.annotations else "",
        stale_results=() if bound else _stale_results(meta.annotations),
        isolation=(meta.labels or {}).get(sharedgpu.ISOLATION, ""),
        preempts=spec.preemption_policy != _NEVER,
        nominated=bool(pod.status.nominated_node_name or (meta.annotations or {}).get(RESERVATION)),
        nominated_node=NodeName(pod.status.nominated_node_name) or None,
        labels=_labels(meta.labels) if bound else (),
        started=pod.status.start_time or "" if bound else "",
        grace_s=grace_s(pod) if bound else 0,
        stopped=bound and has_stopped(pod),
    )


def _reference(pod: PodFields, group: PodGroup | None) -> GroupReference | InvalidRequest | None:
    """The PodGroup object that it names; nearly always none."""
    if group is not None and pod.metadata.annotations:
        problem = within_problem(pod.metadata.annotations)
        if problem is not None:
            return problem
    if not pod.metadata.labels and pod.spec.scheduling_group is None:
        return None
    return group_reference(pod.metadata, pod.spec, group.name if group is not None else "")


def _within(group: PodGroup | None, annotations: dict[str, str] | None) -> PodGroup | None:
    """The group with the topology key of an annotation."""
    if group is None or not annotations or not annotations.get(WITHIN):
        return group
    if within_problem(annotations) is not None:
        return group
    return replace(group, within=annotations[WITHIN])


def _labels(labels: dict[str, str] | None) -> Labels:
    """The labels; pods of one template share one value."""
    return _known_labels(tuple(sorted(labels.items()))) if labels else ()


@remembered(_REMEMBERED)
def _known_labels(labels: Labels) -> Labels:
    return labels


def _held(annotations: dict[str, str]) -> Allocation | str | None:
    text = annotations.get(ALLOCATION)
    return read_allocation(text) if text else None


def _mismatch(annotations: dict[str, str], held: Allocation | str | None) -> str:
    """The cards or the port in its containers' variables, if they are not those that it holds."""
    told = annotations.get(GPU_UUID, "")
    ours = visible_cards(held) if isinstance(held, Allocation) else ""
    if told != ours:
        return f"{GPU_UUID} says {_shown(told)}, the allocation {_shown(ours)}"
    port = annotations.get(MANAGER_PORT, "")
    if not port or not isinstance(held, Allocation) or port == str(held.port):
        return ""
    return f"{MANAGER_PORT} says {_shown(port)}, the allocation {held.port or 'nothing'}"


def _shown(text: str) -> str:
    return beginning(text, _MOST_SHOWN) if text else "nothing"


def _stale_results(annotations: dict[str, str] | None) -> tuple[str, ...]:
    return tuple(sorted(filter(is_result, annotations))) if annotations else ()


def _gates(spec: PodSpec) -> tuple[str, ...]:
    gates = spec.scheduling_gates
    return tuple(gate.name for gate in gates) if gates else ()
