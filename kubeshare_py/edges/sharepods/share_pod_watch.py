"""Follows all SharePods, and all pods of the cluster: any of them may have a SharePod's name."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from http import HTTPStatus

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.watch import follow_reduced
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.edges.sharepods.share_pod_requests import ReadSharePod
from kubeshare_py.manifests.sharepods.pod_behind_fields import PodBehindFields, pod_behind
from kubeshare_py.manifests.sharepods.share_pod_api import PODS, SHARE_PODS
from kubeshare_py.manifests.sharepods.share_pod_fields import SharePodFields
from kubeshare_py.manifests.watch import DELETED, Changes, Codec, ListResult, Problem, WatchLine
from kubeshare_py.sharepods.events import (
    PodBehindGone,
    PodBehindSeen,
    PodsBehindListed,
    SharePodEvent,
    SharePodGone,
    SharePodSeen,
    SharePodsListed,
)
from kubeshare_py.sharepods.pod_behind import PodBehind, SharePodUid
from kubeshare_py.sharepods.share_pod import SharePod

DeliverShareEvent = Callable[[SharePodEvent], None]
#: Seconds between searches for the definition of SharePods.
LOOK_S = 5.0
#: Objects in one answer, where lists are not streamed. Tenants may write SharePods of 1.5 MB, and
#: pods nearly as long.
SHARE_POD_PAGE, POD_PAGE = 25, 100
NOT_DEFINED = "SharePods are not defined in this cluster: install the chart with sharePods.enabled"


async def watch_share_pods(
    client: KubeClient, read: ReadSharePod, deliver: DeliverShareEvent, sleep: Sleep = asyncio.sleep
) -> None:
    """Follow SharePods for ever, and wait for their definition."""
    said = False
    while True:
        stream = follow_reduced(
            client,
            SHARE_PODS,
            Codec(SharePodFields),
            read,
            gives_up_at=frozenset({HTTPStatus.NOT_FOUND}),
            page_size=SHARE_POD_PAGE,
        )
        try:
            async with aclosing(stream) as updates:
                async for update in updates:
                    for event in _share_pod_events(update, read):
                        deliver(event)
        except KubeError:
            # With the definition, all SharePods are gone.
            deliver(SharePodsListed(()))
            if not said:
                decision_log.warn("sharepods", message=NOT_DEFINED)
            said = True
        await sleep(LOOK_S)


async def watch_pods(client: KubeClient, deliver: DeliverShareEvent) -> None:
    """Follow pods for ever."""
    stream = follow_reduced(client, PODS, Codec(PodBehindFields), pod_behind, page_size=POD_PAGE)
    async with aclosing(stream) as updates:
        async for update in updates:
            for event in _pod_events(update):
                deliver(event)


def _share_pod_events(
    update: ListResult[SharePod] | Changes[SharePodFields], read: ReadSharePod
) -> Iterator[SharePodEvent]:
    if isinstance(update, ListResult):
        unreadable = frozenset(PodKey(one.namespace, one.name) for one in update.problems)
        _complain(update.problems)
        yield SharePodsListed(tuple(update.items), unreadable)
        return
    for line in update.changed:
        if line.item is not None:
            share = read(line.item)
            is_gone = line.type == DELETED
            yield SharePodGone(share.key, share.uid) if is_gone else SharePodSeen(share)
        elif (problem := _problem(line)) is not None:
            yield SharePodGone(PodKey(problem.namespace, problem.name), SharePodUid(problem.uid))


def _pod_events(
    update: ListResult[PodBehind] | Changes[PodBehindFields],
) -> Iterator[SharePodEvent]:
    if isinstance(update, ListResult):
        unreadable = frozenset(PodUid(one.uid) for one in update.problems)
        _complain(update.problems)
        yield PodsBehindListed(
            pods=tuple(update.items), asked_at=update.asked_at, unreadable=unreadable
        )
        return
    for line in update.changed:
        if line.item is not None:
            pod = pod_behind(line.item)
            yield PodBehindGone(pod) if line.type == DELETED else PodBehindSeen(pod)
        elif (problem := _problem(line)) is not None:
            key = PodKey(problem.namespace, problem.name)
            yield PodBehindGone(PodBehind(key=key, uid=PodUid(problem.uid)))


def _problem(line: WatchLine[SharePodFields] | WatchLine[PodBehindFields]) -> Problem | None:
    """The object that cannot be read, if it was deleted."""
    if line.problem is None:
        return None
    _complain([line.problem])
    return line.problem if line.type == DELETED else None


def _complain(problems: list[Problem]) -> None:
    for one in problems:
        where = f"{one.namespace}/{one.name}"
        decision_log.warn("unreadable", object=where, uid=one.uid, message=one.text)
