"""Pods that wait for their turn at a node's device plugin, placed and charged: see `NodeLock`.

There is a line for each lock of each node.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Effect, WriteObject
from kubeshare_py.domain.events import ObjectWritten, WriteOutcome
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.node import NodeLock
from kubeshare_py.domain.storage import LockNode
from kubeshare_py.scheduling.enqueue import Enqueuer, report_waiting
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.timers import backoff_s
from kubeshare_py.scheduling.state import State

# The pods that wait for one lock of one node, first come, first served.


#: A lock that has not changed hands for so long (s) has a lost pod: it is a little more than the
#: time after which the inventory closes the node's cards, so that the others do not come back.
LOST_S = 11.0
#: After another client took the lock in between, it is asked for again after so long (s), doubled
#: each time, up to a limit; mostly the watch shows earlier that it is free.
STALE_S, MOST_STALE_S = 0.1, 2.0
#: For so long (s) a lock that was taken counts as taken though the watch does not show it.
UNSEEN_S = 2.0
_MOST_DOUBLED = 10


@dataclass(slots=True)
class Turn:
    """A pod that waits for its turn, or has it and is not bound yet."""

    record: Record
    token: DecisionToken


@dataclass(slots=True, eq=False)
class NodeLine:
    """A line. `text` is the lock's annotation as it was last seen."""

    node: NodeName
    key: str
    #: When (s) the lock last changed hands.
    moved_at: float
    waiting: dict[PodUid, Turn] = field(default_factory=dict)
    #: The pod whose write is not answered.
    writing: tuple[PodUid, DecisionToken] | None = None
    #: Until when (s) the lock is taken although the node does not show it.
    unseen_until: float = -math.inf
    #: When (s) to ask for it again, and how often it was asked for in vain.
    again_at: float = -math.inf
    tries: int = 0
    text: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing needs to be remembered of it."""
        return not self.waiting and self.writing is None and self.unseen_until == -math.inf

    def shows(self, text: str, now: float) -> None:
        """The node shows the lock with this text."""
        if text != self.text:
            self.text, self.moved_at = text, now
            self.again_at = -math.inf
        if self.unseen_until <= now:
            self.unseen_until = -math.inf

    def may_ask(self, now: float) -> bool:
        """Whether the free lock may be asked for."""
        return self.writing is None and now >= self.again_at and now >= self.unseen_until

    def taken(self, now: float, *, is_seen: bool) -> None:
        """Our write took the lock; `is_seen`: the watch was faster than the answer."""
        self.tries, self.moved_at = 0, now
        self.unseen_until = -math.inf if is_seen else now + UNSEEN_S

    def asked_in_vain(self, now: float, *, is_stale: bool, pause_s: float = 0.0) -> None:
        """The write did not take the lock, as far as is known; `is_stale`: another client did."""
        self.tries += 1
        if is_stale:
            pause_s = min(STALE_S * 2 ** min(self.tries - 1, _MOST_DOUBLED), MOST_STALE_S)
        else:
            pause_s = max(backoff_s(self.tries), pause_s)
        self.again_at = now + pause_s

    def is_lost(self, now: float) -> bool:
        """Whether the lock has not changed hands for too long."""
        return now >= self.moved_at + LOST_S

    def next_at(self, now: float) -> float:
        """When (s), after `now`, time alone changes something."""
        times = [self.unseen_until]
        if self.waiting:
            times.append(self.again_at)
        if len(self.waiting) > 1:
            times.append(self.moved_at + LOST_S)
        return min((at for at in times if at > now), default=math.inf)


# Pods that wait for their turn at a node's device plugin, placed and charged: see `NodeLock`.
#
# A pod is bound once the lock of its node is its own; the plugin frees it when it has given the pod
# its devices. Pods wait in the order in which they were placed. Only the first one asks for the
# lock, so that a free lock costs one write; pods of other nodes are not concerned. The lock is in
# the cluster: a scheduler that starts anew finds it there, and a pod that has it gets its turn at
# once.
#
# If a lock does not change hands for long, its pod is lost: then all pods but one that wait behind
# it are placed anew. Old locks are freed by `inventory/hami_locks`.


class NodeTurns:
    """The lines of all nodes with locks. A pod in a line is PREBINDING."""

    def __init__(self, state: State, enqueuer: Enqueuer) -> None:
        self._table, self._columns = state.table, state.ledger.columns
        self._charges, self._enqueuer = state.charges, enqueuer
        self._lines: dict[NodeName, dict[str, NodeLine]] = {}
        self._line_of: dict[PodUid, NodeLine] = {}
        #: Pods that have their turn and are not sent yet; to be read.
        self.ready: dict[PodUid, Turn] = {}
        #: Pods whose write was refused.
        self._refused: dict[PodUid, str] = {}
        #: Nodes whose lines are to be looked at.
        self._doubtful: dict[NodeName, None] = {}
        #: What `look` has to do at once; to be read.
        self.at_once: tuple[Collection[object], ...] = (self._doubtful,)
        self._alarm = state.alarms.add()

    def __len__(self) -> int:
        """The number of pods that wait, or have their turn and are not bound yet."""
        return len(self._line_of) + len(self.ready)

    def has(self, uid: PodUid) -> bool:
        """Whether the pod waits for its turn, or has it and is not bound yet."""
        return uid in self._line_of or uid in self.ready

    def enter(self, record: Record, now: float) -> list[Effect] | None:
        """Let a charged pod wait for its turn; None if it needs none. The first write, if any."""
        assert record.node is not None
        row_of = self._columns.row_of
        node = self._columns.nodes[row_of[record.node]] if record.node in row_of else None
        lock = self._lock_for(record) if node is not None and node.locks else None
        if lock is None:
            return None
        assert record.allocation is not None
        self._table.follow(self)
        lines = self._lines.setdefault(record.node, {})
        line = lines.setdefault(lock.key, NodeLine(record.node, lock.key, now))
        uid = record.pod.uid
        line.waiting[uid] = Turn(record, record.allocation.token)
        self._line_of[uid] = line
        if record.state is not PodState.PREBINDING:
            self._table.transition(record, PodState.PREBINDING)
        record.waits_for = f"its turn at the device plugin of node {record.node}"
        effects = self._advance(line, now)
        if line.is_lost(now):
            self._doubtful[line.node] = None
        self._note_next(now)
        return effects

    def next_ready(self) -> Record:
        """A pod that is to be bound now; there is one."""
        return self.ready.pop(next(iter(self.ready))).record

    # --- what happens meanwhile -----------------------------------------------------------------

    def node_changed(self, name: NodeName) -> None:
        """Look at the lines of a node that changed or is gone."""
        for line in self._lines.get(name, {}).values():
            lock = self._shown(line)
            if lock is not None and lock.text:
                line.unseen_until = -math.inf
            self._doubtful[name] = None

    def look_again(self) -> None:
        """Look at all lines: nodes were replaced."""
        for name, lines in self._lines.items():
            for line in lines.values():
                line.unseen_until = -math.inf
            self._doubtful[name] = None

    def written(self, event: ObjectWritten, write: LockNode, now: float) -> None:
        """Handle the outcome of a write."""
        line = self._lines.get(NodeName(write.node), {}).get(write.key)
        if line is None or line.writing != (event.uid, event.token):
            return  # answered twice
        line.writing = None
        self._doubtful[line.node] = None
        turn = line.waiting.get(event.uid)
        waits = turn is not None and turn.token == event.token
        if event.outcome is WriteOutcome.DONE:
            lock = self._shown(line)
            line.taken(now, is_seen=lock is not None and bool(lock.text))
            if waits:
                self._grant(line, event.uid)
            return
        is_stale = event.outcome is WriteOutcome.STALE
        line.asked_in_vain(now, is_stale=is_stale, pause_s=event.retry_after_s)
        if event.outcome is WriteOutcome.REFUSED and waits:
            self._refused[event.uid] = f"locking node {line.node}: {event.message}"

    def look(self, now: float) -> list[Effect]:
        """Go on where something changed, or time has passed."""
        effects: list[Effect] = []
        refused, self._refused = self._refused, {}
        for uid, sentence in refused.items():
            if (line := self._line_of.get(uid)) is not None:
                effects += self.end(line.waiting[uid].record, sentence, now)
        if now >= self._alarm.at:
            self._doubtful.update(dict.fromkeys(self._lines))
        doubtful = self._doubtful.copy()
        self._doubtful.clear()
        for name in doubtful:
            for line in [*self._lines.get(name, {}).values()]:
                effects += self._advance(line, now)
                effects += self._give_up_behind_lost(line, now)
                self._tidy(line)
        if doubtful:
            self._note_next(now)
        return effects

    def end(self, record: Record, sentence: str, now: float) -> list[Effect]:
        """End the placement of a pod that waits; it is tried again."""
        self._drop(record.pod.uid)
        self._charges.release(record)
        effects = report_waiting(record, sentence, WaitingReason.SCHEDULER_ERROR)
        self._enqueuer.back_off(record, now)
        return effects

    def changed(self, record: Record, before: PodState) -> None:
        """Forget a placement that ended, or is sent."""
        if before is PodState.PREBINDING and record.state is not PodState.PREBINDING:
            self._drop(record.pod.uid)

    def removed(self, uid: PodUid) -> None:
        """Forget a pod that is gone."""
        self._drop(uid)

    # --- inside ---------------------------------------------------------------------------------

    def _advance(self, line: NodeLine, now: float) -> list[Effect]:
        """Give the first pod of the line its turn, or ask for the lock for it."""
        if self._is_gone(line.node):
            sentence = f'node "{line.node}" not found'
            ended = [turn.record for turn in line.waiting.values()]
            return [effect for one in ended for effect in self.end(one, sentence, now)]
        lock = self._shown(line)
        if lock is None:
            for uid in [*line.waiting]:  # its plugin needs no lock any more
                self._grant(line, uid)
            return []
        line.shows(lock.text, now)
        if not line.waiting:
            return []
        uid, turn = next(iter(line.waiting.items()))
        pod = turn.record.pod.key
        if lock.text:
            if lock.owner == pod and line.writing is None:
                self._grant(line, uid)
            return []
        if not line.may_ask(now):
            return []
        line.writing = uid, turn.token
        write = LockNode(
            node=line.node, key=line.key, names_owner=lock.names_owner,
            namespace=pod.namespace, pod=pod.name,
        )  # fmt: skip
        return [WriteObject(uid, pod, turn.token, write)]

    def _give_up_behind_lost(self, line: NodeLine, now: float) -> list[Effect]:
        """Place all pods of the line but the first anew, if the lock does not change hands."""
        if not line.waiting or not line.is_lost(now):
            return []
        lock = self._shown(line)
        whose = f"pod {lock.owner}" if lock is not None and lock.owner else "a pod"
        sentence = f"the device plugin of node {line.node} has not given {whose} its devices"
        first, *others = [turn.record for turn in line.waiting.values()]
        first.waits_for = sentence
        return [effect for one in others for effect in self.end(one, sentence, now)]

    def _grant(self, line: NodeLine, uid: PodUid) -> None:
        self.ready[uid] = line.waiting.pop(uid)
        del self._line_of[uid]

    def _drop(self, uid: PodUid) -> None:
        self.ready.pop(uid, None)
        line = self._line_of.pop(uid, None)
        if line is not None:
            del line.waiting[uid]
            self._doubtful[line.node] = None

    def _tidy(self, line: NodeLine) -> None:
        if line.is_over and line.node in self._lines:
            self._lines[line.node].pop(line.key, None)
            if not self._lines[line.node]:
                del self._lines[line.node]

    def _lock_for(self, record: Record) -> NodeLock | None:
        """The lock that the pod needs on its node."""
        held, name = record.allocation, record.node
        if held is None or name is None or not held.cards:
            return None
        return next((lock for lock in self._locks(name) if lock.dialect == held.dialect), None)

    def _shown(self, line: NodeLine) -> NodeLock | None:
        return next((lock for lock in self._locks(line.node) if lock.key == line.key), None)

    def _is_gone(self, name: NodeName) -> bool:
        row = self._columns.row_of.get(name)
        return row is None or self._columns.nodes[row] is None

    def _locks(self, name: NodeName) -> Iterator[NodeLock]:
        row = self._columns.row_of.get(name)
        node = None if row is None else self._columns.nodes[row]
        yield from () if node is None else node.locks

    def _note_next(self, now: float) -> None:
        times = (line.next_at(now) for lines in self._lines.values() for line in lines.values())
        self._alarm.set(min(times, default=math.inf))
