"""The controller of SharePods: `handle(event, now) -> effects`, without clock or client.

Nothing is requested before all SharePods and all pods are listed. For each name at most one request
is under way, and it is decided anew from what is known then: a process that ends at any point and
starts again goes on from what the API server stores. A second pod cannot come about, because a
pod has the name of its SharePod.
"""

import heapq
import math
from collections.abc import Iterable
from typing import assert_never

from kubeshare_py.domain.events import TimePassed
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.sharepods.answers import answered, key_of
from kubeshare_py.sharepods.effects import SharePodEffect
from kubeshare_py.sharepods.events import (
    EffectAnswered,
    PodBehindGone,
    PodBehindSeen,
    PodsBehindListed,
    SharePodEvent,
    SharePodGone,
    SharePodSeen,
    SharePodsListed,
)
from kubeshare_py.sharepods.pod_behind import PodBehind
from kubeshare_py.sharepods.record import SharePodRecord


class Reconciler:
    """All SharePods; `handle` is all that changes it. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._records: dict[PodKey, SharePodRecord] = {}
        self._share_pods_listed = self._pods_listed = False
        self._due: list[tuple[float, PodKey]] = []

    @property
    def is_ready(self) -> bool:
        """Whether both lists have been read."""
        return self._share_pods_listed and self._pods_listed

    def records(self) -> Iterable[SharePodRecord]:
        """All that is known, to be read only."""
        return self._records.values()

    def wake_at(self) -> float:
        """When (s) `TimePassed` is to be handled; inf for never."""
        return self._due[0][0] if self._due else math.inf

    def handle(self, event: SharePodEvent, now: float) -> list[SharePodEffect]:
        """Take in an event; what is to be done. Every event is legal in every state."""
        touched, effects = self._take(event, now)
        if not self.is_ready:
            return effects
        for key in touched:
            effects += self._step(key, now)
        return effects

    def _take(
        self, event: SharePodEvent, now: float
    ) -> tuple[Iterable[PodKey], list[SharePodEffect]]:
        """Change what is known; the names that this is about, and what follows at once."""
        effects: list[SharePodEffect] = []
        match event:
            case SharePodSeen() | SharePodGone() | SharePodsListed():
                touched = self._take_share_pods(event)
            case PodBehindSeen() | PodBehindGone() | PodsBehindListed():
                touched = self._take_pods(event)
            case EffectAnswered():
                touched, effects = [key_of(event.request)], self._answered(event, now)
            case TimePassed():
                touched = self._take_due(now)
            case _:
                assert_never(event)
        return touched, effects

    def _take_share_pods(
        self, event: SharePodSeen | SharePodGone | SharePodsListed
    ) -> list[PodKey]:
        match event:
            case SharePodSeen():
                self._record(event.share_pod.key).take_share_pod(event.share_pod)
                return [event.share_pod.key]
            case SharePodGone():
                self._share_pod_gone(event)
                return [event.key]
            case SharePodsListed():
                return self._list_share_pods(event)

    def _take_pods(self, event: PodBehindSeen | PodBehindGone | PodsBehindListed) -> list[PodKey]:
        match event:
            case PodBehindSeen():
                self._pod_seen(event.pod)
                return [event.pod.key]
            case PodBehindGone():
                record = self._records.get(event.pod.key)
                if record is not None:
                    record.lose_pod(event.pod)
                return [event.pod.key]
            case PodsBehindListed():
                return self._list_pods(event)

    def _step(self, key: PodKey, now: float) -> list[SharePodEffect]:
        record = self._records.get(key)
        if record is None:
            return []
        if record.is_empty:
            del self._records[key]
            return []
        before = record.due
        request = record.next_request(now)
        if request is not None:
            record.request, record.due = request, math.inf
            return [request]
        if record.due not in (math.inf, before):
            heapq.heappush(self._due, (record.due, key))
        return []

    def _record(self, key: PodKey) -> SharePodRecord:
        found = self._records.get(key)
        if found is None:
            found = self._records[key] = SharePodRecord(key=key)
        return found

    def _share_pod_gone(self, event: SharePodGone) -> None:
        record = self._records.get(event.key)
        known = record.share_pod if record is not None else None
        if record is not None and known is not None and known.uid == event.uid:
            record.share_pod, record.last = None, None

    def _list_share_pods(self, event: SharePodsListed) -> list[PodKey]:
        self._share_pods_listed = True
        present = {one.key for one in event.share_pods} | event.unreadable
        for key, record in self._records.items():
            if key not in present:
                record.share_pod, record.last = None, None
        for one in event.share_pods:
            self._record(one.key).take_share_pod(one)
        return [*self._records]

    def _pod_seen(self, pod: PodBehind) -> None:
        """Pods that no SharePod controls count only where a SharePod has their name."""
        if pod.owner or pod.key in self._records:
            self._record(pod.key).take_pod(pod)

    def _list_pods(self, event: PodsBehindListed) -> list[PodKey]:
        self._pods_listed = True
        present = {one.uid for one in event.pods} | event.unreadable
        for record in self._records.values():
            known = record.pod
            if known and known.uid not in present and record.found_at <= event.asked_at:
                record.lose_pod(known)
        for one in event.pods:
            self._pod_seen(one)
        return [*self._records]

    def _take_due(self, now: float) -> list[PodKey]:
        found: dict[PodKey, None] = {}
        while self._due and self._due[0][0] <= now:
            found[heapq.heappop(self._due)[1]] = None
        return [*found]

    def _answered(self, event: EffectAnswered, now: float) -> list[SharePodEffect]:
        record = self._records.get(key_of(event.request))
        if record is None or record.request != event.request:
            return []
        return answered(record, event.request, event.outcome, now)
