"""What the watches of pods and nodes bring, as the scheduler's events."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from kubeshare_py.domain.events import Event, PodSeen, PodsListed
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges import decision_log
from kubeshare_py.edges.kube_watch import Changes, Listed
from kubeshare_py.manifests import events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_fields import PodFields
from kubeshare_py.manifests.watch import Problem

T = TypeVar("T", bound=msgspec.Struct)
#: Translates one batch of a watch.
Translation = Callable[[Listed[T] | Changes[T]], Iterator[Event]]


def pod_events(news: Listed[PodFields] | Changes[PodFields]) -> Iterator[Event]:
    """A list, or changes in order. Pods that cannot be read are logged and stay as they were."""
    if isinstance(news, Listed):
        _warn(news.problems)
        unreadable = frozenset(PodUid(problem.uid) for problem in news.problems)
        listed = events.pods_listed(news.items, news.asked_at)
        for pod in listed.pods:
            _check(PodSeen(pod))
        yield PodsListed(listed.pods, listed.asked_at, unreadable)
        return
    for line in news.changed:
        if line.item is None:
            _warn([line.problem] if line.problem else [])
            continue
        event = events.pod_event(line.type, line.item)
        if event is not None:
            _check(event)
            yield event


def node_events(news: Listed[NodeFields] | Changes[NodeFields]) -> Iterator[Event]:
    """A list, or changes in order. Nodes that cannot be read are logged and left out."""
    if isinstance(news, Listed):
        _warn(news.problems)
        yield events.nodes_listed(news.items)
        return
    for line in news.changed:
        if line.item is None:
            _warn([line.problem] if line.problem else [])
            continue
        event = events.node_event(line.type, line.item)
        if event is not None:
            yield event


def _check(event: Event) -> None:
    if isinstance(event, PodSeen) and event.pod.allocation_problem:
        pod = event.pod
        decision_log.warn("allocation", pod=str(pod.key), message=pod.allocation_problem)


def _warn(problems: list[Problem]) -> None:
    for problem in problems:
        where = f"{problem.namespace}/{problem.name}"
        decision_log.warn("unreadable", object=where, uid=problem.uid, message=problem.text)
