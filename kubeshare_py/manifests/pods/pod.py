"""A v1 Pod as the domain's Pod: decoded, then what it asks for, what it needs, what it holds."""

import msgspec
from msgspec.structs import replace

from kubeshare_py.dialects import pod_request
from kubeshare_py.dialects.allocation import NOTHING_HELD, ReadBack, read_back
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.dialects.predecessors import held_by_predecessor
from kubeshare_py.dialects.sharepod import SharePods
from kubeshare_py.domain.cluster_objects import (
    GroupReference,
    Labels,
    PodController,
    ReplicaSetObject,
    ReplicationControllerObject,
    Requirement,
    ServiceObject,
    StatefulSetObject,
    WatchedKind,
)
from kubeshare_py.domain.events import FinishedMember
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod, PodGroup, PodImages, Shape
from kubeshare_py.domain.quantity import BadQuantity, amount
from kubeshare_py.domain.quota import NO_SCOPES, NVIDIAS, PodScopes
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuRequest, InvalidRequest
from kubeshare_py.manifests.common_definitions import ObjectMeta, SelectorFields, requirements
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.pods.effective_requests import container_amounts
from kubeshare_py.manifests.pods.inter_pod import asked_of_others
from kubeshare_py.manifests.pods.placement import (
    MAX_VOLUMES,
    NONE_OWNED,
    OwnedNames,
    node_needs,
)
from kubeshare_py.manifests.pods.pod_fields import (
    ABSENT,
    ContainerResources,
    ContainerStatus,
    PodFields,
    PodSpec,
    PodStatus,
)
from kubeshare_py.manifests.pods.pod_volumes import ANYWHERE_WITH_NAME

# How long containers of a bound pod may outlive its object, and whether they have ended.
#
# What a kubelet does (release 1.36; files below pkg/kubelet of kubernetes/kubernetes):
# - It deletes a pod, with grace 0, only after the API server shows a terminal phase and all its
#   containers have ended (`canBeDeleted` in status/status_manager.go); a terminal phase is not
#   reported before that. So a pod that disappears without one was removed by another client.
#   Kubelets before 1.27 deleted it once its statuses said `terminated`.
# - Deletion with grace 0 (`kubectl delete --force`) writes `deletionTimestamp` and
#   `deletionGracePeriodSeconds: 0`, then removes the object: two watch events, milliseconds apart
#   (`updateForGracefulDeletionAndFinalizers` in k8s.io/apiserver, pkg/registry/generic/registry).
# - A kubelet that sees the first one ends the containers within 1 s for preStop hooks and 2 s from
#   SIGTERM to SIGKILL (`calculateEffectiveGracePeriod` in pod_workers.go,
#   `minimumGracePeriodInSeconds` in kuberuntime/kuberuntime_manager.go).
# - A kubelet that was disconnected at that moment finds only that the pod is missing. It uses the
#   grace period of the last object it knows, from when it notices: `deletionGracePeriodSeconds` if
#   it had seen a deletion, else `terminationGracePeriodSeconds` (the same function, from
#   `deletePod` and `removeTerminatedWorker`). Containers whose pod a restarted kubelet does not
#   know get 1 s (`HandlePodCleanups` in kubelet_pods.go).


#: The API server's default of `terminationGracePeriodSeconds`.
_DEFAULT_GRACE_S = 30
#: A kubelet gives every container this time (s) between SIGTERM and SIGKILL, whatever was
#: requested.
MIN_GRACE_S = 2


def grace_s(pod: PodFields) -> int:
    """How long (s) its containers may run on from the moment of its deletion.

    The grace period of a deletion that is under way, else that of the spec.
    """
    under_way = pod.metadata.deletion_grace_period_seconds
    if under_way:
        return max(MIN_GRACE_S, under_way)
    given = pod.spec.termination_grace_period_seconds
    return max(MIN_GRACE_S, _DEFAULT_GRACE_S if given is None else given)


