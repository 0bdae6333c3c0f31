"""Placements that wait for PreBind plugins: charged, and not bound yet.

How many may wait is limited; pods beyond that are held until more may.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from kubeshare_py.cluster.rows import OneRow
from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Effect, WriteObject
from kubeshare_py.domain.events import ObjectWritten, WriteOutcome
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.pod import Pod, VolumeChoice
from kubeshare_py.domain.storage import LockNode, ObjectRef, ObjectWrite
from kubeshare_py.framework.points import PendingPlacement, PreBindAnswer, Ready, Rejected, Wait
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.enqueue import (
    NO_DEVICES,
    Enqueuer,
    allocates_devices,
    report_waiting,
)
from kubeshare_py.scheduling.node_turns import NodeTurns
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.gangs import MemberRole
from kubeshare_py.scheduling.queue.pod_queue import SortKey
from kubeshare_py.scheduling.queue.pod_records import PodState, Record, count
from kubeshare_py.scheduling.queue.timers import Alarm, Timers, backoff_s
from kubeshare_py.scheduling.state import State

# Which placements wait for PreBind plugins, for what, and which of them together.


@dataclass(slots=True, eq=False)
class WaitingPlacement:
    """One placement. `wait` is the last answer of `plugin`, None once all plugins are ready."""

    record: Record
    token: DecisionToken
    node: NodeName
    together: "PlacedTogether"
    plugin: str = ""
    wait: Wait | None = None
    #: When (s) the placement ends if `plugin` still waits, and since when each plugin has waited.
    until: float = 0.0
    #: Until when (s) it is not reported what the placement waits for.
    silent_until: float = 0.0
    since: dict[str, float] = field(default_factory=dict)
    #: Writes that were requested, and those that were performed.
    requested: set[ObjectWrite] = field(default_factory=set)
    written: list[ObjectWrite] = field(default_factory=list)
    tries: int = 0


@dataclass(slots=True, eq=False)
class PlacedTogether:
    """Placements whose Bindings are sent at once: of a single pod, or of members of a gang.

    `ended_by` is the pod because of which they end, and why. `is_over`: they have ended, or their
    Bindings are sent.
    """

    waiting: dict[PodUid, WaitingPlacement] = field(default_factory=dict)
    ended_by: tuple[Record, str] | None = None
    is_over: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether no plugin waits any more."""
        return all(one.wait is None for one in self.waiting.values())


class WaitingPlacements:
    """Finds placements by pod, by node, and by the objects that they wait for."""

    def __init__(self) -> None:
        self._by_uid: dict[PodUid, WaitingPlacement] = {}
        self._by_object: dict[ObjectRef, dict[PodUid, None]] = {}
        self._by_node: dict[NodeName, dict[PodUid, None]] = {}

    def __len__(self) -> int:
        """The number of placements."""
        return len(self._by_uid)

    def of(self, uid: PodUid) -> WaitingPlacement | None:
        """The placement of a pod; None if it does not wait."""
        return self._by_uid.get(uid)

    def uids(self) -> Iterable[PodUid]:
        """All pods, in the order in which they began to wait."""
        return self._by_uid

    def on_node(self, name: NodeName) -> Iterable[PodUid]:
        """The pods that are placed on a node."""
        return self._by_node.get(name, ())

    def on_object(self, ref: ObjectRef) -> Iterable[PodUid]:
        """The pods that wait for an object."""
        return self._by_object.get(ref, ())

    def add(
        self, record: Record, token: DecisionToken, node: NodeName, together: PlacedTogether
    ) -> WaitingPlacement:
        """A placement begins to wait, for nothing yet."""
        uid = record.pod.uid
        one = WaitingPlacement(record, token, node, together)
        self._by_uid[uid] = together.waiting[uid] = one
        self._by_node.setdefault(node, {})[uid] = None
        return one

    def waits(self, one: WaitingPlacement, wait: Wait | None, plugin: str) -> None:
        """The placement waits for this now, in place of what was before; None: for nothing."""
        uid = one.record.pod.uid
        for ref in one.wait.on if one.wait is not None else ():
            pods = self._by_object.get(ref, {})  # a plugin may name an object twice
            pods.pop(uid, None)
            if not pods:
                self._by_object.pop(ref, None)
        one.wait, one.plugin = wait, plugin
        one.record.waits_for = wait.sentence if wait is not None else ""
        for ref in wait.on if wait is not None else ():
            self._by_object.setdefault(ref, {})[uid] = None

    def drop(self, uid: PodUid) -> WaitingPlacement | None:
        """The placement does not wait any more, for whatever reason; None if it did not."""
        one = self._by_uid.pop(uid, None)
        if one is None:
            return None
        self.waits(one, None, "")
        on_node = self._by_node[one.node]
        del on_node[uid]
        if not on_node:
            del self._by_node[one.node]
        del one.together.waiting[uid]
        return one


