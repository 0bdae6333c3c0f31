"""Reports why pods wait, and limits how often.

A new set of reasons is reported at once; new numbers for the same reasons at most every ten
seconds, and every minute if no attempt was made meanwhile. A shape queue of n pods is reported
again after n/100 seconds at the earliest.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from kubeshare_py.domain.diagnosis import Diagnosis, WaitingReason
from kubeshare_py.domain.effects import ReportWaiting
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.prepared_plugins import EvaluationWork
from kubeshare_py.scheduling.queue.asked_shapes import RefusedBinds
from kubeshare_py.scheduling.queue.pod_queue import PodQueue, ShapeQueue
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.timers import Alarms, Timers

# What the scheduler has seen of the cluster since it started, as client-go's HasSynced says it.


@dataclass(slots=True)
class Synced:
    """Whether pods and nodes were listed, and the inventory of cards was read.

    The machine sets these; everything else reads them.
    """

    pods: bool = False
    nodes: bool = False
    inventory: bool = False

    @property
    def ready(self) -> bool:
        """Whether pods and nodes are known: before that, no pod is placed."""
        return self.pods and self.nodes


SAME_REASONS_S = 10.0
UNASKED_S = 60.0
NEWCOMERS_S = 1.0
PODS_A_SECOND = 100
#: Seconds to wait for the first reading of cards after a start before pods are reported.
INVENTORY_PATIENCE_S = 3.0
INVENTORY_UNREAD = "GPU inventory not read yet"
UNREAD = Diagnosis(sentence=INVENTORY_UNREAD, reason=WaitingReason.NOT_READY)
#: The most cost of one refresh, in rows of about 0.4 µs.
ROWS_A_REFRESH = 10_000
REPORTS_PER_ITERATION = 500


class WaitingReports:
    """Computes diagnoses of unschedulable queues, and produces reports in small portions."""

    def __init__(
        self,
        queue: PodQueue,
        records: Mapping[PodUid, Record],
        work: EvaluationWork,
        synced: Synced,
        refused: RefusedBinds,
        alarms: Alarms,
    ) -> None:
        """`work` counts the evaluators' questions."""
        self._work = work
        self._queue = queue
        self._records = records
        self._pending: deque[PodUid] = deque()
        #: Of what a further portion is ready now; to be read.
        self.at_once: tuple[Collection[object], ...] = (self._pending,)
        #: Shape queues by number, because an empty shape queue may be dropped before its time.
        self._due: Timers[int] = Timers(alarms)
        self._synced = synced
        self._refused = refused
        #: What is said of evictions for a pod with this diagnosis.
        self.post_filter: Callable[[Record, Diagnosis], str] = lambda record, diagnosis: ""

    def unschedulable(self, shape_queue: ShapeQueue, evaluator: Evaluator, now: float) -> None:
        """The shape queue was just found to fit nowhere."""
        reason_set = evaluator.reason_set(shape_queue.shape)
        # The first report of a pod must be of now, or of a second ago.
        least_s = NEWCOMERS_S if shape_queue.unreported else SAME_REASONS_S
        stale = shape_queue.diagnosis is None or now >= shape_queue.diagnosed_at + _wait(
            shape_queue, least_s
        )
        if stale or reason_set != shape_queue.reason_set:
            before = shape_queue.diagnosis
            shape_queue.diagnosis = self._diagnosis(shape_queue, evaluator)
            shape_queue.reason_set = reason_set
            shape_queue.diagnosed_at, shape_queue.diagnosed_from = now, evaluator.changes
            if before != shape_queue.diagnosis:
                newcomers = set(shape_queue.unreported)
                self._pending.extend(uid for uid in shape_queue.waiting if uid not in newcomers)
        self.report_unreported(shape_queue)
        self._look_again(shape_queue, shape_queue.diagnosed_at + _wait(shape_queue, SAME_REASONS_S))

    def await_inventory(self, shape_queue: ShapeQueue, now: float) -> None:
        """Report after a moment that the shape queue waits for the inventory, if it still does."""
        shape_queue.diagnosis = UNREAD
        self._look_again(shape_queue, now + INVENTORY_PATIENCE_S)

    def constrained(self, shape_queue: ShapeQueue, sentence: str, now: float) -> None:
        """The shape queue fits some node, but not in the domain that it is tied to."""
        diagnosis = Diagnosis(sentence=sentence)
        if diagnosis != shape_queue.diagnosis:
            newcomers = set(shape_queue.unreported)
            self._pending.extend(uid for uid in shape_queue.waiting if uid not in newcomers)
        shape_queue.diagnosis, shape_queue.diagnosed_at, shape_queue.reason_set = diagnosis, now, 0
        self.report_unreported(shape_queue)

    def report_joined(self, shape_queue: ShapeQueue) -> None:
        """Report to pods that joined an unschedulable queue, unless it waits for the inventory."""
        if self._synced.inventory or not shape_queue.shape.claims:
            self.report_unreported(shape_queue)

    def report_unreported(self, shape_queue: ShapeQueue) -> None:
        """Give the report of an unschedulable queue to its pods that have none yet."""
        self._pending.extend(shape_queue.unreported)
        shape_queue.unreported.clear()

    def refresh(self, evaluators: dict[str, Evaluator], now: float) -> None:
        """Compute old diagnoses again, unless nothing has changed since.

        What would exceed an iteration's cost is left for the next one.
        """
        most = self._work.cost + ROWS_A_REFRESH
        due = self._due.each_due(now)
        while self._work.cost < most and (number := next(due, None)) is not None:
            shape_queue = self._queue.numbered(number)
            if shape_queue is None or shape_queue.look_again_at > now:
                continue
            shape_queue.look_again_at = math.inf
            if not shape_queue.unschedulable or not shape_queue.waiting:
                continue
            evaluator = evaluators[shape_queue.profile]
            known = shape_queue.diagnosis is not None and shape_queue.diagnosis.sentence
            if not known and shape_queue.diagnosed_from != evaluator.changes:
                diagnosis = self._diagnosis(shape_queue, evaluator)
                shape_queue.diagnosed_at, shape_queue.diagnosed_from = now, evaluator.changes
                if diagnosis != shape_queue.diagnosis:
                    shape_queue.diagnosis = diagnosis
                    self._pending.extend(shape_queue.waiting)
            self.report_unreported(shape_queue)
            self._look_again(shape_queue, now + _wait(shape_queue, UNASKED_S))

    def _diagnosis(self, shape_queue: ShapeQueue, evaluator: Evaluator) -> Diagnosis:
        found, alone = evaluator.diagnose(shape_queue.shape), shape_queue.key.alone
        remark = self._records[alone].remark if alone is not None else ""
        return replace(found, remark=remark) if remark else found

    def _look_again(self, shape_queue: ShapeQueue, when: float) -> None:
        if when < shape_queue.look_again_at:
            shape_queue.look_again_at = when
            self._due.add(when, shape_queue.number)

    def report_evictions_anew(self, uid: PodUid, now: float) -> None:
        """Report a pod anew, and others of its priority: the text about evictions has changed.

        The first text is reported at once, another one as seldom as new numbers.
        """
        shape_queue = self._queue.queue_of(uid)
        if shape_queue is None or not shape_queue.unschedulable or shape_queue.diagnosis is None:
            return
        record = self._records[uid]
        priority = record.pod.priority
        before = shape_queue.eviction_texts.get(priority)
        text = self._post_filter_text(record, shape_queue.diagnosis)
        if before is None or before == text:
            return  # its first report is still to come
        if before and now < shape_queue.eviction_text_at + _wait(shape_queue, SAME_REASONS_S):
            return
        shape_queue.eviction_text_at = now
        records = self._records
        alike = (one for one in shape_queue.waiting if records[one].pod.priority == priority)
        self._pending.extend(alike)

    def diagnosis_of(self, record: Record) -> Diagnosis | None:
        """Why a pod of an unschedulable queue waits, as it is reported."""
        shape_queue = self._queue.queue_of(record.pod.uid)
        if shape_queue is None or not shape_queue.unschedulable or shape_queue.diagnosis is None:
            return None
        text = self._post_filter_text(record, shape_queue.diagnosis)
        return replace(shape_queue.diagnosis, post_filter=text)

    def _post_filter_text(self, record: Record, diagnosis: Diagnosis) -> str:
        """The text about evictions, and about nodes that the API server refused."""
        text = self.post_filter(record, diagnosis)
        if not record.shape.avoided:
            return text
        return " ".join(filter(None, (text, self._refused.in_words(record.pod.uid))))

    def portion(self) -> list[ReportWaiting]:
        """The next reports, for pods that still wait in an unschedulable queue."""
        reports: list[ReportWaiting] = []
        # Thousands of pods share few diagnoses.
        made: dict[tuple[int, str], Diagnosis] = {}
        while self._pending and len(reports) < REPORTS_PER_ITERATION:
            uid = self._pending.popleft()
            shape_queue = self._queue.queue_of(uid)
            if (
                shape_queue is not None
                and shape_queue.unschedulable
                and shape_queue.diagnosis is not None
            ):
                record = self._records[uid]
                text = self._post_filter_text(record, shape_queue.diagnosis)
                shape_queue.eviction_texts[record.pod.priority] = text
                known = made.get((shape_queue.number, text))
                if known is None:
                    known = replace(shape_queue.diagnosis, post_filter=text)
                    made[shape_queue.number, text] = known
                reports.append(ReportWaiting(uid, record.pod.key, known))
        return reports


def _wait(shape_queue: ShapeQueue, least_s: float) -> float:
    return max(least_s, len(shape_queue.waiting) / PODS_A_SECOND)
