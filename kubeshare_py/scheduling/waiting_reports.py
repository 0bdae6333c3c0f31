"""Who is told why a pod waits, and how often.

A new set of reasons is told at once, new numbers for the same reasons at most every ten seconds,
and for long lines less often: a line of n pods takes n/100 seconds of a low-priority lane to tell.
"""

from collections import deque

from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.asks import Asker
from kubeshare_py.scheduling.pod_queue import Line, PodQueue
from kubeshare_py.scheduling.pod_records import Record
from kubeshare_py.scheduling.timers import Timers

SAME_REASONS_S = 10.0
PODS_A_SECOND = 100
REPORTS_A_TURN = 500


class WaitingReports:
    """Works out diagnoses of blocked lines and hands out reports in small portions."""

    def __init__(self, queue: PodQueue, records: dict[PodUid, Record]) -> None:
        self._queue = queue
        self._records = records
        self._pending: deque[tuple[PodUid, bool]] = deque()
        self._refresh: Timers[Line] = Timers()

    def blocked(self, line: Line, asker: Asker, now: float) -> None:
        """The line was found to fit nowhere just now."""
        reason_set = asker.reason_set(line.shape)
        wait = max(SAME_REASONS_S, len(line.waiting) / PODS_A_SECOND)
        stale = line.diagnosis is None or now - line.diagnosed_at > wait
        changed = stale or reason_set != line.reason_set
        if changed:
            line.diagnosis = asker.diagnose(line.shape)
            line.reason_set = reason_set
            line.diagnosed_at = now
            self._pending.extend((uid, True) for uid in line.waiting)
            line.unreported.clear()
            return
        self.joined(line)
        self._refresh.add(line.diagnosed_at + wait, line)

    def joined(self, line: Line) -> None:
        """Pods joined a line that is blocked: they are told what the others were told."""
        self._pending.extend((uid, True) for uid in line.unreported)
        line.unreported.clear()

    def refresh(self, askers: dict[str, Asker], now: float) -> None:
        """Work out again what is old by now."""
        for line in self._refresh.due(now):
            wait = max(SAME_REASONS_S, len(line.waiting) / PODS_A_SECOND)
            if not line.blocked or not line.waiting or line.diagnosed_at + wait > now:
                continue
            diagnosis = askers[line.profile].diagnose(line.shape)
            line.diagnosed_at = now
            if diagnosis != line.diagnosis:
                line.diagnosis = diagnosis
                self._pending.extend((uid, False) for uid in line.waiting)

    def portion(self) -> list[ReportWaiting]:
        """The next reports, of pods that still wait in a blocked line."""
        reports: list[ReportWaiting] = []
        while self._pending and len(reports) < REPORTS_A_TURN:
            uid, changed = self._pending.popleft()
            line = self._queue.line_of(uid)
            if line is not None and line.blocked and line.diagnosis is not None:
                key = self._records[uid].pod.key
                reports.append(ReportWaiting(uid, key, line.diagnosis, changed))
        return reports

    @property
    def more(self) -> bool:
        """Whether a further portion is ready now."""
        return bool(self._pending)

    @property
    def next_at(self) -> float:
        """When something gets old; infinity when nothing does."""
        return self._refresh.next_at
