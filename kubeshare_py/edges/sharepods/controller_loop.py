"""One reconciler among its watches: events go in, requests go out, and their answers in again."""

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass, field

from kubeshare_py.domain.events import TimePassed
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.sharepods.share_pod_events import SharePodEvents
from kubeshare_py.edges.sharepods.share_pod_requests import SharePodRequests
from kubeshare_py.sharepods.answers import key_of
from kubeshare_py.sharepods.effects import (
    CreatePod,
    DeletePod,
    ReportSharePod,
    SharePodRequest,
    WriteCardName,
    WriteStatus,
)
from kubeshare_py.sharepods.events import (
    EffectAnswered,
    RequestFailed,
    RequestOutcome,
    SharePodEvent,
)
from kubeshare_py.sharepods.reconciler import Reconciler


@dataclass(slots=True)
class ControllerLoop:
    """`group` is where requests run; nothing is said or sent but what the reconciler asks for."""

    reconciler: Reconciler
    requests: SharePodRequests
    events: SharePodEvents
    group: asyncio.TaskGroup
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)

    def deliver(self, event: SharePodEvent) -> None:
        """Let the reconciler take in an event, and begin what it asks for."""
        for effect in self.reconciler.handle(event, self._now()):
            if isinstance(effect, ReportSharePod):
                self.events.report(effect)
            else:
                self.group.create_task(self._perform(effect))
        self._wakeup.set()

    async def keep_time(self) -> None:
        """Tell the reconciler when the time comes that it waits for, for ever."""
        while True:
            self._wakeup.clear()
            wait_s = self.reconciler.wake_at() - self._now()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait_s == math.inf else max(wait_s, 0.0)):
                    await self._wakeup.wait()
            if self.reconciler.wake_at() <= self._now():
                self.deliver(TimePassed())

    async def _perform(self, request: SharePodRequest) -> None:
        outcome = await self.requests.perform(request)
        _log(request, outcome)
        self.deliver(EffectAnswered(request, outcome))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _log(request: SharePodRequest, outcome: RequestOutcome) -> None:
    """One line for each pod that is made, deleted or refused; of writes, only failures."""
    verb = {CreatePod: "create pod", DeletePod: "delete pod", WriteStatus: "status",
            WriteCardName: "GPUID"}.get(type(request), "adopt pod")  # fmt: skip
    about = {"sharepod": str(key_of(request))}
    if isinstance(outcome, RequestFailed):
        decision_log.warn(verb, **about, message=outcome.message)
    elif isinstance(request, WriteStatus | WriteCardName):
        decision_log.detail(verb, **about)
    else:
        decision_log.inform(verb, **about)
