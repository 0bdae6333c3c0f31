"""What happened to a pod, on a node, on a card or in a namespace: sessions of a log, run again.

Scores are those of the decision: plugins are asked once more, at the moment before the turn in
which the pod was placed. Other pods that were placed before it in that turn are not there yet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kubeshare_py.domain import events
from kubeshare_py.domain.effects import (
    Bind,
    Effect,
    Evict,
    Nominate,
    ReportCardChange,
    ReportWaiting,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.event_log.records import LoggedEvent
from kubeshare_py.event_log.replay import Replay
from kubeshare_py.scheduling.explain.pod_view import placement_view
from kubeshare_py.scheduling.machine import Machine, MachineEvent
from kubeshare_py.views.history import HistoryEntry, ScoredNode


class SubjectKind(Enum):
    """What a history may be about."""

    POD = "pod"
    NODE = "node"
    GPU = "gpu"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class HistorySubject:
    """What a history is about; the name of a pod is NAMESPACE/NAME."""

    kind: SubjectKind
    name: str


@dataclass(slots=True)
class _Known:
    """A pod as it was seen last: where it is, its cards, and what it was last said to wait for.

    `token` is that of the last decision about it.
    """

    key: str
    node: str = ""
    cards: tuple[str, ...] = ()
    token: str = ""
    waits: str = ""


@dataclass(slots=True)
class LoggedHistory:
    """Takes sessions one after the other; what each event adds to the history is yielded."""

    subject: HistorySubject
    _pods: dict[PodUid, _Known] = field(default_factory=dict)
    _nodes: dict[str, bool] = field(default_factory=dict)
    #: The nodes of a list that comes in several events, so far.
    _listed: set[str] = field(default_factory=set)

    def play(self, replay: Replay, logged: LoggedEvent, time: str) -> Iterator[HistoryEntry]:
        """Run the next event of a session."""
        event = replay.made(logged)
        scored = self._scored(replay.machine, logged)
        effects = replay.machine.handle(event, logged.now)
        yield from self._happened(event, time)
        for effect in effects:
            yield from self._decided(effect, time, scored)

    # --- scores ---------------------------------------------------------------------------------

    def _scored(
        self, machine: Machine, logged: LoggedEvent
    ) -> Mapping[PodUid, tuple[ScoredNode, ScoredNode | None]]:
        """The scores of pods that this event places, by the names in the log."""
        placed = (line.split(" ") for line in logged.placements if line.startswith("Bind "))
        places = {key: (node, cards) for _, key, node, *cards in placed}
        wanted = {
            key: node for key, (node, cards) in places.items() if self._is_about(key, node, cards)
        }
        if not wanted:
            return {}
        found = {}
        for uid, record in machine.records.items():
            node = wanted.get(str(record.pod.key))
            if node is not None and record.node is None:
                reading = machine.reading()
                chosen = placement_view(machine, reading, record, NodeName(node))
                if not chosen.rank:
                    continue
                first = ScoredNode(node, chosen.score, chosen.scores)
                second = None
                if chosen.others:
                    name = chosen.others[0].name
                    other = placement_view(machine, reading, record, NodeName(name))
                    second = ScoredNode(name, other.score, other.scores)
                found[uid] = (first, second)
        return found

    # --- events ---------------------------------------------------------------------------------

    def _happened(self, event: MachineEvent, time: str) -> Iterator[HistoryEntry]:
        match event:
            case events.PodSeen(pod=pod):
                yield from self._seen(pod, time)
            case events.PodsListed():
                yield from self._pods_listed(event, time)
            case events.PodGone(uid=uid):
                yield from self._gone(uid, time)
            case events.BindAnswered():
                yield from self._answered(event, time)
            case events.EvictionFailed(uid=uid, answer=answer):
                message = f"not evicted: {answer}"
                yield from self._entry(uid, time, "refused", message=message)
            case events.NodeSeen(node=node):
                yield from self._node(node.name, time, closed=node.unschedulable)
            case events.NodeGone(name=name):
                yield from self._node(name, time, closed=None)
            case events.NodesListed():
                yield from self._nodes_listed(event, time)
            case _:
                pass

    def _answered(self, event: events.BindAnswered, time: str) -> Iterator[HistoryEntry]:
        outcome, known = event.outcome, self._pods.get(event.uid)
        if not isinstance(outcome, events.Bound):
            yield from self._entry(event.uid, time, "refused", message=outcome.message)
        if isinstance(outcome, events.BindRefused) and known and known.token == event.token:
            known.node, known.cards = "", ()

    def _nodes_listed(self, event: events.NodesListed, time: str) -> Iterator[HistoryEntry]:
        self._listed |= {*(node.name for node in event.nodes), *event.unreadable}
        for node in event.nodes:
            yield from self._node(node.name, time, closed=node.unschedulable)
        if not event.more:
            for name in [one for one in self._nodes if one not in self._listed]:
                yield from self._node(name, time, closed=None)
            self._listed.clear()

    def _pods_listed(self, event: events.PodsListed, time: str) -> Iterator[HistoryEntry]:
        """A list also says what is gone since the session before, or while the watch was broken."""
        if not event.continues:
            there = {pod.uid for pod in event.pods} | event.to_come | event.unreadable
            for uid in [one for one in self._pods if one not in there]:
                yield from self._gone(uid, time)
        for pod in event.pods:
            yield from self._seen(pod, time)

    def _seen(self, pod: Pod, time: str) -> Iterator[HistoryEntry]:
        known, node = self._pods.get(pod.uid), str(pod.node_name or "")
        cards = tuple(card.uuid for card in pod.allocation.cards) if pod.allocation else ()
        if known is None:
            self._pods[pod.uid] = _Known(str(pod.key), node, cards)
            yield from self._entry(pod.uid, time, "seen")
        elif node and not known.node:
            known.node, known.cards = node, cards
            yield from self._entry(pod.uid, time, "seen", message="bound by another client")

    def _gone(self, uid: PodUid, time: str) -> Iterator[HistoryEntry]:
        yield from self._entry(uid, time, "gone")
        self._pods.pop(uid, None)

    def _node(self, name: str, time: str, *, closed: bool | None) -> Iterator[HistoryEntry]:
        before = self._nodes.pop(name, None)
        if closed is not None:
            self._nodes[name] = closed
        if before == closed or self.subject != HistorySubject(SubjectKind.NODE, name):
            return
        states = {None: "gone", True: "takes no new pods", False: "takes pods"}
        yield HistoryEntry(time, "node", node=name, message=states[closed])

    # --- effects --------------------------------------------------------------------------------

    def _decided(
        self,
        effect: Effect,
        time: str,
        scored: Mapping[PodUid, tuple[ScoredNode, ScoredNode | None]],
    ) -> Iterator[HistoryEntry]:
        match effect:
            case Bind(uid=uid, node=node, allocation=allocation) if uid in self._pods:
                known = self._pods[uid]
                cards = tuple(card.uuid for card in allocation.cards)
                if known.token == allocation.token:
                    return  # the same Binding is sent again
                known.node, known.cards, known.token, known.waits = (
                    node,
                    cards,
                    allocation.token,
                    "",
                )
                chosen, runner_up = scored.get(uid, (None, None))
                yield from self._entry(uid, time, "placed", chosen=chosen, runner_up=runner_up)
            case Evict(uid=uid, message=message, note=note):
                yield from self._entry(uid, time, "evicted", message=note or message)
            case Nominate(uid=uid, node=node, cards=uuids):
                yield from self._nominated(uid, node, uuids, time)
            case ReportWaiting(uid=uid, diagnosis=diagnosis) if uid in self._pods:
                known = self._pods[uid]
                if known.waits != diagnosis.message:
                    known.waits = diagnosis.message
                    yield from self._entry(uid, time, "waits", message=diagnosis.message)
            case ReportCardChange(node=node, uuid=uuid, card=card, change=change):
                if self._is_about("", node, (uuid,)):
                    message = f"{change}: {card}"
                    yield HistoryEntry(time, "card", node=node, cards=(uuid,), message=message)
            case _:
                pass

    def _nominated(
        self, uid: PodUid, node: NodeName | None, cards: Sequence[str], time: str
    ) -> Iterator[HistoryEntry]:
        known = self._pods.get(uid)
        if known is None or not self._is_about(known.key, node or "", cards):
            return
        message = "" if node else "no longer"
        yield HistoryEntry(time, "nominated", known.key, node or "", tuple(cards), message)

    def _entry(
        self,
        uid: PodUid,
        time: str,
        what: str,
        *,
        message: str = "",
        chosen: ScoredNode | None = None,
        runner_up: ScoredNode | None = None,
    ) -> Iterator[HistoryEntry]:
        """What happened to a pod where it is, if that is what the history is about."""
        known = self._pods.get(uid)
        if known is None:
            return
        if self._is_about(known.key, known.node, known.cards):
            yield HistoryEntry(
                time,
                what,
                known.key,
                known.node,
                known.cards,
                message,
                chosen,
                runner_up,
            )

    def _is_about(self, key: str, node: str, cards: Sequence[str]) -> bool:
        subject = self.subject
        match subject.kind:
            case SubjectKind.POD:
                return key == subject.name
            case SubjectKind.NAMESPACE:
                return key.partition("/")[0] == subject.name
            case SubjectKind.NODE:
                return node == subject.name
            case SubjectKind.GPU:
                return any(uuid.startswith(subject.name) for uuid in cards)
