"""Reports why pods wait, and limits how often.

A new set of reasons is reported at once; new numbers for the same reasons at most every ten
seconds, and every minute if no attempt was made meanwhile. A line of n pods is reported again after
n/100 seconds at the earliest.
"""

import math
from collections import deque
from dataclasses import replace

from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.asks import Asker, Work
from kubeshare_py.scheduling.queue.pod_queue import Line, PodQueue
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.timers import Timers

SAME_REASONS_S = 10.0
UNASKED_S = 60.0
NEWCOMERS_S = 1.0
PODS_A_SECOND = 100
#: Seconds to wait for the first reading of cards after a start before pods are reported.
INVENTORY_PATIENCE_S = 3.0
INVENTORY_UNREAD = "GPU inventory not read yet"
#: The most cost of one refresh, in rows of about 0.4 µs.
ROWS_A_REFRESH = 10_000
REPORTS_A_TURN = 500


class WaitingReports:
    """Computes diagnoses of blocked lines, and produces reports in small portions."""

    def __init__(self, queue: PodQueue, records: dict[PodUid, Record], work: Work) -> None:
        """`work` counts the askers' questions."""
        self._work = work
        self._queue = queue
        self._records = records
        self._pending: deque[PodUid] = deque()
        #: Lines by number, because an empty line may be dropped before its time.
        self._due: Timers[int] = Timers()
        #: Whether the inventory is known.
        self.inventory_read = False

    def blocked(self, line: Line, asker: Asker, now: float) -> None:
        """The line was just found to fit nowhere."""
        reason_set = asker.reason_set(line.shape)
        # The first report of a pod must be of now, or of a second ago.
        least_s = NEWCOMERS_S if line.unreported else SAME_REASONS_S
        stale = line.diagnosis is None or now >= line.diagnosed_at + _wait(line, least_s)
        if stale or reason_set != line.reason_set:
            before = line.diagnosis
            line.diagnosis = self._diagnosis(line, asker)
            line.reason_set = reason_set
            line.diagnosed_at, line.diagnosed_from = now, asker.changes
            if before != line.diagnosis:
                newcomers = set(line.unreported)
                self._pending.extend(uid for uid in line.waiting if uid not in newcomers)
        self.joined(line)
        self._look_again(line, line.diagnosed_at + _wait(line, SAME_REASONS_S))

    def unread(self, line: Line, now: float) -> None:
        """The line waits for the inventory, perhaps only for moments."""
        line.diagnosis = Diagnosis(sentence=INVENTORY_UNREAD)
        self._look_again(line, now + INVENTORY_PATIENCE_S)

    def kept_out(self, line: Line, sentence: str, now: float) -> None:
        """The line fits some node, but not in the domain that it is tied to."""
        diagnosis = Diagnosis(sentence=sentence)
        if diagnosis != line.diagnosis:
            newcomers = set(line.unreported)
            self._pending.extend(uid for uid in line.waiting if uid not in newcomers)
        line.diagnosis, line.diagnosed_at, line.reason_set = diagnosis, now, 0
        self.joined(line)

    def newcomers(self, line: Line) -> None:
        """Pods joined a blocked line, perhaps only until the inventory is read."""
        if self.inventory_read or line.shape.claim is None:
            self.joined(line)

    def joined(self, line: Line) -> None:
        """Pods joined a blocked line: they get its report."""
        self._pending.extend(line.unreported)
        line.unreported.clear()

    def refresh(self, askers: dict[str, Asker], now: float) -> None:
        """Compute old diagnoses again, unless nothing has changed since.

        What would exceed a turn's cost is left for the next one.
        """
        most = self._work.cost + ROWS_A_REFRESH
        due = self._due.each_due(now)
        while self._work.cost < most and (number := next(due, None)) is not None:
            line = self._queue.numbered(number)
            if line is None or line.look_again_at > now:
                continue
            line.look_again_at = math.inf
            if not line.blocked or not line.waiting:
                continue
            asker = askers[line.profile]
            known = line.diagnosis is not None and line.diagnosis.sentence
            if not known and line.diagnosed_from != asker.changes:
                diagnosis = self._diagnosis(line, asker)
                line.diagnosed_at, line.diagnosed_from = now, asker.changes
                if diagnosis != line.diagnosis:
                    line.diagnosis = diagnosis
                    self._pending.extend(line.waiting)
            self.joined(line)
            self._look_again(line, now + _wait(line, UNASKED_S))

    def _diagnosis(self, line: Line, asker: Asker) -> Diagnosis:
        found, alone = asker.diagnose(line.shape), line.key.alone
        remark = self._records[alone].remark if alone is not None else ""
        return replace(found, remark=remark) if remark else found

    def _look_again(self, line: Line, when: float) -> None:
        if when < line.look_again_at:
            line.look_again_at = when
            self._due.add(when, line.number)

    def portion(self) -> list[ReportWaiting]:
        """The next reports, for pods that still wait in a blocked line."""
        reports: list[ReportWaiting] = []
        while self._pending and len(reports) < REPORTS_A_TURN:
            uid = self._pending.popleft()
            line = self._queue.line_of(uid)
            if line is not None and line.blocked and line.diagnosis is not None:
                key = self._records[uid].pod.key
                reports.append(ReportWaiting(uid, key, line.diagnosis))
        return reports

    @property
    def more(self) -> bool:
        """Whether a further portion is ready now."""
        return bool(self._pending)

    @property
    def next_at(self) -> float:
        """When (s) the next diagnosis is old; infinity if none."""
        return self._due.next_at


def _wait(line: Line, least_s: float) -> float:
    return max(least_s, len(line.waiting) / PODS_A_SECOND)
