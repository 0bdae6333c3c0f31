"""Retries of shapes for which a plugin failed.

A shape is tried again when the node that the plugin failed on changes, or any node or card if the
node is unknown; and after a while in any case, because the cause may be an amount, or invisible.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import Failures, PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.scheduling.binding.scheduler_state import Queues

#: Seconds until a shape is tried again: the first pause, which doubles up to the last.
FIRST_S, LAST_S = 1.0, 64.0

_FailureState = tuple[int, Node | None, tuple[Gpu, ...] | None]


@dataclass(slots=True)
class _Failed:
    """One shape. `state`: of the ledger and the node at the failure; times in s."""

    failure: PluginFailed
    state: _FailureState
    tries: int
    failed_at: float
    retried: bool = False

    @property
    def due_at(self) -> float:
        """When (s) it is tried again in any case."""
        return self.failed_at + min(LAST_S, FIRST_S * (1 << min(self.tries - 1, 16)))


class PluginRetries:
    """Which shapes failed, and how often in a row."""

    def __init__(
        self,
        evaluators: Mapping[str, Evaluator],
        ledger: Ledger,
        queues: Queues,
        failures: Failures,
    ) -> None:
        self._failures = failures
        self._seen = 0
        self._evaluators = evaluators
        self._ledger = ledger
        self._queue, self._gang_queue, self._moves = queues.pods, queues.gangs, queues.moves
        self._known: dict[tuple[str, Shape], _Failed] = {}

    @property
    def next_at(self) -> float:
        """When (s) a shape is due; infinity if none is."""
        waiting = (one.due_at for one in self._known.values() if not one.retried)
        return min(waiting, default=math.inf) if self._known else math.inf

    @property
    def is_due(self) -> bool:
        """Whether an iteration must look at shapes that failed since the last one, or changed."""
        if self._seen != self._failures.total:
            return True
        return bool(self._known) and any(
            not one.retried and self._has_changed(one) for one in self._known.values()
        )

    def look(self, now: float) -> None:
        """Take in new failures, and wake shapes that are to be tried again."""
        if not self._known and self._seen == self._failures.total:
            return  # nearly always
        self._seen = self._failures.total
        for name, evaluator in self._evaluators.items():
            for shape, failure in evaluator.failed.items():
                self._take(name, shape, failure, now)
        for (name, shape), one in list(self._known.items()):
            if name not in self._evaluators or (one.retried and now >= one.due_at + LAST_S):
                del self._known[name, shape]  # it was asked since, without a failure
            elif not one.retried and (now >= one.due_at or self._may_succeed(one, now)):
                one.retried = True
                self._evaluators[name].retry(shape)
                self._wake(name, shape)

    # --- inside --------------------------------------------------------------------------------

    def _take(self, name: str, shape: Shape, failure: PluginFailed, now: float) -> None:
        before = self._known.get((name, shape))
        if before is None or failure is not before.failure:
            tries = before.tries + 1 if before is not None else 1
            self._known[name, shape] = _Failed(failure, self._state(failure), tries, now)

    def _state(self, failure: PluginFailed) -> _FailureState:
        ledger, name = self._ledger, NodeName(failure.node)
        row = ledger.columns.row_of.get(name)
        node = None if row is None else ledger.columns.nodes[row]
        return ledger.capacities, node, ledger.inventory.get(name)

    def _has_changed(self, one: _Failed) -> bool:
        """Whether the node that it failed on changed, or anything if that is unknown."""
        if one.state[0] == self._ledger.capacities:
            return False
        return not one.failure.node or self._state(one.failure)[1:] != one.state[1:]

    def _may_succeed(self, one: _Failed, now: float) -> bool:
        """Whether the cause may have changed; without a known node at most every FIRST_S."""
        return self._has_changed(one) and (bool(one.failure.node) or now >= one.failed_at + FIRST_S)

    def _wake(self, profile: str, shape: Shape) -> None:
        for shape_queue in self._queue.unschedulable():
            if shape_queue.profile == profile and shape_queue.shape == shape:
                self._moves.woken(len(shape_queue.waiting))
                self._queue.activate(shape_queue)
        for gangs in self._gang_queue.queues():
            if any(name == profile for name, _ in gangs.shapes):
                self._moves.woken(sum(len(gang.waiting) for gang in gangs.gangs))
                self._gang_queue.activate(gangs)