# How many placements may wait for PreBind plugins, and the pods that are held until more may.
#
# Each such placement keeps its place charged, perhaps for minutes, so that a class of volumes that
# never answers would fill the cluster.


#: The most placements of one namespace, and of all, that wait for PreBind plugins.
MAX_OF_NAMESPACE, MAX_IN_ALL = 100, 1000
#: Held pods enter the queue at most this often (s): some of those before may not find a place.
RELEASE_EVERY_S = 1.0

#: A pod, or the members of a gang, in the order in which they were held. Never empty.
_HeldPods = dict[PodUid, Record]


class PreBindLimits:
    """Counts placements by namespace, and keeps the held pods."""

    def __init__(self, alarm: Alarm) -> None:
        """`alarm`: when held pods may enter the queue."""
        self._alarm = alarm
        self._most, self._most_in_all = MAX_OF_NAMESPACE, MAX_IN_ALL
        self._counts: Counter[str] = Counter()
        self._total = 0
        #: What is held, by namespace: the next one to release first. No list is empty.
        self._held: dict[str, list[_HeldPods]] = {}
        self._by_uid: dict[PodUid, tuple[str, _HeldPods]] = {}
        self._rests_until = -math.inf

    def use(self, of_namespace: int, in_all: int) -> None:
        """The most placements of one namespace, and of all; only before the first pod comes."""
        self._most, self._most_in_all = of_namespace, in_all

    def may_begin(self, namespace: str, count: int, *, is_known: bool) -> bool:
        """Whether so many placements of one pod or gang may begin to wait.

        A gang that is larger than the limit may if no other pod of its namespace waits. Not
        `is_known`: the pod or gang was not held before, and goes behind those that are.
        """
        if namespace in self._held and not is_known:
            return False
        return self._has_room(self._counts[namespace], self._total, count)

    def reason(self, namespace: str) -> str:
        """Why pods of this namespace are held."""
        if self._total >= self._most_in_all and self._counts[namespace] < self._most:
            return f"{self._most_in_all} pods wait for PreBind plugins, the most at a time"
        return f"{self._most} pods of its namespace wait for PreBind plugins, the most at a time"

    def began(self, namespace: str) -> None:
        """A placement begins to wait."""
        self._counts[namespace] += 1
        self._total += 1

    def ended(self, namespace: str) -> None:
        """A placement does not wait any more."""
        self._counts[namespace] -= 1
        self._total -= 1
        if not self._counts[namespace]:
            del self._counts[namespace]
        self._note(may_release=bool(self._held))

    def hold(self, records: Iterable[Record]) -> None:
        """Keep a pod, or a gang's members, which are gated, until their placements may wait."""
        held = {record.pod.uid: record for record in records}
        namespace = next(iter(held.values())).pod.key.namespace
        self._held.setdefault(namespace, []).append(held)
        for uid, record in held.items():
            record.is_held = True
            self._by_uid[uid] = namespace, held
        self._note(may_release=True)

    def release(self, now: float) -> list[Record]:
        """Pods that may enter the queue now: as many as may wait, by their namespaces in turn.

        Within a namespace none overtakes another that sorts before it.
        """
        if now < self._alarm.at:
            return []
        self._rests_until = now + RELEASE_EVERY_S
        released: list[Record] = []
        for namespace in list(self._held):
            waiting = sorted(self._held.pop(namespace), key=_key)
            own = self._counts[namespace]
            while waiting and self._has_room(own, self._total + len(released), len(waiting[0])):
                held = waiting.pop(0)
                own += len(held)
                for uid, record in held.items():
                    record.is_held = False
                    del self._by_uid[uid]
                released += held.values()
            if waiting:  # behind the other namespaces
                self._held[namespace] = waiting
        may_release = any(
            self._has_room(self._counts[namespace], self._total, min(map(len, waiting)))
            for namespace, waiting in self._held.items()
        )
        self._note(may_release=may_release)
        return released

    def forget(self, uid: PodUid) -> None:
        """A pod is not held any more, because it changed or is gone."""
        if uid not in self._by_uid:
            return
        namespace, held = self._by_uid.pop(uid)
        held.pop(uid).is_held = False
        if not held:
            self._held[namespace] = [one for one in self._held[namespace] if one]
            if not self._held[namespace]:
                del self._held[namespace]
        self._note(may_release=bool(self._held))

    def _note(self, *, may_release: bool) -> None:
        """Whether something held may be released, as far as is known."""
        self._alarm.set(self._rests_until if may_release else math.inf)

    def _has_room(self, own: int, in_all: int, count: int) -> bool:
        """Whether `count` more may wait beside `own` of their namespace, and so many in all."""
        if in_all >= self._most_in_all:
            return False
        return not own or (own + count <= self._most and in_all + count <= self._most_in_all)


