"""Shapes that are tried again though no row improved: three reasons to do so.

A plugin failed on them, what default constraints count changed, or they have waited for minutes.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kubeshare_py.domain.cluster_objects import SPREAD_KINDS, WatchedKind
from kubeshare_py.domain.events import ObjectEvent, ObjectGone, ObjectSeen
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.state import State

# Retries of shapes for which a plugin failed.
#
# A shape is tried again when the node that the plugin failed on changes, or any node or card if the
# node is unknown; and after a while in any case, because the cause may be an amount, or invisible.


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

    def __init__(self, state: State) -> None:
        #: When a shape is tried again in any case.
        self._alarm = state.alarms.add()
        self._failures = state.profiles.boundary.failures
        self._seen = 0
        self._evaluators, self._ledger = state.profiles.evaluators, state.ledger
        self._queue, self._gang_queue, self._moves = state.queue, state.gang_queue, state.moves
        self._known: dict[tuple[str, Shape], _Failed] = {}

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
        waiting = (one.due_at for one in self._known.values() if not one.retried)
        self._alarm.set(min(waiting, default=math.inf))

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


# Tries pods again after Services or controllers changed, which say what default constraints count.
#
# Constraints that must hold keep pods from nodes. Of the shapes of such pods it is not known before
# they are tried which other ones they have now.


def is_about_spread(event: ObjectEvent) -> bool:
    """Whether placement depends on the objects of this event by default constraints alone."""
    return _kind(event) in SPREAD_KINDS


def respread(event: ObjectEvent, state: State) -> None:
    """Activate the unschedulable pods and gangs whose default constraints the event may change.

    Nothing to do unless a profile has constraints that must hold.
    """
    profiles = state.profiles.profiles
    strict = {name for name, one in profiles.items() if any(c.hard for c in one.default_spread)}
    if not strict:
        return
    namespace = _namespace(event)
    for shape_queue in state.queue.unschedulable():
        if _is_spread([(shape_queue.profile, shape_queue.shape)], strict, namespace):
            state.moves.woken(len(shape_queue.waiting))
            state.queue.activate(shape_queue)
    for composition_queue in state.gang_queue.queues():
        if _is_spread(composition_queue.shapes, strict, namespace):
            state.moves.woken(sum(len(gang.waiting) for gang in composition_queue.gangs))
            state.gang_queue.activate(composition_queue)


def _kind(event: ObjectEvent) -> WatchedKind:
    return event.object.kind if isinstance(event, ObjectSeen) else event.kind


def _namespace(event: ObjectEvent) -> str | None:
    """The namespace of the event's object; None if it is about all namespaces."""
    match event:
        case ObjectSeen(object=item):
            return item.namespace
        case ObjectGone(key=key):
            return key.namespace
        case _:
            return None


def _is_spread(
    shapes: Iterable[tuple[str, Shape]], strict: set[str], namespace: str | None
) -> bool:
    """Whether one of these shapes of profiles has constraints that a change there may replace."""
    for profile, shape in shapes:
        terms = shape.inter_pod
        if profile not in strict or terms is None or not terms.spread:
            continue
        if namespace in (None, terms.namespace):
            return True
    return False


# The flush of unschedulable queues: pods that fit nowhere are tried again from time to time.
#
# As in kube-scheduler, a net below the hints of what may help a pod: should one be wrong, or should
# a plugin's answer depend on something that is no event, the pod waits for minutes and not for
# ever. What is known of the shape is dropped, so that plugins are asked anew about all rows. A pod
# that is bound because of it is counted, since a hint may be wrong.


#: Seconds between two looks at the least, as in kube-scheduler.
LOOK_S = 30.0


class UnschedulableFlush:
    """Activates shape queues of pods and gangs that were not tried for `after_s` (s)."""

    def __init__(self, state: State, after_s: float) -> None:
        self._queue, self._gang_queue, self._moves = state.queue, state.gang_queue, state.moves
        self._evaluators = state.profiles.evaluators
        self._after_s = after_s
        self._looked_at = -math.inf
        self._alarm = state.alarms.add()
        self._queue.blocked = self._gang_queue.blocked = self._note

    def look(self, now: float) -> None:
        """Activate what was not tried for so long."""
        if now < self._alarm.at:
            return
        self._looked_at = now
        self._look_at_pods(now - self._after_s)
        self._look_at_gangs(now - self._after_s)
        self._note()

    # --- inside --------------------------------------------------------------------------------

    def _note(self) -> None:
        """Look when the first one has waited so long; never if no pod or gang is unschedulable."""
        first = min(self._queue.unschedulable_from, self._gang_queue.unschedulable_from)
        self._alarm.set(max(first + self._after_s, self._looked_at + LOOK_S))

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
        self._moves.entered(pod_records.ACTIVE, pod_records.UNSCHEDULABLE_TIMEOUT, pods)
