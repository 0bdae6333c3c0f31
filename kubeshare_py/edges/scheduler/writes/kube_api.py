"""Performs the scheduler's effects in Kubernetes: binds at once, reports behind them."""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import assert_never

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.domain.effects import (
    Bind,
    Evict,
    Nominate,
    Preempt,
    ReportCardChange,
    ReportEffect,
    ReportOvercommit,
    ReportPodWarning,
    ReportScheduled,
    ReportWaiting,
    WriteObject,
)
from kubeshare_py.domain.events import (
    BindAnswered,
    BindOutcome,
    BindRefused,
    BindUnknown,
    Bound,
    EvictionFailed,
    ObjectWritten,
    Refusal,
)
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.scheduler.writes.eviction_lane import EvictionLane
from kubeshare_py.edges.scheduler.writes.failed_writes import Write
from kubeshare_py.edges.scheduler.writes.object_lane import ObjectLane
from kubeshare_py.edges.scheduler.writes.report_lane import ReportLane
from kubeshare_py.manifests.api_paths import pod_path
from kubeshare_py.manifests.binding import (
    OF_ONE_TRY,
    Doubt,
    annotation_problem,
    binding_annotations,
    binding_body,
    read_outcome,
    read_refusal,
)

#: The server gives up after this long (s), so that a late write cannot surprise a new leader.
SERVER_TIMEOUT_S = 5
CLIENT_TIMEOUT_S = 6.0
#: Seconds after a leader's last moment after which none of its Bindings is stored any more.
HAND_OVER_S = SERVER_TIMEOUT_S + 1.0


