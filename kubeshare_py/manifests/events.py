"""The scheduler's events from lists and watches, and the objects in them that cannot be read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import msgspec

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.domain.budget import Budget
from kubeshare_py.domain.events import (
    BudgetGone,
    BudgetSeen,
    BudgetsListed,
    Event,
    FinishedMember,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodGroupsListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.group_objects import GroupApi, PodGroupObject
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.manifests import budget, node, pod_group
from kubeshare_py.manifests.budget import BudgetFields
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_group import PodGroupFields
from kubeshare_py.manifests.pods import pod
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import ADDED, DELETED, MODIFIED, Changes, ListResult, Problem

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

#: A pod; of a finished one only what counts: its uid, if it was in no group.
ListedPod = Pod | FinishedMember | PodUid


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
    names it as unreadable. If it is deleted, `deleted` makes the event of its identity.
    """

    reduce: Callable[[T], R]
    seen: Callable[[R], Event]
    gone: Callable[[T], Event]
    deleted: Callable[[Problem], Event]
    listed: Callable[[ListResult[R]], Event]

    def event(self, change: str, fields: T) -> Event | None:
        """A watch line about an object; None for bookmarks and errors."""
        if change == DELETED:
            return self.gone(fields)
        return self.seen(self.reduce(fields)) if change in (ADDED, MODIFIED) else None

    def events(
        self, update: ListResult[R] | Changes[T]
    ) -> Iterator[Event | Problem | BadAllocation]:
        """One event for a list, or one per change, in order; problems come before their event."""
        if isinstance(update, ListResult):
            yield from update.problems
            yield from _checked(self.listed(update))
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


def _listed_pod(dialects: Dialects, fields: PodFields) -> ListedPod:
    if pod.is_finished(fields):
        return pod.finished_member(fields) or PodUid(fields.metadata.uid)
    return pod.to_domain(fields, dialects)


def _pod_seen(found: ListedPod) -> PodSeen | PodGone:
    """A finished pod is gone."""
    if isinstance(found, Pod):
        return PodSeen(found)
    if isinstance(found, FinishedMember):
        return PodGone(found.uid, found, stopped=True)
    return PodGone(found, stopped=True)


def _pods_listed(update: ListResult[ListedPod]) -> PodsListed:
    finished = tuple(one for one in update.items if isinstance(one, FinishedMember))
    stopped = {one for one in update.items if isinstance(one, str)}
    return PodsListed(
        pods=tuple(one for one in update.items if isinstance(one, Pod)),
        asked_at=update.asked_at,
        unreadable=frozenset(PodUid(problem.uid) for problem in update.problems),
        finished=finished,
        stopped=frozenset(stopped | {one.uid for one in finished}),
    )


def pod_events(dialects: Dialects) -> Translation[PodFields, ListedPod]:
    """Of pods, which ask in these dialects."""
    return Translation(
        reduce=partial(_listed_pod, dialects),
        seen=_pod_seen,
        gone=lambda fields: PodGone(PodUid(fields.metadata.uid), stopped=pod.is_finished(fields)),
        deleted=lambda problem: PodGone(PodUid(problem.uid)),
        listed=_pods_listed,
    )


def node_events(
    dialects: Dialects, locks: node.ReadLocks | None = None
) -> Translation[NodeFields, Node]:
    """Of nodes, on which these dialects own names of resources; see `node.to_domain`."""
    return Translation(
        reduce=lambda fields: node.to_domain(fields, dialects, locks),
        seen=NodeSeen,
        gone=lambda fields: NodeGone(NodeName(fields.metadata.name)),
        deleted=lambda problem: NodeGone(NodeName(problem.name)),
        listed=lambda update: NodesListed(
            tuple(update.items), frozenset(NodeName(problem.name) for problem in update.problems)
        ),
    )


POD_EVENTS = pod_events(SHAREDGPU_ALONE)
NODE_EVENTS = node_events(SHAREDGPU_ALONE)
BUDGET_EVENTS: Translation[BudgetFields, Budget] = Translation(
    reduce=budget.to_domain,
    seen=BudgetSeen,
    gone=lambda fields: BudgetGone(budget.key_of(fields)),
    deleted=lambda problem: BudgetGone(_key(problem)),
    listed=lambda update: BudgetsListed(tuple(update.items), frozenset(map(_key, update.problems))),
)


def pod_group_events(api: GroupApi) -> Translation[PodGroupFields, PodGroupObject]:
    """Of the PodGroups of one API."""
    return Translation(
        reduce=partial(pod_group.to_domain, api),
        seen=PodGroupSeen,
        gone=lambda group: PodGroupGone(api, group.metadata.namespace, group.metadata.name),
        deleted=lambda problem: PodGroupGone(api, problem.namespace, problem.name),
        listed=lambda update: PodGroupsListed(
            api,
            tuple(update.items),
            unreadable=frozenset((problem.namespace, problem.name) for problem in update.problems),
        ),
    )
