"""Changes of pods, nodes and disruption budgets, as the scheduler's events."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from kubeshare_py.domain.events import (
    BudgetsListed,
    Event,
    FinishedMember,
    NodesListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.edges.kube.watch import Changes, Listed
from kubeshare_py.edges.process import decision_log
from kubeshare_py.manifests import budget, events, node
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Problem

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Translation(Generic[T, R]):
    """How a listed object is reduced, and the events of a batch of a watch."""

    reduce: Callable[[T], R]
    events: Callable[[Listed[R] | Changes[T]], Iterator[Event]]


def _pod_events(
    news: Listed[Pod | FinishedMember | PodUid] | Changes[PodFields],
) -> Iterator[Event]:
    """A list, or changes in order. Unreadable pods are logged and stay as they were."""
    if isinstance(news, Listed):
        _warn(news.problems)
        unreadable = frozenset(PodUid(problem.uid) for problem in news.problems)
        pods = tuple(pod for pod in news.items if isinstance(pod, Pod))
        finished = tuple(one for one in news.items if isinstance(one, FinishedMember))
        stopped = frozenset(one for one in news.items if isinstance(one, str))
        stopped |= {one.uid for one in finished}
        for pod in pods:
            _check(PodSeen(pod))
        yield PodsListed(pods, news.asked_at, unreadable, finished, stopped)
        return
    for line in news.changed:
        if line.item is None:
            _warn([line.problem] if line.problem else [])
            continue
        event = events.pod_event(line.type, line.item)
        if event is not None:
            _check(event)
            yield event


def _translated(
    listed: Callable[[tuple[R, ...]], Event], one: Callable[[str, T], Event | None]
) -> Callable[[Listed[R] | Changes[T]], Iterator[Event]]:
    """A list, or changes in order. Unreadable objects are logged and left out."""

    def translate(news: Listed[R] | Changes[T]) -> Iterator[Event]:
        if isinstance(news, Listed):
            _warn(news.problems)
            yield listed(tuple(news.items))
            return
        for line in news.changed:
            if line.item is None:
                _warn([line.problem] if line.problem else [])
                continue
            event = one(line.type, line.item)
            if event is not None:
                yield event

    return translate


BUDGET_EVENTS = Translation(budget.to_domain, _translated(BudgetsListed, events.budget_event))
POD_EVENTS = Translation(events.listed_pod, _pod_events)
NODE_EVENTS = Translation(node.to_domain, _translated(NodesListed, events.node_event))


def _check(event: Event) -> None:
    if isinstance(event, PodSeen) and event.pod.allocation_problem:
        pod = event.pod
        decision_log.warn("allocation", pod=str(pod.key), message=pod.allocation_problem)


def _warn(problems: list[Problem]) -> None:
    for problem in problems:
        where = f"{problem.namespace}/{problem.name}"
        decision_log.warn("unreadable", object=where, uid=problem.uid, message=problem.text)
