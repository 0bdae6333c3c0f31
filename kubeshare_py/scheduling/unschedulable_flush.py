"""The flush of unschedulable queues: pods that fit nowhere are tried again from time to time.

As in kube-scheduler, a net below the hints of what may help a pod: should one be wrong, or should a
plugin's answer depend on something that is no event, the pod waits for minutes and not for ever.
What is known of the shape is dropped, so that plugins are asked anew about all rows. A pod that is
bound because of it is counted, since a hint may be wrong.
"""

import math
from collections.abc import Mapping

from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.scheduling.binding.scheduler_state import Queues
from kubeshare_py.scheduling.queue import queue_moves

#: Seconds between two looks at the least, as in kube-scheduler.
LOOK_S = 30.0


class UnschedulableFlush:
    """Activates shape queues of pods and gangs that were not tried for `after_s` (s)."""

    def __init__(self, queues: Queues, evaluators: Mapping[str, Evaluator], after_s: float) -> None:
        self._queue, self._gang_queue, self._moves = queues.pods, queues.gangs, queues.moves
        self._evaluators = evaluators
        self._after_s = after_s
        self._looked_at = -math.inf

    @property
    def next_at(self) -> float:
        """When (s) to look next; infinity if no pod or gang is unschedulable."""
        first = min(self._queue.unschedulable_from, self._gang_queue.unschedulable_from)
        return max(first + self._after_s, self._looked_at + LOOK_S)

    def look(self, now: float) -> None:
        """Activate what was not tried for so long."""
        if now < self.next_at:
            return
        self._looked_at = now
        self._look_at_pods(now - self._after_s)
        self._look_at_gangs(now - self._after_s)

    # --- inside --------------------------------------------------------------------------------

    def _look_at_pods(self, before: float) -> None:
        left = math.inf
        for shape_queue in self._queue.unschedulable():
            if shape_queue.unschedulable_since > before:
                left = min(left, shape_queue.unschedulable_since)
                continue
            self._evaluators[shape_queue.profile].forget(shape_queue.shape)
            self._moved(len(shape_queue.waiting))
            shape_queue.flushed = True
            self._queue.activate(shape_queue)
        self._queue.unschedulable_from = left

    def _look_at_gangs(self, before: float) -> None:
        left = math.inf
        for composition_queue in self._gang_queue.queues():
            if composition_queue.since > before:
                left = min(left, composition_queue.since)
                continue
            for profile, shape in composition_queue.shapes:
                self._evaluators[profile].forget(shape)
            for gang in composition_queue.gangs:
                self._moved(len(gang.waiting))
                for record in gang.waiting.values():
                    record.flushed = True
            self._gang_queue.activate(composition_queue)
        self._gang_queue.unschedulable_from = left

    def _moved(self, pods: int) -> None:
        self._moves.entered(queue_moves.ACTIVE, queue_moves.UNSCHEDULABLE_TIMEOUT, pods)