class KubeApi:
    """Performs effects against one API server."""

    def __init__(
        self,
        client: KubeClient,
        reports: ReportLane,
        *,
        fence: Callable[[], str] = lambda: "",
        dialects: Dialects = SHAREDGPU_ALONE,
    ) -> None:
        """`fence` gives this process's term of leadership for each Binding, "" for none."""
        self._dialects = dialects
        self._client = client
        self._reports = reports
        #: Of all writes.
        self.failures = reports.failures
        self._evictions = EvictionLane(client, self.failures)
        self._objects = ObjectLane(client, self.failures)
        self._fence = fence
        #: Unix time less the machine's time, which is the loop's: read once, so that a Binding that
        #: is sent again is the same one.
        self._unix_offset_s: float | None = None

    async def bind(self, bind: Bind) -> BindAnswered:
        """Send one Binding, once, and return its outcome; never raises for errors of the server.

        The caller resolves an unknown outcome by the same Bind again. A condition of this pod that
        is being written is waited for, and no further one is begun until the Binding is answered:
        `PodScheduled` must end as the API server sets it, True.
        """
        if self._unix_offset_s is None:
            self._unix_offset_s = time.time() - asyncio.get_running_loop().time()
        of_dialect = self._dialects.results(bind.allocation, bind.decided, self._unix_offset_s)
        if isinstance(of_dialect, str):
            return _answered(bind, await self._refused(bind, Refusal.INVALID, of_dialect))
        annotations = binding_annotations(bind, self._fence(), of_dialect)
        labels = self._dialects.labels(bind.allocation, of_dialect)
        problem = annotation_problem(annotations)
        if problem:
            outcome = await self._refused(bind, Refusal.INVALID, problem)
        else:
            async with self._reports.hold_back(bind.uid):
                outcome = await self._send(bind, binding_body(bind, annotations, labels))
        return _answered(bind, outcome)

    async def evict(self, effect: Evict, is_wanted: Callable[[], bool]) -> EvictionFailed | None:
        """Report and delete the pod, if the server allows it; else return that it failed.

        Never raises for errors of the server.

        `is_wanted` is called when its turn comes.
        """
        self._reports.evicted(effect)
        answer = await self._evictions.evict(effect, is_wanted)
        return EvictionFailed(effect.uid, answer) if answer else None

    async def nominate(self, effect: Nominate) -> None:
        """Nominate the pod; never raises for errors of the server."""
        await self._evictions.nominate(effect)

    async def write(self, effect: WriteObject) -> ObjectWritten:
        """Write to an object, once, and return the outcome; never raises for errors of the server.

        The caller resolves an unknown outcome by the same write again.
        """
        return await self._objects.write(effect)

    def preempting(self, effect: Preempt) -> None:
        """Hand a plan that begins to the low-priority lane; returns at once."""
        self._reports.preempting(effect)

    def report(self, effect: ReportEffect) -> None:
        """Hand a report to the low-priority lane; returns at once."""
        match effect:
            case ReportWaiting():
                self._reports.waiting(effect)
            case ReportScheduled():
                self._reports.scheduled(effect)
            case ReportPodWarning():
                self._reports.warning(effect)
            case ReportOvercommit():
                self._reports.overcommit(effect)
            case ReportCardChange():
                self._reports.card_changed(effect)
            case _:
                assert_never(effect)

    def wake(self, report: ReportWaiting) -> None:
        """Write a condition alone, so that the scheduler that has the pod sees an update of it."""
        self._reports.condition(report)

    async def _send(self, bind: Bind, body: bytes) -> BindOutcome:
        try:
            await self._client.request(
                "POST",
                f"{pod_path(bind.key)}/binding?timeout={SERVER_TIMEOUT_S}s",
                body=body,
                timeout_s=CLIENT_TIMEOUT_S,
            )
        except KubeFailure as error:
            outcome = await self._judge(bind, error)
            self._note(bind, outcome, error)
            return outcome
        return Bound()

    async def _judge(self, bind: Bind, error: KubeFailure) -> BindOutcome:
        if not isinstance(error, KubeError):
            return BindUnknown(str(error))
        kind, is_status = error.details_kind, error.is_status
        found = read_refusal(error.status, error.reason, kind, error.message, is_status=is_status)
        if isinstance(found, Refusal):
            return await self._refused(bind, found, str(error))
        if found is Doubt.AGAIN:
            return BindUnknown(str(error), error.retry_after_s or 0.0)
        refused = Refusal.DELETING if found is Doubt.LEAVES else None
        return await self._look(bind, str(error), refused)

    async def _refused(self, bind: Bind, refusal: Refusal, answer: str) -> BindOutcome:
        """What follows from the refusal of this try, given that it may not have been the first.

        The server may still store an earlier one for as long as it works on a Binding at most.
        """
        if bind.in_doubt_since is None or refusal not in OF_ONE_TRY:
            return BindRefused(refusal, answer)
        left_s = bind.in_doubt_since + HAND_OVER_S - asyncio.get_running_loop().time()
        found = await self._look(bind, answer, None if left_s > 0 else refusal)
        is_open = isinstance(found, BindUnknown) and left_s > 0
        return BindUnknown(answer, HAND_OVER_S) if is_open else found

    async def _look(self, bind: Bind, answer: str, refused: Refusal | None = None) -> BindOutcome:
        """Read the pod, consistently, to see whose placement it has; see `read_outcome`."""
        try:
            pod = await self._client.request(
                "GET", pod_path(bind.key), timeout_s=CLIENT_TIMEOUT_S, patient=False
            )
        except KubeError as failure:
            if failure.status == HTTPStatus.NOT_FOUND and failure.details_kind == "pods":
                return BindRefused(Refusal.GONE, failure.message)
            return BindUnknown(f"{answer}; reading the pod: {failure}")
        except KubeFailure as failure:
            return BindUnknown(f"{answer}; reading the pod: {failure}")
        return read_outcome(pod.body, bind, answer, refused)

    def _note(self, bind: Bind, outcome: BindOutcome, error: KubeFailure) -> None:
        """Log and count the failure, unless the pod turns out to be bound, or is about to go."""
        if isinstance(outcome, BindRefused):
            if outcome.refusal in (Refusal.GONE, Refusal.DELETING):
                return
            word: str = outcome.refusal
        elif isinstance(outcome, BindUnknown):
            word = "unknown"
        else:
            return
        about = {"pod": str(bind.key), "uid": bind.uid, "node": bind.node, "outcome": word}
        self.failures.failed(Write.BINDING, error, **about)


def _answered(bind: Bind, outcome: BindOutcome) -> BindAnswered:
    return BindAnswered(bind.uid, bind.allocation.token, outcome)