def has_stopped(pod: PodFields) -> bool:
    """Whether all its containers have ended in the course of a deletion with grace.

    Without such a deletion they may be restarted. Containers without a status, or waiting to be
    started, do not count as ended.
    """
    status, meta = pod.status, pod.metadata
    if meta.deletion_timestamp is None or not meta.deletion_grace_period_seconds:
        return False
    own = status.container_statuses or ()
    others = (*(status.init_container_statuses or ()), *(status.ephemeral_container_statuses or ()))
    return len(own) >= max(1, len(pod.spec.containers or ())) and all(map(_ended, (*own, *others)))


def _ended(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.terminated is not None


# What scopes of ResourceQuotas ask about a pod, from its spec and status.
#
# As Kubernetes' own evaluator: pkg/quota/v1/evaluator/core/pods.go and, for the QoS class,
# pkg/apis/core/v1/helper/qos/qos.go of github.com/kubernetes/kubernetes.


_BEST_EFFORT = "BestEffort"
_COMPUTE = ("cpu", "memory")


def pod_scopes(pod: PodFields, *, crosses_namespaces: bool) -> PodScopes:
    """The value; pods of one template share it."""
    spec, qos_class = pod.spec, pod.status.qos_class
    deadline = spec.active_deadline_seconds
    return _scopes(
        spec.priority_class_name,
        deadline is not None and deadline >= 0,
        qos_class == _BEST_EFFORT if qos_class else _is_best_effort(spec),
        crosses_namespaces,
    )


@remembered(1024)
def _scopes(
    priority_class: str, terminating: bool, best_effort: bool, crosses_namespaces: bool
) -> PodScopes:
    return PodScopes(
        priority_class=priority_class,
        terminating=terminating,
        best_effort=best_effort,
        crosses_namespaces=crosses_namespaces,
    )


def _is_best_effort(spec: PodSpec) -> bool:
    """Whether neither the pod nor a container has an amount of cpu or memory.

    For pods that no API server gave a QoS class.
    """
    every = [*(spec.containers or ()), *(spec.init_containers or ())]
    parts = [spec.resources, *(one.resources for one in every)]
    return not any(_has_compute(one) for one in parts if one is not None)


def _has_compute(resources: ContainerResources) -> bool:
    for listed in (resources.requests or {}, resources.limits or {}):
        for name in _COMPUTE:
            try:
                if name in listed and amount(name, listed[name]) > 0:
                    return True
            except BadQuantity:
                continue
    return False


# The images that a pod's containers and volumes use.


class _ImageSource(msgspec.Struct, frozen=True, gc=False):
    reference: str = ""


def pod_images(spec: PodSpec) -> PodImages:
    """The images; the same object for the same ones while the cache holds it."""
    containers = (spec.init_containers or ()) + (spec.containers or ())
    names = [one.image for one in containers]
    for volume in spec.volumes or ():
        if "image" in volume:
            names.append(_reference(volume["image"]))
    return _images(tuple(names), len(containers))


def _reference(source: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(source, type=_ImageSource).reference
    except UNDECODABLE:
        return ""


@remembered(4096)
def _images(names: tuple[str, ...], containers: int) -> PodImages:
    return PodImages(tuple(sorted(_tagged(name) for name in names if name)), containers)


def _tagged(name: str) -> str:
    """The name with the tag `latest` if it has none (kube-scheduler's normalizedImageName)."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name


# Services and controllers of pods, of which the selectors are kept; and the controller of a pod.
#
# https://kubernetes.io/docs/reference/kubernetes-api/service-resources/ and
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/


#: The dialect whose pods mostly belong to an object that users know better than the pod.
_SHAREPOD = SharePods.name
#: By the apiVersion and kind of an owner reference.
_CONTROLLERS = {
    ("v1", "ReplicationController"): WatchedKind.REPLICATION_CONTROLLER,
    ("apps/v1", "ReplicaSet"): WatchedKind.REPLICA_SET,
    ("apps/v1", "StatefulSet"): WatchedKind.STATEFUL_SET,
}


#: JobSet's label with its own uid, on all pods of its Jobs: https://jobset.sigs.k8s.io/docs/.
_JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
#: A Deployment's label on the pods of each of its ReplicaSets, which are named after it and this.
_TEMPLATE_HASH = "pod-template-hash"


class _LabelsSpec(msgspec.Struct, frozen=True):
    selector: dict[str, str] | None = None


class SelectingLabelsFields(msgspec.Struct, frozen=True):
    """A v1 Service or ReplicationController."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _LabelsSpec = _LabelsSpec()


class _SelectorSpec(msgspec.Struct, frozen=True):
    selector: SelectorFields | None = None


class SelectingPodsFields(msgspec.Struct, frozen=True):
    """An apps/v1 ReplicaSet or StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _SelectorSpec = _SelectorSpec()


def service(fields: SelectingLabelsFields) -> ServiceObject:
    """What matters of a Service; one without a selector selects no pod."""
    meta, labels = fields.metadata, _selector_labels(fields)
    return ServiceObject(name=meta.name, namespace=meta.namespace, endpoint_labels=labels)


def replication_controller(fields: SelectingLabelsFields) -> ReplicationControllerObject:
    """What matters of a ReplicationController."""
    meta, labels = fields.metadata, _selector_labels(fields)
    return ReplicationControllerObject(
        name=meta.name, namespace=meta.namespace, replica_labels=labels
    )


def replica_set(fields: SelectingPodsFields) -> ReplicaSetObject:
    """What matters of a ReplicaSet."""
    meta, lines = fields.metadata, _lines(fields)
    return ReplicaSetObject(name=meta.name, namespace=meta.namespace, replica_selector=lines)


def stateful_set(fields: SelectingPodsFields) -> StatefulSetObject:
    """What matters of a StatefulSet."""
    meta, lines = fields.metadata, _lines(fields)
    return StatefulSetObject(name=meta.name, namespace=meta.namespace, ordinal_selector=lines)


def controller_of(meta: ObjectMeta) -> PodController | None:
    """The controller of a pod, if it is of a kind whose selector counts; else None."""
    for owner in meta.owner_references or ():
        if owner.controller:
            kind = _CONTROLLERS.get((owner.api_version, owner.kind))
            return None if kind is None else _controller(kind, owner.name)
    return None


def run_owner(meta: ObjectMeta) -> tuple[str, str]:
    """Of a member of a group: what its run belongs to, and the kind and name of its controller.

    The former is a uid, except for pods of a Deployment: its ReplicaSets replace each other, and
    pods do not have the Deployment's uid. Both are "" for a pod without a controller.
    """
    labels = meta.labels or {}
    for owner in meta.owner_references or ():
        if owner.controller:
            title = f"{owner.kind.lower()} {owner.name}"
            of_template = f"-{labels.get(_TEMPLATE_HASH, '')}"
            if (
                owner.kind == "ReplicaSet"
                and owner.name.endswith(of_template)
                and of_template != "-"
            ):
                name = owner.name.removesuffix(of_template)
                return f"Deployment/{name}", f"deployment {name}"
            return labels.get(_JOBSET_UID) or owner.uid, title
    return "", ""


@remembered(4096)
def _controller(kind: WatchedKind, name: str) -> PodController:
    """The pods of one controller share one value."""
    return PodController(kind, name)


def _selector_labels(fields: SelectingLabelsFields) -> Labels:
    return tuple(sorted((fields.spec.selector or {}).items()))


def _lines(fields: SelectingPodsFields) -> tuple[Requirement, ...]:
    selector = fields.spec.selector
    return () if selector is None else requirements(selector)


# A v1 Pod as the domain's Pod: decoded, then what it asks for, what it needs, what it holds.


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
    held = read_back(meta.annotations) if bound and meta.annotations else NOTHING_HELD
    is_told = held.allocation is not None or bool(held.problem)
    common = _common_of(pod, dialects, is_told)
    if common.former is not NOTHING_HELD and not is_told:
        held = common.former
    owner = owner_title = ""
    if meta.owner_references and (common.has_owner or held.allocation is not None):
        owner, owner_title = run_owner(meta)
    return Pod(
        uid=PodUid(meta.uid),
        key=PodKey(meta.namespace, meta.name),
        shape=common.shape,
        scheduler_name=spec.scheduler_name,
        node_name=NodeName(spec.node_name) if bound else None,
        priority=spec.priority or 0,
        label_priority=common.label_priority,
        created=meta.creation_timestamp or "",
        request=common.request,
        problem=common.problem,
        group=common.group,
        group_reference=common.group_reference,
        owner=owner if common.has_owner else "",
        owner_title=owner_title,
        gates=common.gates,
        unsupported=common.unsupported,
        deleting=meta.deletion_timestamp is not None,
        allocation=held.allocation,
        allocation_problem=held.problem,
        mismatch=held.mismatch,
        difference=held.difference,
        stale_results=common.stale_results,
        isolation=common.isolation,
        scopes=common.scopes,
        unlikely=common.unlikely,
        preempts=spec.preemption_policy != _NEVER,
        nominated=bool(status.nominated_node_name) or common.has_reservation,
        nominated_node=NodeName(status.nominated_node_name) or None,
        labels=_known_labels(tuple(sorted(meta.labels.items()))) if meta.labels else (),
        controller=controller_of(meta) if meta.owner_references and not bound else None,
        images=common.images,
        started=status.start_time or "" if bound else "",
        grace_s=grace_s(pod) if bound and meta.deletion_grace_period_seconds else common.grace_s,
        stopped=bound and meta.deletion_timestamp is not None and has_stopped(pod),
    )


class _Common(msgspec.Struct, frozen=True, gc=False):
    """What a pod has in common with those of its template; the names are those of `Pod`.

    `former` is what a bound pod without a placement of ours holds by its predecessor's annotations.
    """

    shape: Shape
    request: GpuRequest | None
    problem: InvalidRequest | None
    label_priority: int
    group: PodGroup | None
    group_reference: GroupReference | None
    has_owner: bool
    gates: tuple[str, ...]
    unsupported: tuple[str, ...]
    former: ReadBack
    stale_results: tuple[str, ...]
    isolation: str
    scopes: PodScopes
    unlikely: tuple[str, ...]
    has_reservation: bool
    images: PodImages | None
    grace_s: int


def _common(pod: PodFields, dialects: Dialects, is_told: bool) -> _Common:
    """Read it; `is_told`: a placement of ours says what the pod holds, readable or not."""
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
    others = asked_of_others(spec, meta.namespace, meta.labels)
    needs = node_needs(pod, asked.request, others.terms, owned, rules)
    former = NOTHING_HELD
    if bound and meta.annotations and not is_told:
        own = table.of_others(meta.labels, meta.annotations, containers)
        if own is not None:
            former = held_by_predecessor(
                table, own, asked.request, is_initialized=_is_initialized(status)
            )
    scopes = NO_SCOPES
    if dialects.quota_names:
        scopes = pod_scopes(pod, crosses_namespaces=others.crosses_namespaces)
    has_owner = asked.in_group or (asked.request is not None and asked.request.dialect == _SHAREPOD)
    problem = asked.problem
    if problem is not None and not bound:
        problem = pod_request.with_others(
            problem, meta.labels, meta.annotations, spec.pod_group, table, containers
        )
    return _Common(
        shape=needs.shape,
        request=asked.request,
        problem=problem or needs.problem or (None if bound else others.problem),
        label_priority=asked.priority,
        group=asked.group,
        group_reference=asked.reference,
        has_owner=has_owner,
        gates=spec.gates,
        unsupported=needs.unsupported,
        former=former,
        stale_results=asked.stale_results,
        isolation=asked.isolation,
        scopes=scopes,
        unlikely=pod_request.unlikely(meta.labels) if meta.labels else (),
        has_reservation=asked.has_reservation,
        images=None if bound or needs.problem is not None else pod_images(spec),
        grace_s=grace_s(pod) if bound else 0,
    )


# What pods of one template have in common is read once.
#
# The memo's key is written from the pod, and what is kept is read from that key alone: nothing that
# the key does not have can get into it, whatever pods it is kept for. Two pods have one key only if
# they are equal in all that is written, since it is JSON from which the same values are read.


class _Template(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """All that `_common` depends on, for pods whose name and uid do not matter to it.

    Labels and annotations are those that count, and volumes those that matter to placement.
    """

    namespace: str
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    spec: PodSpec
    status: PodStatus
    is_told: bool


#: Sources of volumes that neither placement nor an image depends on.
_PLAIN = ANYWHERE_WITH_NAME - {"image"}
_BOUND = NodeName("bound")
_ENCODER = msgspec.json.Encoder()
_TEMPLATE = msgspec.json.Decoder(_Template)


def _common_of(pod: PodFields, dialects: Dialects, is_told: bool) -> _Common:
    meta, spec, volumes = pod.metadata, pod.spec, pod.spec.volumes
    # With more keys, fewer of their problems are looked for.
    keys = (len(meta.labels) if meta.labels else 0) + (
        len(meta.annotations) if meta.annotations else 0
    )
    if keys > pod_request.MAX_KEYS or spec.resource_claims:
        return _common(pod, dialects, is_told)
    if volumes:
        if len(volumes) > MAX_VOLUMES:
            return _common(pod, dialects, is_told)
        placing: tuple[dict[str, msgspec.Raw], ...] = ()
        # Most are plain: the token's volume, whose name is another one in each pod.
        for one in volumes:
            if not one.keys() <= _PLAIN:
                placing += (one,)
        volumes = placing or None
    if volumes and any("ephemeral" in one for one in volumes):
        return _common(pod, dialects, is_told)
    try:
        template = _ENCODER.encode(_template(pod, volumes, dialects, is_told))
        return _known(template, dialects)
    except (*UNDECODABLE, ValueError):  # nested too deep, or numbers of more digits than are read
        return _common(pod, dialects, is_told)


def _template(
    pod: PodFields,
    volumes: tuple[dict[str, msgspec.Raw], ...] | None,
    dialects: Dialects,
    is_told: bool,
) -> _Template:
    meta, spec, status, keys = pod.metadata, pod.spec, pod.status, dialects.counting_keys
    labels, annotations, affinity = meta.labels or None, meta.annotations or None, spec.affinity
    # Terms about other pods may name any label of the pod's own.
    asks_of_others = spec.topology_spread_constraints is not ABSENT or (
        affinity is not None
        and (affinity.pod_affinity is not ABSENT or affinity.pod_anti_affinity is not ABSENT)
    )
    return _Template(
        meta.namespace,
        labels if asks_of_others or not labels else keys.labels.of(labels),
        annotations and (keys.asking if is_told else keys.annotations).of(annotations),
        replace(spec, node_name=_BOUND if spec.node_name else "", volumes=volumes),
        replace(status, phase="", start_time=None, nominated_node_name="")
        if spec.node_name
        else PodStatus(qos_class=status.qos_class),
        is_told,
    )


@remembered(_REMEMBERED)
def _known(template: bytes, dialects: Dialects) -> _Common:
    known = _TEMPLATE.decode(template)
    meta = ObjectMeta(namespace=known.namespace, labels=known.labels, annotations=known.annotations)
    return _common(PodFields(meta, known.spec, known.status), dialects, known.is_told)


def _is_initialized(status: PodStatus) -> bool:
    """Whether its init containers have ended well, and its sidecars have started.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions
    """
    return any(
        one.type == "Initialized" and one.status == "True" for one in status.conditions or ()
    )


@remembered(_REMEMBERED)
def _known_labels(labels: Labels) -> Labels:
    """Pods of one template share one value."""
    return labels
