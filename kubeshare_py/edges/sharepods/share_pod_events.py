"""Events about SharePods, written behind the requests; repeated ones are counted."""

import asyncio
import contextlib

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.scheduler.writes.event_series import EventKey, EventSeries, RepeatedEvent
from kubeshare_py.edges.scheduler.writes.report_requests import send_event
from kubeshare_py.edges.sharepods.share_pod_requests import Clock, utc_now
from kubeshare_py.manifests.reports import Regarding, ReportedEvent
from kubeshare_py.manifests.sharepods.share_pod_api import API_VERSION, KIND
from kubeshare_py.sharepods.effects import ReportSharePod

#: As KubeShare 1.0 named itself in events.
CONTROLLER = "kubeshare-controller"
_ACTION = "Reconciling"
WORKERS = 2
TICK_S = 60.0
RETRY_S = 2.0


class SharePodEvents:
    """Takes reports without waiting; `run` writes them. `instance` names this process."""

    def __init__(self, client: KubeClient, instance: str, clock: Clock = utc_now) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._series = EventSeries()
        self._wakeup = asyncio.Event()

    @property
    def dropped(self) -> int:
        """Events given up so far."""
        return self._series.dropped

    def report(self, effect: ReportSharePod) -> None:
        """Take an event."""
        about = Regarding(
            api_version=API_VERSION,
            kind=KIND,
            namespace=effect.key.namespace,
            name=effect.key.name,
            uid=effect.uid,
        )
        event = ReportedEvent(
            regarding=about,
            reason=effect.reason,
            note=effect.note,
            at=self._clock(),
            controller=CONTROLLER,
            action=_ACTION,
        )
        self._series.occurred(event, self._now())
        self._wakeup.set()

    async def run(self) -> None:
        """Write them, for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())
            group.create_task(self._tick())

    async def _work(self) -> None:
        while True:
            self._wakeup.clear()
            taken = self._series.queue.take(self._now())
            if taken is not None:
                await self._write(*taken)
                continue
            due = self._series.queue.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(due - self._now(), 0.0)):
                    await self._wakeup.wait()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._series.tick(self._now())
            self._wakeup.set()

    async def _write(self, key: EventKey, series: RepeatedEvent) -> None:
        count = series.count
        try:
            await send_event(self._client, series, count, self._instance)
        except KubeFailure as error:
            if isinstance(error, KubeError) and not error.may_pass:
                decision_log.detail("event refused", message=str(error))
                self._series.refused(key, series)
            else:
                self._series.failed(key, series, self._now(), RETRY_S)
            return
        self._series.written(key, series, count, self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
