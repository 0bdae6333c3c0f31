"""Events and effects in words, for people who look for a difference or for one pod."""

from collections.abc import Iterator, Sequence

from kubeshare_py.domain import events
from kubeshare_py.domain.effects import (
    AnswerBind,
    Bind,
    Effect,
    Evict,
    LogPluginFailure,
    Nominate,
    ReportCardChange,
    ReportOvercommit,
    ReportPodWarning,
    ReportWaiting,
)
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.scheduling.machine import MachineEvent


def event_in_words(event: MachineEvent) -> str:
    """The event's name, and what it is about."""
    about = ""
    match event:
        case events.BindAsked(key=key, node=node):
            about = f" {key} to {node}"
        case events.PodSeen(pod=pod):
            about = f" {pod.key} ({_state_of(pod)})"
        case events.PodGone() | events.BindAnswered() | events.EvictionFailed():
            about = f" {event.uid}"
        case events.NodeSeen(node=node):
            about = f" {node.name}"
        case events.NodeGone(name=name):
            about = f" {name}"
        case events.PodsListed(pods=pods):
            about = f" ({len(pods)} pods)"
        case events.NodesListed(nodes=nodes):
            about = f" ({len(nodes)} nodes)"
        case events.ObjectSeen() | events.ObjectGone() | events.ObjectsListed():
            about = _object_in_words(event)
        case events.InventoryRead(changed=changed):
            about = f" (cards of {len(changed)} nodes)"
        case _:
            pass
    return f"{type(event).__name__}{about}"


def _object_in_words(event: events.ObjectEvent) -> str:
    match event:
        case events.ObjectSeen(object=seen):
            return f" {seen.kind} {seen.key}"
        case events.ObjectGone(kind=kind, key=key):
            return f" {kind} {key}"
        case events.ObjectsListed(kind=kind, objects=objects):
            return f" ({kind})" if objects is None else f" ({len(objects)} {kind})"


class PodLines:
    """Everything about one pod, as lines; a later pod of its name is another one."""

    def __init__(self, key: PodKey) -> None:
        self._key = key
        self._uids: set[PodUid] = set()
        self._last: Pod | None = None
        self._waits = ""

    def lines(self, event: MachineEvent, effects: Sequence[Effect]) -> Iterator[str]:
        """What this event and its effects say about the pod."""
        match event:
            case events.PodSeen(pod=pod) if pod.key == self._key:
                yield from self._seen(pod)
            case events.PodsListed(pods=pods):
                for pod in pods:
                    if pod.key == self._key:
                        yield from self._seen(pod)
            case events.PodGone(uid=uid) if uid in self._uids:
                yield "gone"
                self._last = None
            case events.BindAsked() | events.BindAnswered() | events.EvictionFailed() if (
                event.uid in self._uids
            ):
                yield _answer_in_words(event)
            case _:
                pass
        yield from self._effects(effects)

    def _effects(self, effects: Sequence[Effect]) -> Iterator[str]:
        for effect in effects:
            match effect:
                case ReportCardChange(pods=pods):
                    if any(key == self._key for key, _ in pods):
                        yield f"{effect.change}: {effect.card}"
                case LogPluginFailure() | ReportOvercommit():
                    pass
                case _ if effect.key == self._key:
                    yield from self._decided(effect)

    def _seen(self, pod: Pod) -> Iterator[str]:
        self._uids.add(pod.uid)
        if self._last is None or _state_of(self._last) != _state_of(pod):
            yield f"seen: {_state_of(pod)}"
        self._last = pod

    def _decided(self, effect: Effect) -> Iterator[str]:
        match effect:
            case ReportWaiting(diagnosis=diagnosis):
                if diagnosis.message != self._waits:
                    self._waits = diagnosis.message
                    yield f"waits: {diagnosis.message}"
            case Bind(node=node, allocation=allocation):
                self._waits = ""
                yield f"placed on {' '.join((node, *(card.uuid for card in allocation.cards)))}"
            case AnswerBind(problem=problem):
                yield f"kube-scheduler was told: {problem or 'bound'}"
            case Nominate(node=node, cards=cards):
                yield f"nominated for {' '.join((node, *cards))}" if node else "nominated no more"
            case Evict(message=message):
                yield f"to be evicted: {message}"
            case ReportPodWarning(warning=warning, note=note):
                yield f"{warning}: {note}"
            case _:
                yield type(effect).__name__


def _answer_in_words(
    event: events.BindAsked | events.BindAnswered | events.EvictionFailed,
) -> str:
    if isinstance(event, events.EvictionFailed):
        return f"not evicted: {event.answer}"
    if isinstance(event, events.BindAsked):
        return f"kube-scheduler asked to bind it to {event.node}"
    return f"the API server answered: {_outcome(event.outcome)}"


def _state_of(pod: Pod) -> str:
    state = f"bound to {pod.node_name}" if pod.node_name else "gated" if pod.gates else "unbound"
    return f"{state}, being deleted" if pod.deleting else state


def _outcome(outcome: events.BindOutcome) -> str:
    if isinstance(outcome, events.Bound):
        return "bound"
    if isinstance(outcome, events.BindRefused):
        return f"refused, {outcome.message or outcome.refusal}"
    return f"unknown, {outcome.message}"
