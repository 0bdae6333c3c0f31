"""Which pods' conditions to write, and when: the newest text, not too often, never twice."""

from dataclasses import dataclass

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.printable import printable
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.edges.process.due_queue import DueQueue

#: A new text of the same set of reasons is written at most this often (s).
SPACING_S = 10.0
#: Seconds without a report after which a pod's known condition is dropped; it is read again when
#: needed.
FORGET_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastCondition:
    reasons: frozenset[str]
    message: str
    reason: WaitingReason
    at: float
    is_long: bool

    def shows(self, diagnosis: Diagnosis) -> bool:
        return self.message == message_of(diagnosis) and self.reason is diagnosis.reason


@remembered(1024)
def message_of(diagnosis: Diagnosis) -> str:
    """The text of a diagnosis; thousands of pods with equal diagnoses share one string."""
    return printable(diagnosis.message)


class ConditionQueue:
    """Pods whose waiting is to be reported, and their last written conditions."""

    def __init__(self) -> None:
        self.queue: DueQueue[PodUid, ReportWaiting] = DueQueue()
        self._published: dict[PodUid, _LastCondition] = {}

    def report(self, report: ReportWaiting, now: float) -> None:
        """Queue a report in place of an earlier one, unless the pod shows it already."""
        published = self._published.get(report.uid)
        due = now
        if published is not None and not self.queue.is_taken(report.uid):
            if published.shows(report.diagnosis):
                self.queue.discard(report.uid)
                return
            same = published.reason is report.diagnosis.reason
            if same and published.reasons == report.diagnosis.reasons:
                due = max(now, published.at + SPACING_S)
        self.queue.put(report.uid, report, due)

    def is_known(self, uid: PodUid) -> bool:
        """Whether this process wrote or read the pod's condition lately: it is False."""
        return uid in self._published

    def is_long(self, uid: PodUid) -> bool:
        """Whether it is known of a pod that it is long."""
        published = self._published.get(uid)
        return published is not None and published.is_long

    def reported(self, report: ReportWaiting, now: float, *, is_long: bool = False) -> None:
        """The condition was written, on a pod that is long or not."""
        self._published[report.uid] = _LastCondition(
            reasons=report.diagnosis.reasons,
            message=message_of(report.diagnosis),
            reason=report.diagnosis.reason,
            at=now,
            is_long=is_long,
        )
        self._finish(report.uid, now)

    def failed(self, report: ReportWaiting, now: float, delay_s: float) -> None:
        """It was not written: try again after `delay_s` unless a newer report came."""
        self.queue.done(report.uid)
        if report.uid not in self.queue:
            self.queue.put(report.uid, report, now + delay_s)

    def gone(self, uid: PodUid) -> None:
        """The pod does not wait any more."""
        self.queue.done(uid)
        self.withdraw(uid)

    def withdraw(self, uid: PodUid) -> None:
        """Drop the queued report: the pod is being bound."""
        self.queue.discard(uid)
        self._published.pop(uid, None)

    def tick(self, now: float) -> None:
        """Drop pods without a recent report; about once a minute."""
        old = [uid for uid, published in self._published.items() if now - published.at >= FORGET_S]
        for uid in old:
            if uid not in self.queue:
                del self._published[uid]

    def _finish(self, uid: PodUid, now: float) -> None:
        """Reschedule a newer report, whose time depends on what was just written."""
        self.queue.done(uid)
        newer = self.queue.peek(uid)
        if newer is not None:
            self.queue.discard(uid)
            self.report(newer, now)
