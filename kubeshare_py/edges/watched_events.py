"""What the watches of pods, nodes and disruption budgets bring, as the scheduler's events."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from kubeshare_py.domain.budget import Budget
from kubeshare_py.domain.events import (
    BudgetsListed,
    Event,
    FinishedMember,
    NodesListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.edges import decision_log
from kubeshare_py.edges.kube_watch import Changes, Listed
from kubeshare_py.manifests import budget, events, node
from kubeshare_py.manifests.budget import BudgetFields
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_fields import PodFields
from kubeshare_py.manifests.watch import Problem

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Translation(Generic[T, R]):
    """What is kept of a listed object, and the events that a batch of a watch amounts to."""

    reduce: Callable[[T], R]
    events: Callable[[Listed[R] | Changes[T]], Iterator[Event]]


def _pod_events(
    news: Listed[Pod | FinishedMember | None] | Changes[PodFields],
) -> Iterator[Event]:
    """A list, or changes in order. Pods that cannot be read are logged and stay as they were."""
    if isinstance(news, Listed):
        _warn(news.problems)
        unreadable = frozenset(PodUid(problem.uid) for problem in news.problems)
        pods = tuple(pod for pod in news.items if isinstance(pod, Pod))
        finished = tuple(one for one in news.items if isinstance(one, FinishedMember))
        for pod in pods:
            _check(PodSeen(pod))
        yield PodsListed(pods, news.asked_at, unreadable, finished)
        return
    for line in news.changed:
        if line.item is None:
            _warn([line.problem] if line.problem else [])
            continue
        event = events.pod_event(line.type, line.item)
        if event is not None:
            _check(event)
            yield event


def _node_events(news: Listed[Node] | Changes[NodeFields]) -> Iterator[Event]:
    """A list, or changes in order. Nodes that cannot be read are logged and left out."""
    if isinstance(news, Listed):
        _warn(news.problems)
        yield NodesListed(tuple(news.items))
        return
    for line in news.changed:
        if line.item is None:
            _warn([line.problem] if line.problem else [])
            continue
        event = events.node_event(line.type, line.item)
        if event is not None:
            yield event


def _budget_events(news: Listed[Budget] | Changes[BudgetFields]) -> Iterator[Event]:
    """A list, or changes in order. Budgets that cannot be read are logged and left out."""
    if isinstance(news, Listed):
        _warn(news.problems)
        yield BudgetsListed(tuple(news.items))
        return
    for line in news.changed:
        if line.item is None:
            _warn([line.problem] if line.problem else [])
            continue
        event = events.budget_event(line.type, line.item)
        if event is not None:
            yield event


BUDGET_EVENTS = Translation(budget.to_domain, _budget_events)
POD_EVENTS = Translation(events.listed_pod, _pod_events)
NODE_EVENTS = Translation(node.to_domain, _node_events)


def _check(event: Event) -> None:
    if isinstance(event, PodSeen) and event.pod.allocation_problem:
        pod = event.pod
        decision_log.warn("allocation", pod=str(pod.key), message=pod.allocation_problem)


def _warn(problems: list[Problem]) -> None:
    for problem in problems:
        where = f"{problem.namespace}/{problem.name}"
        decision_log.warn("unreadable", object=where, uid=problem.uid, message=problem.text)