def _key(held: _HeldPods) -> tuple[SortKey, int]:
    return min((record.key, record.arrived) for record in held.values())


# Placements that wait for PreBind plugins: charged, and not bound yet.
#
# What a plugin waits for is in the cluster, so nothing here must outlive the process: a scheduler
# that starts anew places such a pod again, and the plugin finds what was done. A plugin is asked
# again when an object that it named changed, when a write for it was answered, and when the pod's
# node changed.
#
# Pods of a gang that are placed together wait together. Their Bindings are sent when all are ready;
# if the placement of one ends, the others' end with it.


#: What a placement waits for is reported once it has waited for so long (s): most volumes are made
#: sooner.
REPORT_AFTER_S = 5.0

#: Why a placement is refused whose claims would stay without their volumes.
NO_PRE_BIND = "its claims need volumes, and its profile has no PreBind plugin that binds them"

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

    def __init__(self, state: State, enqueuer: Enqueuer) -> None:
        self._table, self._gangs = state.table, state.gangs
        self._ledger, self._charges = state.ledger, state.charges
        self._devices, self._attempts = state.devices, state.attempts
        self._calls, self._profiles = state.profiles.calls, state.profiles.profiles
        self._enqueuer = enqueuer
        #: Where pods wait that are ready but for the lock of their node.
        self.turns = NodeTurns(state, enqueuer)
        self.limits = PreBindLimits(state.alarms.add())
        self._waiting = WaitingPlacements()
        #: Placements to ask about, groups of them that lost one, and those that are ready.
        self._doubtful: dict[PodUid, None] = {}
        self._changed: dict[PlacedTogether, None] = {}
        self._ready: dict[PlacedTogether, None] = {}
        self._late: Timers[tuple[PodUid, DecisionToken]] = Timers(state.alarms)
        self._again: Timers[tuple[PodUid, DecisionToken, ObjectWrite]] = Timers(state.alarms)
        self._unreported: Timers[tuple[PodUid, DecisionToken]] = Timers(state.alarms)
        #: What `look` has to do at once, and what may be sent at once; to be read.
        self.at_once = (self._doubtful, self._changed, *self.turns.at_once)
        self.ready: tuple[Collection[object], ...] = (self._ready, self.turns.ready)

    def __len__(self) -> int:
        """The number of placements that wait."""
        return len(self._waiting) + len(self.turns)

    # --- a placement begins to wait -------------------------------------------------------------

    def ask(self, placed: Sequence[Record]) -> Sequence[Answered] | NotCommitted | None:
        """Ask the plugins about placed pods, a single one or those of a gang.

        None if their Bindings may be sent; else the answers, with which to `begin`.
        """
        is_alone = self._joined(placed[0]) is None
        asked = () if is_alone and not any(map(self._has_plugins, placed)) else placed
        answers = [self._asked(record, ()) for record in asked]
        for record, (answer, plugin) in zip(asked, answers, strict=True):
            if isinstance(answer, Rejected):
                return NotCommitted(record, _failure(plugin, answer.sentence))
        if is_alone and all(isinstance(answer, Ready) for answer, _ in answers):
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
        self._table.follow(self)
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
        self._table.follow(self)
        effects: list[Effect] = []
        for record in records:
            record.pre_binds = True
            effects += self._enqueuer.gate(record, sentence, pod_records.ATTEMPT_FAILURE)
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
        # Also if the answer is late: an assumed allocation of a claim whose write failed is taken
        # back though the placement has ended.
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
        doubtful = self._doubtful.copy()
        self._doubtful.clear()
        for uid in doubtful:
            one = self._waiting.of(uid)
            if one is not None and one.together.ended_by is None:
                effects += self._take(one, self._asked(one.record, one.written), now)
                self._changed[one.together] = None
        effects += self._time_passed(now)
        while self._changed:
            together = next(iter(self._changed))
            del self._changed[together]
            effects += self._settle(together, now)
        effects += self.turns.look(now)
        for record in self.limits.release(now):
            effects += self._enqueuer.enqueue(record, now, pod_records.FORCE_ACTIVATE)
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
        # Before its pods are dropped below: `_drop` would end what is left of them together.
        together.is_over = True
        records = [one.record for one in together.waiting.values()]
        for record in records:
            record.pre_binds, record.reported = False, None
            self._drop(record.pod.uid)
        return records

    # --- inside ---------------------------------------------------------------------------------

    def may_wait(self, record: Record) -> bool:
        """Whether `ask` may have anything to say about a placed pod."""
        if record.pre_binds or record.gang_owners is not None:
            return True
        pod = record.pod
        return bool(self._profiles[pod.scheduler_name].pre_binds_for(pod.shape))

    def _has_plugins(self, record: Record) -> bool:
        """Whether a plugin is asked about a placed pod, or something must be there for its claims.

        Its node is there: it was charged just now.
        """
        pod, shape = record.pod, record.pod.shape
        if shape.volumes is not None or shape.device_claims is not None:
            return True
        return bool(self._profiles[pod.scheduler_name].pre_binds_for(shape))

    def _asked(self, record: Record, written: Sequence[ObjectWrite]) -> Answered:
        """What PreBind plugins answer about a charged pod: see `PluginCalls.pre_bind`."""
        columns, node = self._ledger.columns, record.node
        assert node is not None
        row = columns.row_of.get(node)
        if row is None or columns.nodes[row] is None:
            return Rejected(f'node "{node}" not found'), ""
        charge = self._ledger.charge_of(record.pod.uid)
        choice = charge.pod.choice if charge is not None and charge.pod is not None else None
        if choice is not None or record.pod.shape.device_claims is not None:
            lack = lack_of(record.pod, choice, self._profiles[record.pod.scheduler_name])
            if lack is not None:  # the profile is another one than when the pod was placed
                return Rejected(lack), ""
        placement = PendingPlacement(choice=choice, written=tuple(written))
        return self._calls.pre_bind(record.pod, OneRow(columns, row), placement)

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
        if record.gang_owners is None:
            return None
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
            self._charges.release(record)
        effects: list[Effect] = []
        for record in records:
            if together.ended_by is None:
                effects += self._enqueuer.enqueue(record, now, pod_records.ASSIGNED_POD_DELETE)
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


def lack_of(pod: Pod, choice: VolumeChoice | None, profile: Profile) -> str | None:
    """Why nothing would get a pod's claims what they need before it is bound."""
    if choice is not None and not profile.pre_binds:
        return NO_PRE_BIND
    if pod.shape.device_claims is not None and not allocates_devices(profile):
        return NO_DEVICES
    return None


def _failure(plugin: str, sentence: str) -> str:
    """kube-scheduler's words for a PreBind plugin that fails; as they are if none is named."""
    return f'running PreBind plugin "{plugin}": {sentence}' if plugin else sentence


def _report(one: WaitingPlacement, now: float) -> list[Effect]:
    """What the placement waits for, unless it has not waited for long."""
    if one.wait is None or now < one.silent_until:
        return []
    sentence = f"waits for {one.record.waits_for}"
    return report_waiting(one.record, sentence, WaitingReason.NOT_READY)
