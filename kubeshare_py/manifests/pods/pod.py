"""A v1 Pod as the domain's Pod: decoded, then what it asks for, what it needs, what it holds."""

from kubeshare_py.dialects import pod_request
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.dialects.predecessors import held_by_predecessor
from kubeshare_py.dialects.read_back import NOTHING_HELD, read_back
from kubeshare_py.domain.events import FinishedMember
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.label_selector import Labels
from kubeshare_py.domain.needs.gpu_quota import NO_SCOPES
from kubeshare_py.domain.needs.inter_pod import InterPodTerms
from kubeshare_py.domain.needs.native_resources import NVIDIAS
from kubeshare_py.domain.pod import Pod, Shape, with_device_claims, with_inter_pod, with_volumes
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.manifests.pods.container_amounts import container_amounts
from kubeshare_py.manifests.pods.inter_pod import asked_of_others
from kubeshare_py.manifests.pods.placement import NONE_OWNED, OwnedNames, node_needs
from kubeshare_py.manifests.pods.pod_device_claims import pod_device_claims
from kubeshare_py.manifests.pods.pod_end import grace_s, has_stopped
from kubeshare_py.manifests.pods.pod_fields import PodFields, PodStatus
from kubeshare_py.manifests.pods.pod_images import pod_images
from kubeshare_py.manifests.pods.pod_owners import controller_of, run_owner
from kubeshare_py.manifests.pods.pod_volumes import pod_volumes
from kubeshare_py.manifests.pods.quota_scopes import pod_scopes

_SUCCEEDED = "Succeeded"
_NEVER = "Never"
_REMEMBERED = 4096
_FINISHED = (_SUCCEEDED, "Failed")


def is_finished(pod: PodFields) -> bool:
    """Whether the pod has ended and holds nothing any more."""
    return pod.status.phase in _FINISHED


def finished_member(pod: PodFields) -> FinishedMember | None:
    """A finished pod as a member of its group; None if it was in none."""
    meta = pod.metadata
    # What it asked for of GPUs, in whatever dialect, does not matter any more.
    asked = pod_request.read(meta.labels, meta.annotations, pod.spec.pod_group, bound=True)
    if asked.reference is not None:
        gang = asked.reference.gang
    elif asked.group is not None:
        gang = asked.group.name
    else:
        return None
    held = read_back(meta.annotations).allocation if meta.annotations else None
    return FinishedMember(
        uid=PodUid(meta.uid),
        namespace=meta.namespace,
        group=gang,
        owner=run_owner(meta)[0],
        succeeded=pod.status.phase == _SUCCEEDED,
        had_node=bool(pod.spec.node_name),
        group_owners=() if held is None else held.group_owners,
    )


def to_domain(pod: PodFields, dialects: Dialects = SHAREDGPU_ALONE) -> Pod:
    """The domain's Pod for an unfinished pod. Never raises.

    A bound pod's allocation is read from its annotation. On a pod without a node that annotation,
    like every other result, was written by its user, and is only overwritten.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    bound = bool(spec.node_name)
    table = dialects.of(spec.scheduler_name)
    containers = (
        container_amounts(spec.init_containers, spec.containers, table.resources)
        if table.resources
        else ()
    )
    asked = pod_request.read(
        meta.labels,
        meta.annotations,
        spec.pod_group,
        table,
        containers,
        bound=bound,
        namespace=meta.namespace,
    )
    owned = NONE_OWNED if dialects.native is NVIDIAS else OwnedNames(native=dialects.native)
    if dialects.every.resources:
        foreign = dialects.every.resources - table.resources
        marks = () if bound or asked.request is None else table.marks(asked.request, containers)
        owned = OwnedNames(table.resources, foreign, marks, dialects.native)
    rules = () if asked.request is None else table.node_rules(asked.request)
    needs = node_needs(spec, status if bound else None, asked.request, owned, rules)
    others = asked_of_others(spec, meta.namespace, meta.labels)
    held = read_back(meta.annotations) if bound and meta.annotations else NOTHING_HELD
    if held is not NOTHING_HELD and held.allocation is None and not held.problem:
        own = table.of_others(meta.labels, meta.annotations, containers)
        former = (
            NOTHING_HELD
            if own is None
            else held_by_predecessor(
                table, own, asked.request, is_initialized=_is_initialized(status)
            )
        )
        held = held if former is NOTHING_HELD else former
    scopes = NO_SCOPES
    if dialects.quota_names:
        scopes = pod_scopes(pod, crosses_namespaces=others.crosses_namespaces)
    owner, owner_title = run_owner(meta) if asked.in_group else ("", "")
    problem = asked.problem
    if problem is not None and not bound:
        problem = pod_request.with_others(
            problem, meta.labels, meta.annotations, spec.pod_group, table, containers
        )
    return Pod(
        uid=PodUid(meta.uid),
        key=PodKey(meta.namespace, meta.name),
        shape=needs.shape if needs.problem is not None else _shape(pod, needs.shape, others.terms),
        scheduler_name=spec.scheduler_name,
        node_name=NodeName(spec.node_name) if bound else None,
        priority=spec.priority or 0,
        label_priority=asked.priority,
        created=meta.creation_timestamp or "",
        request=asked.request,
        problem=problem or needs.problem or (None if bound else others.problem),
        group=asked.group,
        group_reference=asked.reference,
        owner=owner,
        owner_title=owner_title,
        gates=spec.gates,
        unsupported=needs.unsupported,
        deleting=meta.deletion_timestamp is not None,
        allocation=held.allocation,
        allocation_problem=held.problem,
        mismatch=held.mismatch,
        difference=held.difference,
        stale_results=asked.stale_results,
        isolation=asked.isolation,
        scopes=scopes,
        preempts=spec.preemption_policy != _NEVER,
        nominated=bool(status.nominated_node_name) or asked.has_reservation,
        nominated_node=NodeName(status.nominated_node_name) or None,
        labels=_labels(meta.labels),
        controller=None if bound else controller_of(meta),
        images=None if bound or needs.problem is not None else pod_images(spec),
        started=status.start_time or "" if bound else "",
        grace_s=grace_s(pod) if bound else 0,
        stopped=bound and has_stopped(pod),
    )


def _is_initialized(status: PodStatus) -> bool:
    """Whether its init containers have ended well, and its sidecars have started.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions
    """
    return any(
        one.type == "Initialized" and one.status == "True" for one in status.conditions or ()
    )


def _shape(pod: PodFields, of_node: Shape, terms: InterPodTerms | None) -> Shape:
    """The shape that depends on its node, with other pods, volumes and device claims added."""
    shape = of_node if terms is None else with_inter_pod(of_node, terms)
    volumes = pod_volumes(pod.metadata, pod.spec.volumes)
    if volumes is not None:
        shape = with_volumes(shape, volumes)
    statuses = pod.status.resource_claim_statuses
    return with_device_claims(
        shape, pod_device_claims(pod.metadata, pod.spec.resource_claims, statuses)
    )


def _labels(labels: dict[str, str] | None) -> Labels:
    """The labels; pods of one template share one value."""
    return _known_labels(tuple(sorted(labels.items()))) if labels else ()


@remembered(_REMEMBERED)
def _known_labels(labels: Labels) -> Labels:
    return labels
