"""The scheduler's events from lists and watches: pods, nodes, budgets, and other objects."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.domain.cluster_objects import (
    Budget,
    GroupApi,
    NamespaceObject,
    ObjectKey,
    PodGroupObject,
    WatchedKind,
)
from kubeshare_py.domain.events import (
    AnyObject,
    BudgetGone,
    BudgetSeen,
    BudgetsListed,
    Event,
    FinishedMember,
    NodeGone,
    NodeSeen,
    NodesListed,
    ObjectGone,
    ObjectSeen,
    ObjectsListed,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.quantity import INT32, BadQuantity, Quantity, amount
from kubeshare_py.domain.quota import LIMITS, QuotaObject, ScopeRequirement
from kubeshare_py.manifests import node, pod_group, resource_claims, resource_slices, volumes
from kubeshare_py.manifests.common_definitions import ObjectMeta, SelectorFields, requirements
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_group import PodGroupFields
from kubeshare_py.manifests.pods import pod
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import ADDED, DELETED, MODIFIED, Changes, ListResult, Problem

# A policy/v1 PodDisruptionBudget, in the fields that choosing victims depends on.
#
# https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/pod-disruption-budget-v1/


class _BudgetStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Camel case on the wire, no changes."""


class BudgetSpec(_BudgetStruct, frozen=True):
    """The spec; without a selector it selects nothing."""

    selector: SelectorFields | None = None


class BudgetStatus(_BudgetStruct, frozen=True):
    """The status, which the disruption controller writes."""

    disruptions_allowed: Annotated[int, Meta(ge=INT32.least, le=INT32.most)] = 0
    disrupted_pods: dict[str, msgspec.Raw] | None = None


