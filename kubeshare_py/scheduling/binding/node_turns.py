"""Pods that wait for their turn at a node's device plugin, placed and charged: see `NodeLock`.

A pod is bound once the lock of its node is its own; the plugin frees it when it has given the pod
its devices. Pods wait in the order in which they were placed. Only the first one asks for the lock,
so that a free lock costs one write; pods of other nodes are not concerned. The lock is in the
cluster: a scheduler that starts anew finds it there, and a pod that has it gets its turn at once.

If a lock does not change hands for long, its pod is lost: then all pods but one that wait behind it
are placed anew. Old locks are freed by `inventory/hami/lock_ages`.
"""

import math
from collections.abc import Iterator

from kubeshare_py.cluster.columns import Columns
from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Effect, WriteObject
from kubeshare_py.domain.events import ObjectWritten, WriteOutcome
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.needs.object_writes import LockNode
from kubeshare_py.domain.node import NodeLock
from kubeshare_py.scheduling.binding.assume import Assumer
from kubeshare_py.scheduling.binding.enqueue import Enqueuer, report_waiting
from kubeshare_py.scheduling.binding.node_lines import NodeLine, Turn
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.pod_table import PodTable


class NodeTurns:
    """The lines of all nodes with locks. A pod in a line is PREBINDING."""

    def __init__(
        self, table: PodTable, columns: Columns, assumer: Assumer, enqueuer: Enqueuer
    ) -> None:
        self._table, self._columns = table, columns
        self._assumer, self._enqueuer = assumer, enqueuer
        self._lines: dict[NodeName, dict[str, NodeLine]] = {}
        self._line_of: dict[PodUid, NodeLine] = {}
        #: Pods that have their turn and are not sent yet, and those whose write was refused.
        self._ready: dict[PodUid, Turn] = {}
        self._refused: dict[PodUid, str] = {}
        #: Nodes whose lines are to be looked at.
        self._doubtful: dict[NodeName, None] = {}
        self.next_at = math.inf

    def __len__(self) -> int:
        """The number of pods that wait, or have their turn and are not bound yet."""
        return len(self._line_of) + len(self._ready)

    @property
    def has_ready(self) -> bool:
        """Whether Bindings may be sent."""
        return bool(self._ready)

    @property
    def unsettled(self) -> bool:
        """Whether `look` has something to do at once."""
        return bool(self._doubtful)

    def has(self, uid: PodUid) -> bool:
        """Whether the pod waits for its turn, or has it and is not bound yet."""
        return uid in self._line_of or uid in self._ready

    def enter(self, record: Record, now: float) -> list[Effect] | None:
        """Let a charged pod wait for its turn; None if it needs none. The first write, if any."""
        lock = self._lock_for(record)
        if lock is None:
            return None
        assert record.node is not None
        assert record.allocation is not None
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
        return self._ready.pop(next(iter(self._ready))).record

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
        if now >= self.next_at:
            self._doubtful.update(dict.fromkeys(self._lines))
        doubtful, self._doubtful = self._doubtful, {}
        for name in doubtful:
            for line in [*self._lines.get(name, {}).values()]:
                effects += self._advance(line, now)
                effects += self._give_up_behind_lost(line, now)
                self._tidy(line)
        self._note_next(now)
        return effects

    def end(self, record: Record, sentence: str, now: float) -> list[Effect]:
        """End the placement of a pod that waits; it is tried again."""
        self._drop(record.pod.uid)
        self._assumer.release(record)
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
        self._ready[uid] = line.waiting.pop(uid)
        del self._line_of[uid]

    def _drop(self, uid: PodUid) -> None:
        self._ready.pop(uid, None)
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
        self.next_at = min(times, default=math.inf)
