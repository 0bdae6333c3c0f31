"""Placements that wait for PreBind plugins: charged, and not bound yet.

What a plugin waits for is in the cluster, so nothing here must outlive the process: a scheduler
that starts anew places such a pod again, and the plugin finds what was done. A plugin is asked
again when an object that it named changed, when a write for it was answered, and when the pod's
node changed.

Pods of a gang that are placed together wait together. Their Bindings are sent when all are ready;
if the placement of one ends, the others' end with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Effect, WriteObject
from kubeshare_py.domain.events import ObjectWritten, WriteOutcome
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.needs.object_writes import LockNode, ObjectRef, ObjectWrite
from kubeshare_py.framework.points import PreBindAnswer, Ready, Rejected, Wait
from kubeshare_py.scheduling.binding.assume import Assumer
from kubeshare_py.scheduling.binding.device_claims import ClaimedDevices
from kubeshare_py.scheduling.binding.enqueue import Enqueuer, report_waiting
from kubeshare_py.scheduling.binding.node_turns import NodeTurns
from kubeshare_py.scheduling.binding.pre_bind_limits import PreBindLimits
from kubeshare_py.scheduling.binding.waiting_placements import (
    PlacedTogether,
    WaitingPlacement,
    WaitingPlacements,
)
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.attempts import Attempts, count
from kubeshare_py.scheduling.queue.gangs import Gangs, MemberRole
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.timers import Timers, backoff_s

#: What a placement waits for is reported once it has waited for so long (s): most volumes are made
#: sooner.
REPORT_AFTER_S = 5.0

#: A plugin's answer about a pod, and the plugin's name.
Answered = tuple[PreBindAnswer, str]


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """A placement ends before it began, because of this pod.

    `is_full`: too many others wait, and the pod is held until fewer do.
    """

    record: Record
    sentence: str
    is_full: bool = False


class PreBindCycles:
    """The placements that wait, from their commitment to their Bindings, or to their end."""

    def __init__(
        self,
        table: PodTable,
        assumer: Assumer,
        enqueuer: Enqueuer,
        attempts: Attempts,
        gangs: Gangs,
        devices: ClaimedDevices,
        turns: NodeTurns,
    ) -> None:
        self._devices = devices
        #: Where pods wait that are ready but for the lock of their node.
        self.turns = turns
        self._table = table
        self._assumer = assumer
        self._enqueuer = enqueuer
        self._attempts = attempts
        self._gangs = gangs
        #: May be replaced only before the first pod comes.
        self.limits = PreBindLimits()
        self._waiting = WaitingPlacements()
        #: Placements to ask about, groups of them that lost one, and those that are ready.
        self._doubtful: dict[PodUid, None] = {}
        self._changed: dict[PlacedTogether, None] = {}
        self._ready: dict[PlacedTogether, None] = {}
        self._late: Timers[tuple[PodUid, DecisionToken]] = Timers()
        self._again: Timers[tuple[PodUid, DecisionToken, ObjectWrite]] = Timers()
        self._unreported: Timers[tuple[PodUid, DecisionToken]] = Timers()

    def __len__(self) -> int:
        """The number of placements that wait."""
        return len(self._waiting) + len(self.turns)

    @property
    def unsettled(self) -> bool:
        """Whether `look` has something to do at once."""
        return bool(self._doubtful or self._changed or self.turns.unsettled)

    @property
    def has_ready(self) -> bool:
        """Whether Bindings may be sent."""
        return bool(self._ready or self.turns.has_ready)

    @property
    def next_at(self) -> float:
        """When (s) time alone changes something; infinity if it does not."""
        timers = (self._late, self._again, self._unreported)
        others = min(self.limits.next_at, self.turns.next_at)
        return min(others, *(timer.next_at for timer in timers))

    # --- a placement begins to wait -------------------------------------------------------------

    def ask(self, placed: Sequence[Record]) -> Sequence[Answered] | NotCommitted | None:
        """Ask the plugins about placed pods, a single one or those of a gang.

        None if their Bindings may be sent; else the answers, with which to `begin`.
        """
        answers = [self._assumer.pre_bind(record, ()) for record in placed]
        for record, (answer, plugin) in zip(placed, answers, strict=True):
            if isinstance(answer, Rejected):
                return NotCommitted(record, _failure(plugin, answer.sentence))
        is_ready = all(isinstance(answer, Ready) for answer, _ in answers)
        if is_ready and self._joined(placed[0]) is None:
            for record in placed:
                record.pre_binds = False
            return None
        full = self.full_for(placed)
        for record in placed:
            record.pre_binds = True
        return full or answers

    def full_for(self, placed: Sequence[Record]) -> NotCommitted | None:
        """Why these pods of one namespace are held if their placements have to wait."""
        namespace = placed[0].pod.key.namespace
        is_known = any(record.pre_binds for record in placed)
        if self.limits.may_begin(namespace, len(placed), is_known=is_known):
            return None
        return NotCommitted(placed[0], self.limits.reason(namespace), is_full=True)

    def begin(
        self, placed: Sequence[Record], answers: Sequence[Answered], now: float
    ) -> list[Effect]:
        """Let the placements wait; the first writes."""
        together = self._joined(placed[0]) or PlacedTogether()
        effects: list[Effect] = []
        for record, answered in zip(placed, answers, strict=True):
            assert record.allocation is not None
            assert record.node is not None
            one = self._waiting.add(record, record.allocation.token, record.node, together)
            one.silent_until = now + REPORT_AFTER_S
            self._unreported.add(one.silent_until, (record.pod.uid, one.token))
            self.limits.began(record.pod.key.namespace)
            self._table.transition(record, PodState.PREBINDING)
            effects += self._take(one, answered, now)
        if together.is_ready:
            self._ready[together] = None
        else:
            self._ready.pop(together, None)
        return effects

    def hold(self, records: Sequence[Record], sentence: str) -> list[Effect]:
        """Gate a pod, or a gang's members, until more placements of their namespace may wait."""
        effects: list[Effect] = []
        for record in records:
            record.pre_binds = True
            effects += self._enqueuer.gate(record, sentence, queue_moves.ATTEMPT_FAILURE)
        self.limits.hold(records)
        return effects

    # --- what happens meanwhile -----------------------------------------------------------------

    def ask_again(self) -> None:
        """Ask about all placements: plugins, nodes or objects were replaced."""
        self._doubtful.update(dict.fromkeys(self._waiting.uids()))
        self.turns.look_again()

    def object_changed(self, ref: ObjectRef) -> None:
        """Ask about the placements that wait for an object that was seen, or is gone."""
        self._doubtful.update(dict.fromkeys(self._waiting.on_object(ref)))

    def node_changed(self, name: NodeName) -> None:
        """Ask about the placements on a node that changed or is gone."""
        self._doubtful.update(dict.fromkeys(self._waiting.on_node(name)))
        self.turns.node_changed(name)

    def written(self, event: ObjectWritten, now: float) -> None:
        """Handle the outcome of a write."""
        if isinstance(event.write, LockNode):
            self.turns.written(event, event.write, now)
            return
        one = self._waiting.of(event.uid)
        self._devices.answered(event, waits=one is not None and one.token == event.token)
        if one is None or one.token != event.token or event.write not in one.requested:
            return  # late: the placement has ended
        if event.outcome is WriteOutcome.UNKNOWN:
            one.tries += 1
            pause_s = max(backoff_s(one.tries), event.retry_after_s)
            self._again.add(now + pause_s, (event.uid, event.token, event.write))
            if one.wait is not None:
                again = f"a write for that is sent again: {event.message}"
                one.record.waits_for = f"{one.wait.sentence}; {again}"
            return
        if event.outcome is WriteOutcome.REFUSED:
            self._fail(one, _failure(one.plugin, event.message))
            return
        if event.outcome is WriteOutcome.DONE and event.write not in one.written:
            one.written.append(event.write)
        self._doubtful[event.uid] = None

    def changed(self, record: Record, before: PodState) -> None:
        """Forget a placement that ended, and a held pod that is not gated any more."""
        if record.is_held and record.state is not PodState.GATED:
            self.limits.forget(record.pod.uid)
        if before is PodState.PREBINDING and record.state is not PodState.PREBINDING:
            self._drop(record.pod.uid)

    def removed(self, uid: PodUid) -> None:
        """Forget a pod that is gone."""
        self.limits.forget(uid)
        self._drop(uid)

    def look(self, now: float) -> list[Effect]:
        """Ask where something changed, end what has to end, and let held pods enter the queue."""
        effects: list[Effect] = []
        doubtful, self._doubtful = self._doubtful, {}
        for uid in doubtful:
            one = self._waiting.of(uid)
            if one is not None and one.together.ended_by is None:
                effects += self._take(one, self._assumer.pre_bind(one.record, one.written), now)
                self._changed[one.together] = None
        effects += self._time_passed(now)
        while self._changed:
            together = next(iter(self._changed))
            del self._changed[together]
            effects += self._settle(together, now)
        effects += self.turns.look(now)
        for record in self.limits.release(now):
            effects += self._enqueuer.enqueue(record, now, queue_moves.FORCE_ACTIVATE)
        return effects

    def end(self, record: Record, sentence: str, now: float) -> list[Effect]:
        """End the placement of a pod that waits, and of those with it; they are tried again."""
        if self.turns.has(record.pod.uid):
            return self.turns.end(record, sentence, now)
        one = self._waiting.of(record.pod.uid)
        assert one is not None
        self._fail(one, sentence)
        self._changed.pop(one.together, None)
        return self._settle(one.together, now)

    def next_ready(self) -> list[Record]:
        """Pods whose PreBind plugins are ready, all of them; empty if there are none.

        Each is to be bound now, or waits for its turn from now on.
        """
        if not self._ready:
            return []
        together = next(iter(self._ready))
        del self._ready[together]
        together.is_over = True
        records = [one.record for one in together.waiting.values()]
        for record in records:
            record.pre_binds, record.reported = False, None
            self._drop(record.pod.uid)
        return records

    # --- inside ---------------------------------------------------------------------------------

    def _time_passed(self, now: float) -> list[Effect]:
        """Let late placements end, report what others wait for, and repeat writes."""
        effects: list[Effect] = []
        for uid, token in self._late.due(now):
            one = self._waiting.of(uid)
            if one is not None and one.token == token and one.wait and one.until <= now:
                self._attempts.pre_bind_timeouts += 1
                self._fail(one, _failure(one.plugin, one.wait.late))
        for uid, token in self._unreported.due(now):
            one = self._waiting.of(uid)
            if one is not None and one.token == token:
                effects += _report(one, now)
        for uid, token, write in self._again.due(now):
            one = self._waiting.of(uid)
            wanted = one is not None and one.wait is not None and write in one.wait.writes
            if one is not None and one.token == token and wanted:
                effects.append(self._write(one, write))
        return effects

    def _joined(self, record: Record) -> PlacedTogether | None:
        """The waiting members of the pod's gang with which it is bound, if there are any.

        Members above the minimum wait with the others, or they might be bound without them.
        """
        gang = self._gangs.of(record.pod.uid)
        if gang is None or gang.quorum_met or not gang.counts[MemberRole.PREBINDING]:
            return None
        for uid in gang.members:
            one = self._waiting.of(uid)
            if one is not None and one.together.ended_by is None:
                return one.together
        return None

    def _take(self, one: WaitingPlacement, answered: Answered, now: float) -> list[Effect]:
        """Take an answer about a placement; the writes that it requests."""
        answer, plugin = answered
        self._waiting.waits(one, answer if isinstance(answer, Wait) else None, plugin)
        if isinstance(answer, Rejected):
            self._fail(one, _failure(plugin, answer.sentence))
        if not isinstance(answer, Wait):
            return []
        until = one.since.setdefault(plugin, now) + answer.for_s
        if until != one.until:
            one.until = until
            self._late.add(until, (one.record.pod.uid, one.token))
        new = [write for write in answer.writes if write not in one.requested]
        one.requested.update(new)
        return [*_report(one, now), *(self._write(one, write) for write in new)]

    def _write(self, one: WaitingPlacement, write: ObjectWrite) -> WriteObject:
        self._devices.requested(one.record.pod.uid, write)
        return WriteObject(one.record.pod.uid, one.record.pod.key, one.token, write)

    def _fail(self, one: WaitingPlacement, sentence: str) -> None:
        """Let the placement end, and those with it, when `look` comes to them."""
        if one.together.ended_by is None:
            one.together.ended_by = one.record, sentence
        self._changed[one.together] = None

    def _settle(self, together: PlacedTogether, now: float) -> list[Effect]:
        """End placements because one of them ended, or note that they are ready."""
        if together.is_over:
            return []
        if together.ended_by is not None or not self._are_enough(together):
            return self._end(together, now)
        if together.is_ready:
            self._ready[together] = None
        else:
            self._ready.pop(together, None)
        return []

    def _are_enough(self, together: PlacedTogether) -> bool:
        """Whether the placements that are left are of any use without those that ended."""
        first = next(iter(together.waiting), None)
        gang = None if first is None else self._gangs.of(first)
        if gang is None:
            return first is not None
        gang.update()
        return gang.quorum_met or gang.placed + gang.completed >= gang.min_member

    def _end(self, together: PlacedTogether, now: float) -> list[Effect]:
        together.is_over = True
        self._ready.pop(together, None)
        records = [one.record for one in together.waiting.values()]
        for record in records:
            self._assumer.release(record)
        effects: list[Effect] = []
        for record in records:
            if together.ended_by is None:
                effects += self._enqueuer.enqueue(record, now, queue_moves.ASSIGNED_POD_DELETE)
                continue
            culprit, sentence = together.ended_by
            if record is culprit:
                count(self._attempts.failed, record.pod.scheduler_name)
            else:
                sentence = f"pod {culprit.pod.key.name} of its group: {sentence}"
            effects += report_waiting(record, sentence, WaitingReason.SCHEDULER_ERROR)
            self._enqueuer.back_off(record, now)
        return effects

    def _drop(self, uid: PodUid) -> None:
        one = self._waiting.drop(uid)
        if one is None:
            return
        self._devices.ended(uid)
        self.limits.ended(one.record.pod.key.namespace)
        together = one.together
        if together.is_over:
            return
        self._ready.pop(together, None)
        if together.waiting:
            self._changed[together] = None
        else:
            self._changed.pop(together, None)


def _failure(plugin: str, sentence: str) -> str:
    """kube-scheduler's words for a PreBind plugin that fails; as they are if none is named."""
    return f'running PreBind plugin "{plugin}": {sentence}' if plugin else sentence


def _report(one: WaitingPlacement, now: float) -> list[Effect]:
    """What the placement waits for, unless it has not waited for long."""
    if one.wait is None or now < one.silent_until:
        return []
    sentence = f"waits for {one.record.waits_for}"
    return report_waiting(one.record, sentence, WaitingReason.NOT_READY)
