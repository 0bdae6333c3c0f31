"""Placements under way: sent, answered, sent again while their outcome is unknown, or undone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Bind, Effect, ReportScheduled
from kubeshare_py.domain.events import BindAnswered, BindRefused, BindUnknown, Bound, Refusal
from kubeshare_py.domain.identity import DecisionToken, NodeName
from kubeshare_py.scheduling.binding.assume import Assumer
from kubeshare_py.scheduling.binding.enqueue import Enqueuer, report_waiting
from kubeshare_py.scheduling.binding.pre_bind_cycles import NotCommitted, PreBindCycles
from kubeshare_py.scheduling.queue.attempts import Attempts, count
from kubeshare_py.scheduling.queue.gangs import Gangs
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.reservations import Nominee, Reservations
from kubeshare_py.scheduling.queue.timers import Timers, backoff_s

#: Refusals of the request itself: another one for the same pod may be accepted.
_OF_THE_REQUEST = (Refusal.INVALID, Refusal.DENIED, Refusal.FORBIDDEN)


class BindDoubt(NamedTuple):
    """A Binding may be stored or not: open since when, last answered when (both s), and how."""

    since: float
    last_at: float
    answer: str


class BindingCycles:
    """The placements without an answer."""

    def __init__(
        self,
        table: PodTable,
        assumer: Assumer,
        enqueuer: Enqueuer,
        attempts: Attempts,
        gangs: Gangs,
        reservations: Reservations,
        pre_binds: PreBindCycles,
    ) -> None:
        self._table = table
        self._records = table.records
        self._assumer = assumer
        self._enqueuer = enqueuer
        self._attempts = attempts
        self._gangs = gangs
        self._reservations = reservations
        self._pre_binds, self._turns = pre_binds, pre_binds.turns
        self._refused = enqueuer.refused
        self._unanswered: dict[DecisionToken, Bind] = {}
        #: Those of them that were answered without saying whether they are stored.
        self._doubts: dict[DecisionToken, BindDoubt] = {}
        self._resend: Timers[DecisionToken] = Timers()

    @property
    def unanswered(self) -> int:
        """The number of placements decided and not answered yet."""
        return len(self._unanswered)

    @property
    def in_doubt_since(self) -> float | None:
        """When (s) the last answer came that left a Binding open; None if none is open."""
        return max((one.last_at for one in self._doubts.values()), default=None)

    def doubt_about(self, record: Record) -> BindDoubt | None:
        """What is known of the pod's Binding if it is open whether that is stored; else None."""
        return None if record.allocation is None else self._doubts.get(record.allocation.token)

    @property
    def next_at(self) -> float:
        """When (s) the next Bind is sent again; infinity if none is."""
        return self._resend.next_at

    def commit(
        self, nominee: Nominee, placed: Sequence[Record], now: float
    ) -> Sequence[Effect] | NotCommitted:
        """Commit pods to the places that they hold: the one way from a decision to its Bindings.

        `placed` is a single pod, or all pods of a gang that are placed at once; `Assumer.place` has
        charged each of them. PreBind plugins are asked first. If one refuses, or too many pods wait
        for such plugins, the charges are taken back. Otherwise the nominee's own reservations end,
        and those of others whose places were taken are broken. Each pod is ASSUMED until its Bind
        is answered; while a PreBind plugin waits, all of them are PREBINDING before that, and so is
        each while it waits for its turn on its node.
        """
        answers = self._pre_binds.ask(placed)
        if isinstance(answers, NotCommitted):
            for record in reversed(placed):
                self._assumer.take_back(record)
            return answers
        self._reservations.end(nominee)
        for record in placed:
            self._reservations.took_by(record)
        if answers is not None:
            return self._pre_binds.begin(placed, answers, now)
        return [effect for record in placed for effect in self._bind_in_turn(record, now)]

    def send_ready(self, free: int, now: float) -> list[Effect]:
        """Bind pods that are ready or have their turn, while fewer than `free` are bound so."""
        effects: list[Effect] = []
        sent = 0
        while sent < free and self._pre_binds.has_ready:
            if self._turns.has_ready:
                effects.append(self._send(self._turns.next_ready(), now))
                sent += 1
                continue
            for record in self._pre_binds.next_ready():
                effects += self._bind_in_turn(record, now)
                sent += 1
        return effects

    def send_again(self, now: float) -> Iterator[Bind]:
        """Send Binds with an unknown outcome again after their pause."""
        for token in self._resend.due(now):
            bind = self._unanswered.get(token)
            record = None if bind is None else self._records.get(bind.uid)
            if bind is not None and record is not None and record.state is PodState.ASSUMED:
                record.refused = False
                stale, doubt = record.pod.stale_results, self._doubts.get(token)
                since = None if doubt is None else doubt.last_at
                yield replace(bind, stale_results=stale, in_doubt_since=since)

    def release(self, record: Record) -> None:
        """End the pod's charge; a later answer to its Bind is ignored."""
        if record.node is None:
            return
        self._ignore_answer(record)
        record.refused = record.last_try = record.evicted = False
        self._assumer.release(record)

    def linger(self, record: Record) -> bool:
        """Let a deleted pod keep its GPUs; False if it has none."""
        self._ignore_answer(record)
        return self._assumer.linger(record)

    def seen(self, record: Record, node: NodeName) -> list[Effect]:
        """The watch shows the pod as it was placed.

        That counts as an answer: the answer itself may be lost, and nothing is sent again.
        """
        if record.state is not PodState.ASSUMED:
            return []
        bind = self._ignore_answer(record)
        return [self._confirm(record, node, bind)]

    def answered(self, event: BindAnswered, now: float) -> list[Effect]:
        """Handle the outcome of a Bind."""
        record = self._records.get(event.uid)
        current = (
            record is not None
            and record.allocation is not None
            and record.allocation.token == event.token
        )
        if record is None or not current or record.state is not PodState.ASSUMED:
            # Late, or the watch was faster: the pod is gone, bound, or placed anew.
            return []
        match event.outcome:
            case Bound():
                bind = self._unanswered[event.token]
                del self._unanswered[event.token]
                if self._doubts:
                    self._doubts.pop(event.token, None)
                record.refused = False
                record.answered_at = now
                assert record.node is not None
                return [self._confirm(record, record.node, bind)]
            case BindRefused():
                return self._was_refused(record, event.token, event.outcome, now)
            case BindUnknown():
                return self._is_open(record, event.token, event.outcome, now)
            case _:
                assert_never(event.outcome)

    def _was_refused(
        self, record: Record, token: DecisionToken, refused: BindRefused, now: float
    ) -> list[Effect]:
        """The Binding is not stored: undo the placement, unless others of a gang wait for it."""
        self._count_failure(record)
        refusal, uid, node = refused.refusal, record.pod.uid, record.node
        assert node is not None
        sentence = f"binding to {node} was refused: {refused.message}"
        effects = report_waiting(record, sentence, WaitingReason.SCHEDULER_ERROR)
        self._doubts.pop(token, None)
        if refusal is Refusal.DENIED:
            self._refused.refused_for(uid, node, refused.message, now)
        elif refusal is Refusal.FORBIDDEN:
            self._refused.refused(uid, now)
        if refusal in _OF_THE_REQUEST and self._others_wait_for(record):
            record.refused = True
            self._again(record, token, now, self._refused.pause_s)
        else:
            self.release(record)
            least_s = self._refused.pause_s if refusal in _OF_THE_REQUEST else 0.0
            self._enqueuer.back_off(record, now, least_s)
        return effects

    def _is_open(
        self, record: Record, token: DecisionToken, unknown: BindUnknown, now: float
    ) -> list[Effect]:
        """The Binding may be stored or not: it is sent again, and reported each time.

        Reports that wait to be written are dropped while it is sent.
        """
        self._count_failure(record)
        doubt = self._doubts.get(token)
        since = now if doubt is None else doubt.since
        self._doubts[token] = BindDoubt(since, now, unknown.message)
        self._again(record, token, now, unknown.retry_after_s)
        sentence = f"binding to {record.node} is not confirmed, and sent again: {unknown.message}"
        record.reported = None
        return report_waiting(record, sentence, WaitingReason.SCHEDULER_ERROR)

    def _count_failure(self, record: Record) -> None:
        count(self._attempts.failed, record.pod.scheduler_name)
        self._attempts.failed_binds += 1

    def _ignore_answer(self, record: Record) -> Bind | None:
        """No answer about the pod's placement counts any more; returns its Bind, if one waited."""
        if record.allocation is None:
            return None
        if self._doubts:
            self._doubts.pop(record.allocation.token, None)
        return self._unanswered.pop(record.allocation.token, None)

    def _bind_in_turn(self, record: Record, now: float) -> list[Effect]:
        """Bind the pod at once, unless it has to wait for its turn on its node."""
        waiting = self._turns.enter(record, now)
        return [self._send(record, now)] if waiting is None else waiting

    def _send(self, record: Record, now: float) -> Bind:
        assert record.node is not None
        assert record.allocation is not None
        pod, held = record.pod, record.allocation
        decided = self._assumer.node_of(record, now)
        bind = Bind(pod.uid, pod.key, record.node, held, pod.stale_results, decided)
        self._unanswered[held.token] = bind
        record.reported = None
        self._table.transition(record, PodState.ASSUMED)
        return bind

    def _again(
        self, record: Record, token: DecisionToken, now: float, least_s: float = 0.0
    ) -> None:
        record.tries += 1
        self._resend.add(now + max(backoff_s(record.tries), least_s), token)

    def _others_wait_for(self, record: Record) -> bool:
        """Whether the pod is in an incomplete gang: then its place is kept for a while."""
        gang = self._gangs.of(record.pod.uid)
        if gang is None or gang.repair_at is None or record.last_try:
            return False
        gang.update()  # other answers of this iteration may have completed it
        return not gang.quorum_met

    def _confirm(self, record: Record, node: NodeName, bind: Bind | None) -> ReportScheduled:
        self._table.transition(record, PodState.UNCONFIRMED)
        record.reported = None
        if self._refused.pods:
            self._refused.forget(record.pod.uid)
        count(self._attempts.scheduled, record.pod.scheduler_name)
        self._attempts.after_flush += record.flushed
        record.flushed = False
        cards = () if bind is None else bind.decided.cards
        return ReportScheduled(record.pod.uid, record.pod.key, node, record.allocation, cards)