class BudgetFields(_BudgetStruct, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def budget_key(budget: BudgetFields) -> PodKey:
    """The budget's namespace and name."""
    return PodKey(budget.metadata.namespace, budget.metadata.name)


def to_budget(budget: BudgetFields) -> Budget:
    """The domain's budget."""
    status, selector = budget.status, budget.spec.selector
    return Budget(
        key=budget_key(budget),
        selector=None if selector is None else requirements(selector),
        allowed=status.disruptions_allowed,
        disrupted=frozenset(status.disrupted_pods or ()),
    )


# The scheduler's events from lists and watches, and the objects in them that cannot be read.


#: An object as it is decoded, and what is kept of it. The objects of a list are reduced as they
#: arrive, that of a change when its event is made.
T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

#: Taking in a node costs about 35 µs, and a pod that holds a card as much.
NODES_A_PORTION = PODS_A_PORTION = 250
#: A pod; of a finished one only what counts: its uid, if it was in no group.
ReadPod = Pod | FinishedMember | PodUid


@dataclass(frozen=True, slots=True)
class BadAllocation:
    """A bound pod whose allocation cannot be read; the pod's event comes all the same."""

    key: PodKey
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation(Generic[T, R]):
    """How one resource's lists and changes become events.

    `reduce` keeps of an object what the events need. An object that cannot be decoded yields a
    `Problem`, and its last readable state stays: its changes are no events, and the event of a list
    names it as unreadable. If it is deleted, `deleted` makes the event of its identity. A long list
    may be several events.
    """

    reduce: Callable[[T], R]
    seen: Callable[[R], Event]
    gone: Callable[[T], Event]
    deleted: Callable[[Problem], Event]
    listed: Callable[[ListResult[R]], Iterable[Event]]

    def event(self, change: str, fields: T) -> Event | None:
        """A watch line about an object; None for bookmarks and errors."""
        if change == DELETED:
            return self.gone(fields)
        return self.seen(self.reduce(fields)) if change in (ADDED, MODIFIED) else None

    def events(
        self, update: ListResult[R] | Changes[T]
    ) -> Iterator[Event | Problem | BadAllocation]:
        """Those of a list, or one per change, in order; problems come before their event."""
        if isinstance(update, ListResult):
            yield from update.problems
            for part in self.listed(update):
                yield from _checked(part)
            return
        for line in update.changed:
            if line.item is None:
                if line.problem is not None:
                    yield line.problem
                    if line.type == DELETED and line.problem.name:
                        yield self.deleted(line.problem)
            elif (event := self.event(line.type, line.item)) is not None:
                yield from _checked(event)


def _checked(event: Event) -> Iterator[Event | BadAllocation]:
    pods: tuple[Pod, ...] = ()
    if isinstance(event, PodsListed):
        pods = event.pods
    elif isinstance(event, PodSeen):
        pods = (event.pod,)
    for one in pods:
        if one.allocation_problem:
            yield BadAllocation(one.key, one.allocation_problem)
    yield event


def _key(problem: Problem) -> PodKey:
    return PodKey(problem.namespace, problem.name)


def _read_pod(dialects: Dialects, fields: PodFields) -> ReadPod:
    if pod.is_finished(fields):
        return pod.finished_member(fields) or PodUid(fields.metadata.uid)
    return pod.to_domain(fields, dialects)


def _pod_seen(found: ReadPod) -> PodSeen | PodGone:
    """A finished pod is gone."""
    if isinstance(found, Pod):
        return PodSeen(found)
    if isinstance(found, FinishedMember):
        return PodGone(found.uid, found, stopped=True)
    return PodGone(found, stopped=True)


def _pods_listed(update: ListResult[ReadPod]) -> Iterator[PodsListed]:
    """The list in portions, as `_nodes_listed`."""
    finished = tuple(one for one in update.items if isinstance(one, FinishedMember))
    stopped = {one for one in update.items if isinstance(one, str)}
    listed = PodsListed(
        pods=tuple(one for one in update.items if isinstance(one, Pod)),
        asked_at=update.asked_at,
        unreadable=frozenset(PodUid(problem.uid) for problem in update.problems),
        finished=finished,
        stopped=frozenset(stopped | {one.uid for one in finished}),
    )
    return portions_of(listed, PODS_A_PORTION)


def portions_of(listed: PodsListed, size: int) -> Iterator[PodsListed]:
    """A list as several ones of at most so many pods, in the API server's order.

    The first one has no pods yet if the list is long: naming 50,000 takes long enough.
    """
    pods = listed.pods
    if len(pods) <= size:
        yield listed
        return
    to_come = frozenset([pod.uid for pod in pods])
    yield replace(listed, pods=(), to_come=to_come, more=True)
    last = (len(pods) - 1) // size * size
    for first in range(0, last, size):
        yield PodsListed(pods[first : first + size], listed.asked_at, continues=True, more=True)
    yield replace(listed, pods=pods[last:], continues=True)


def pod_events(dialects: Dialects) -> Translation[PodFields, ReadPod]:
    """How pods become events; they ask for GPUs in these dialects."""
    return Translation(
        reduce=partial(_read_pod, dialects),
        seen=_pod_seen,
        gone=lambda fields: PodGone(PodUid(fields.metadata.uid), stopped=pod.is_finished(fields)),
        deleted=lambda problem: PodGone(PodUid(problem.uid)),
        listed=_pods_listed,
    )


def _nodes_listed(update: ListResult[Node]) -> Iterator[NodesListed]:
    """The list in portions, so that taking in one of them is always quick, by name.

    Each portion is one turn of the process: 5,000 nodes at once took 160 ms, in which no Lease is
    renewed and no question answered.
    """
    nodes = sorted(update.items, key=lambda node: node.name)
    last = max(0, len(nodes) - 1) // NODES_A_PORTION * NODES_A_PORTION
    for first in range(0, last, NODES_A_PORTION):
        yield NodesListed(tuple(nodes[first : first + NODES_A_PORTION]), more=True)
    unreadable = frozenset(NodeName(problem.name) for problem in update.problems)
    yield NodesListed(tuple(nodes[last:]), unreadable)


def node_events(
    dialects: Dialects, locks: node.ReadLocks | None = None
) -> Translation[NodeFields, Node]:
    """How nodes become events; see `node.to_domain` for the names that `dialects` own on them."""
    return Translation(
        reduce=lambda fields: node.to_domain(fields, dialects, locks),
        seen=NodeSeen,
        gone=lambda fields: NodeGone(NodeName(fields.metadata.name)),
        deleted=lambda problem: NodeGone(NodeName(problem.name)),
        listed=_nodes_listed,
    )


POD_EVENTS = pod_events(SHAREDGPU_ALONE)
NODE_EVENTS = node_events(SHAREDGPU_ALONE)
BUDGET_EVENTS: Translation[BudgetFields, Budget] = Translation(
    reduce=to_budget,
    seen=BudgetSeen,
    gone=lambda fields: BudgetGone(budget_key(fields)),
    deleted=lambda problem: BudgetGone(_key(problem)),
    listed=lambda update: (
        BudgetsListed(tuple(update.items), frozenset(map(_key, update.problems))),
    ),
)


def pod_group_events(api: GroupApi) -> Translation[PodGroupFields, PodGroupObject]:
    """How the PodGroups of one API become events."""
    return Translation(
        reduce=partial(pod_group.to_domain, api),
        seen=PodGroupSeen,
        gone=lambda group: PodGroupGone(api, group.metadata.namespace, group.metadata.name),
        deleted=lambda problem: PodGroupGone(api, problem.namespace, problem.name),
        listed=lambda update: (
            PodGroupsListed(
                api,
                tuple(update.items),
                unreadable=frozenset(
                    (problem.namespace, problem.name) for problem in update.problems
                ),
            ),
        ),
    )


# ResourceQuotas, of which limits of extended resources are kept.
#
# https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/resource-quota-v1/


class _SelectorLine(msgspec.Struct, frozen=True, rename="camel"):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class _ScopeSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[_SelectorLine, ...] | None = None


class _QuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    hard: dict[str, Quantity] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: _ScopeSelector | None = None


class ResourceQuotaFields(msgspec.Struct, frozen=True):
    """A v1 ResourceQuota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _QuotaSpec = _QuotaSpec()


def to_quota(fields: ResourceQuotaFields) -> QuotaObject:
    """What matters of a ResourceQuota. What is no quantity limits nothing."""
    meta, found = fields.metadata, []
    for key, quantity in sorted((fields.spec.hard or {}).items()):
        name = key.removeprefix(LIMITS)
        if not key.startswith(LIMITS) or "/" not in name:
            continue
        try:
            found.append((name, amount(name, quantity)))
        except BadQuantity:
            continue
    return QuotaObject(
        name=meta.name,
        namespace=meta.namespace,
        hard_limits=tuple(found),
        scopes=_scopes(fields.spec),
    )


def _scopes(spec: _QuotaSpec) -> tuple[ScopeRequirement, ...]:
    """Both spellings: `scopes` are requirements that exist."""
    found = [ScopeRequirement(scope=one) for one in spec.scopes or ()]
    selector = spec.scope_selector
    for one in (selector.match_expressions if selector else None) or ():
        values = tuple(one.values or ())
        found.append(ScopeRequirement(scope=one.scope_name, operator=one.operator, values=values))
    return tuple(found)


# Objects that placement depends on besides pods and nodes: where they are, how they are read.


_CORE = "api/v1"
_STORAGE = "apis/storage.k8s.io/v1"
_DEVICES = "apis/resource.k8s.io/v1"
_APPS = "apis/apps/v1"


class _NamespaceFields(msgspec.Struct, frozen=True, rename="camel"):
    """A v1 Namespace, of which the labels matter."""

    metadata: ObjectMeta = ObjectMeta()


def _namespace(fields: _NamespaceFields) -> NamespaceObject:
    meta = fields.metadata
    return NamespaceObject(name=meta.name, labels=tuple(sorted((meta.labels or {}).items())))


@dataclass(frozen=True, slots=True)
class WatchedObjects:
    """One kind: its API group, its fields as a msgspec struct, and what is kept of them.

    The struct has `metadata`.
    """

    group: str
    kind: WatchedKind
    fields: type[Any]
    to_domain: Callable[[Any], AnyObject]

    @property
    def path(self) -> str:
        """The path of its list in the API."""
        return f"/{self.group}/{self.kind}"

    def translation(self) -> Translation[Any, AnyObject]:
        """How its lists and changes become events."""
        kind = self.kind
        return Translation(
            reduce=self.to_domain,
            seen=ObjectSeen,
            gone=lambda one: ObjectGone(kind, _object_key(one.metadata)),
            deleted=lambda problem: ObjectGone(kind, ObjectKey(problem.namespace, problem.name)),
            listed=lambda update: (
                ObjectsListed(
                    kind,
                    tuple(update.items),
                    unreadable=frozenset(
                        ObjectKey(problem.namespace, problem.name) for problem in update.problems
                    ),
                ),
            ),
        )


def _object_key(meta: ObjectMeta) -> ObjectKey:
    return ObjectKey(meta.namespace, meta.name)


#: All kinds that the scheduler follows.
WATCHED = (
    WatchedObjects(_CORE, WatchedKind.NAMESPACE, _NamespaceFields, _namespace),
    WatchedObjects(_CORE, WatchedKind.CLAIM, volumes.ClaimFields, volumes.to_claim),
    WatchedObjects(
        _CORE,
        WatchedKind.VOLUME,
        volumes.PersistentVolumeFields,
        volumes.to_volume,
    ),
    WatchedObjects(
        _STORAGE,
        WatchedKind.STORAGE_CLASS,
        volumes.StorageClassFields,
        volumes.to_storage_class,
    ),
    WatchedObjects(_STORAGE, WatchedKind.CSI_NODE, volumes.CsiNodeFields, volumes.csi_node),
    WatchedObjects(_STORAGE, WatchedKind.CSI_DRIVER, volumes.CsiDriverFields, volumes.csi_driver),
    WatchedObjects(
        _STORAGE,
        WatchedKind.CSI_CAPACITY,
        volumes.CsiStorageCapacityFields,
        volumes.csi_storage_capacity,
    ),
    WatchedObjects(
        _STORAGE, WatchedKind.ATTACHMENT, volumes.VolumeAttachmentFields, volumes.volume_attachment
    ),
    WatchedObjects(
        _DEVICES,
        WatchedKind.DEVICE_CLASS,
        resource_claims.DeviceClassFields,
        resource_claims.to_device_class,
    ),
    WatchedObjects(
        _DEVICES,
        WatchedKind.RESOURCE_SLICE,
        resource_slices.ResourceSliceFields,
        resource_slices.to_resource_slice,
    ),
    WatchedObjects(
        _DEVICES,
        WatchedKind.RESOURCE_CLAIM,
        resource_claims.ResourceClaimFields,
        resource_claims.to_resource_claim,
    ),
    WatchedObjects(_CORE, WatchedKind.SERVICE, pod.SelectingLabelsFields, pod.service),
    WatchedObjects(
        _CORE,
        WatchedKind.REPLICATION_CONTROLLER,
        pod.SelectingLabelsFields,
        pod.replication_controller,
    ),
    WatchedObjects(_APPS, WatchedKind.REPLICA_SET, pod.SelectingPodsFields, pod.replica_set),
    WatchedObjects(_APPS, WatchedKind.STATEFUL_SET, pod.SelectingPodsFields, pod.stateful_set),
    WatchedObjects(
        _CORE,
        WatchedKind.RESOURCE_QUOTA,
        ResourceQuotaFields,
        to_quota,
    ),
)
