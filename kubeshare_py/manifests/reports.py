"""The PodScheduled condition and events for owners and operators, as request bodies.

Formats: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/; texts and
reasons are kube-scheduler's.
"""

import datetime
import zlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubeshare_py.dialects.results import RESERVATION
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import (
    CardChange,
    Overuse,
    PreemptionPlan,
    ReportCardChange,
    ReportScheduled,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.printable import printable
from kubeshare_py.manifests.decoding import UNDECODABLE

CONTROLLER = "kubeshare-scheduler"
POD_SCHEDULED = "PodScheduled"
SCHEDULED, FAILED_SCHEDULING = "Scheduled", "FailedScheduling"
#: Of a victim, and of the pod that gets its place.
PREEMPTED, PREEMPTING = "Preempted", "Preempting"
#: Of a SharePod.
SYNCED = "Synced"
#: For each kind of overuse, the note of the event when it is over.
OVERUSE_ENDED = {
    Overuse.AMOUNT: "GPUOvercommitEnded",
    Overuse.EXCLUSIVITY: "GPUExclusivityRestored",
    Overuse.PORT: "PodManagerPortFreed",
    Overuse.CLAIM: "GPUClaimSettled",
    Overuse.AGENT: "NodeAgentUsable",
}
#: The namespace of events about objects without one.
DEFAULT_NAMESPACE = "default"
_NORMAL = frozenset(
    {
        *(SCHEDULED, PREEMPTED, PREEMPTING, SYNCED, *OVERUSE_ENDED.values()),
        *(CardChange.RECOVERED, CardChange.RETURNED),
    }
)
#: What became of a card, on its Node and on a pod that holds it.
_OF_CARD: dict[str, str] = {
    CardChange.FAILED: "is unhealthy: no more pods are placed on it",
    CardChange.RECOVERED: "is healthy again",
    CardChange.VANISHED: "is gone: the node does not list it any more",
    CardChange.RETURNED: "is back: the node lists it again",
}
_OF_HELD_CARD: dict[str, str] = {
    **_OF_CARD,
    CardChange.FAILED: "is unhealthy. The pod keeps it until it is deleted",
    CardChange.VANISHED: "is gone: the node does not list it any more. The pod keeps its claim "
    "to it until it is deleted",
}
_ACTIONS: dict[str, str] = {
    SCHEDULED: "Binding",
    FAILED_SCHEDULING: "Scheduling",
    PREEMPTED: "Preempting",
    PREEMPTING: "Preempting",
    **dict.fromkeys(map(str, CardChange), "Watching"),
}
#: The action of events about what pods hold.
_CHARGING = "Charging"
MAX_NOTE_BYTES = 1024
MAX_INSTANCE = 128
MAX_OBJECT_NAME = 253
#: The most kinds of cards and amounts that a Scheduled event tells apart, and the most cards of
#: one kind whose indices it lists.
_MAX_KINDS, _MAX_INDICES = 3, 8
#: The most victims, or holders of a card, that an event names.
_MAX_NAMED = 8
_GIB, _MIB = 1 << 30, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Regarding:
    """The object of an event. `part` tells parts of an object apart, such as its cards."""

    api_version: str = "v1"
    kind: str
    namespace: str
    name: str
    uid: str
    part: str = ""


def regarding_pod(uid: PodUid, key: PodKey) -> Regarding:
    """A pod."""
    return Regarding(kind="Pod", namespace=key.namespace, name=key.name, uid=uid)


def regarding_part(node: NodeName, uuid: GpuUuid | None, port: int | None = None) -> Regarding:
    """A card of a node, one of its ports, or (neither) all cards that the kubelet gives out.

    The uid is the node's name: kubelets do so, and `kubectl describe node` searches for that.
    """
    part = uuid or ("all" if port is None else f"port {port}")
    return Regarding(kind="Node", namespace="", name=node, uid=node, part=part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedEvent:
    """One event; `at` is an aware time. `action` is "" for what its reason implies."""

    regarding: Regarding
    reason: str
    note: str
    at: datetime.datetime
    controller: str = CONTROLLER
    action: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of the event."""
        return self.regarding.namespace or DEFAULT_NAMESPACE

    @property
    def name(self) -> str:
        """The name as client-go makes it.

        The object's name and the time in hexadecimal nanoseconds.

        A part's name is between the two, because several may be reported at the same time.
        """
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        stamp = f".{(self.at - epoch) // datetime.timedelta(microseconds=1) * 1000:x}"
        if self.regarding.part:
            stamp = f".{zlib.crc32(self.regarding.part.encode()):08x}{stamp}"
        return self.regarding.name[: MAX_OBJECT_NAME - len(stamp)].rstrip("-.") + stamp


def scheduled_note(report: ReportScheduled) -> str:
    """The note of a Scheduled event: kube-scheduler's, and the cards of a pod that holds some.

    `Successfully assigned default/a to n1: 0.5 of GPU 3 (Tesla-T4)`.
    """
    note = f"Successfully assigned {report.key} to {report.node}"
    if report.allocation is None or not report.allocation.cards:
        return note
    return f"{note}: {_cards_in_words(report.allocation, report.cards)}"


def preempting_note(plan: PreemptionPlan) -> str:
    """What a plan does, for the owner of its preemptor.

    `Preempts ns/low on node n1`. Victims in other namespaces are counted and not named: the
    preemptor's owner may not be allowed to see them.
    """
    namespace = plan.preemptor.namespace
    named = [str(one.key) for one in plan.victims if one.key.namespace == namespace]
    foreign = len(plan.victims) - len(named)
    words = named[:_MAX_NAMED]
    if len(named) > _MAX_NAMED:
        words.append(f"{len(named) - _MAX_NAMED} more of this namespace")
    if foreign:
        words.append(f"{foreign} {'pod' if foreign == 1 else 'pods'} of other namespaces")
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    nodes = {one.node for one in plan.victims}
    where = f"node {plan.victims[0].node}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    return f"Preempts {listed} on {where}"


def card_note(report: ReportCardChange) -> str:
    """What became of a card, for its node's operators: with the pods that hold part of it."""
    note = f"{report.card} {_OF_CARD[report.change]}"
    named = [str(key) for key, _ in report.pods[:_MAX_NAMED]]
    if len(report.pods) > _MAX_NAMED:
        named.append(f"{len(report.pods) - _MAX_NAMED} more")
    return f"{note}. It is held by {', '.join(named)}" if named else note


def held_card_note(report: ReportCardChange) -> str:
    """The same for the owner of a pod that holds it, without the names of other pods."""
    return f"{report.card} of node {report.node} {_OF_HELD_CARD[report.change]}"


def _cards_in_words(held: Allocation, there: tuple[Gpu, ...]) -> str:
    """Cards with the same amount and model together: `GPUs 0, 1 (Tesla-T4), 0.5 of GPU 2`."""
    known = {gpu.uuid: gpu for gpu in there}
    kinds: dict[tuple[str, str], list[str]] = {}
    for card in held.cards:
        gpu = known.get(card.uuid)
        # Instances of one card share its index, so that only the uuid tells them apart.
        label = card.uuid if gpu is None or gpu.is_instance else str(gpu.index)
        model = card.model if gpu is None else gpu.model
        kinds.setdefault((_amount(card), model), []).append(label)
    words = [_kind(*kind, labels) for kind, labels in [*kinds.items()][:_MAX_KINDS]]
    rest = sum(len(labels) for labels in [*kinds.values()][_MAX_KINDS:])
    return ", ".join(words) + (f" and {rest} more" if rest else "")


def _kind(amount: str, model: str, labels: list[str]) -> str:
    named = ", ".join(labels)
    if all(label.isdecimal() for label in labels):
        named = f"GPU {named}" if len(labels) == 1 else f"GPUs {named}"
    if len(labels) > _MAX_INDICES:
        named = f"{len(labels)} GPUs"
    named += f" ({model})" if model else ""
    if not amount:
        return named
    return f"{amount} of {named}" if len(labels) == 1 else f"{amount} each of {named}"


def _amount(card: CardCharge) -> str:
    """What a pod holds of a card: a share, or memory alone; "" for all of it."""
    if card.milli or not card.memory_bytes:
        return "" if card.milli in (0, WHOLE_MILLI) else f"{card.milli / WHOLE_MILLI:g}"
    size, unit = (_GIB, "GiB") if card.memory_bytes >= _GIB else (_MIB, "MiB")
    return f"{card.memory_bytes / size:.4g} {unit}"


class _ReportedCondition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _ReportedPodStatus(msgspec.Struct):
    conditions: list[_ReportedCondition] | None = None


class _ReportSpec(msgspec.Struct):
    nodeName: str = ""


class _ReportMetadata(msgspec.Struct):
    uid: str = ""
    resourceVersion: str = ""


class _ReportedPod(msgspec.Struct):
    metadata: _ReportMetadata
    spec: _ReportSpec = msgspec.field(default_factory=_ReportSpec)
    status: _ReportedPodStatus = msgspec.field(default_factory=_ReportedPodStatus)


_REASONS = {reason.value: reason for reason in WaitingReason}
_POD = msgspec.json.Decoder(_ReportedPod)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCondition:
    """A pod's present condition: whether it is False, its text, and its reason if it is ours.

    `version` is the pod's resourceVersion, `pod_bytes` the length of the pod as JSON.
    """

    status_is_false: bool
    message: str | None
    reason: WaitingReason | None = None
    version: str = ""
    pod_bytes: int = field(default=0, compare=False)

    def shows(self, message: str, reason: WaitingReason) -> bool:
        """Whether the pod shows this text and reason already."""
        return (self.message, self.reason) == (message, reason)


def read_published(body: bytes, uid: PodUid) -> PublishedCondition | None:
    """Read the condition from a pod; None if it is another pod, or no longer waits."""
    try:
        pod = _POD.decode(body)
    except UNDECODABLE:
        return None
    if pod.metadata.uid != uid or pod.spec.nodeName:
        return None
    for condition in pod.status.conditions or []:
        if condition.type == POD_SCHEDULED and condition.status == "False":
            reason = _REASONS.get(condition.reason or "")
            return PublishedCondition(
                status_is_false=True,
                message=None if reason is None else condition.message,
                reason=reason,
                version=pod.metadata.resourceVersion,
                pod_bytes=len(body),
            )
    version = pod.metadata.resourceVersion
    return PublishedCondition(
        status_is_false=False, message=None, version=version, pod_bytes=len(body)
    )


def waiting_patch(
    uid: PodUid,
    message: str,
    changed: datetime.datetime | None,
    reason: WaitingReason = WaitingReason.UNSCHEDULABLE,
    version: str = "",
) -> dict[str, Any]:
    """A strategic merge patch for pods/status that sets the PodScheduled condition.

    `changed` is when the condition's status changed; None leaves that time as it is. The uid makes
    the patch fail (422) on another pod of the same name, and the `version`, if given, on a pod that
    changed since (409): a Binding whose answer was lost may be stored at any moment.
    """
    condition = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": reason.value,
        "message": printable(message),
    }
    if changed is not None:
        condition["lastTransitionTime"] = changed.strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"uid": uid, "resourceVersion": version} if version else {"uid": uid}
    return {"metadata": metadata, "status": {"conditions": [condition]}}


def disruption_patch(
    uid: PodUid, reason: str, message: str, changed: datetime.datetime
) -> dict[str, Any]:
    """A strategic merge patch for pods/status that says why a pod is about to be deleted.

    Job controllers read it: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/
    """
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": printable(message),
        "lastTransitionTime": changed.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


def nomination_patch(
    uid: PodUid, node: NodeName | None, cards: tuple[GpuUuid, ...]
) -> dict[str, Any]:
    """A merge patch for pods/status that nominates a pod, or clears the nomination.

    The API server stores the annotation with it in the same write.
    """
    return {
        "metadata": {"uid": uid, "annotations": {RESERVATION: ",".join(cards) or None}},
        "status": {"nominatedNodeName": node},
    }


def event_body(event: ReportedEvent, instance: str, count: int, last: datetime.datetime) -> object:
    """An event for events.k8s.io/v1; `count` and `last` are of its series, count 1 for none."""
    about = event.regarding
    regarding = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "name": about.name,
        "uid": about.uid,
    }
    if about.namespace:
        regarding["namespace"] = about.namespace
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": event.namespace, "name": event.name},
        "eventTime": micro_time(event.at),
        "reportingController": event.controller,
        "reportingInstance": instance[:MAX_INSTANCE],
        "action": event.action or _ACTIONS.get(event.reason, _CHARGING),
        "reason": event.reason,
        "type": "Normal" if event.reason in _NORMAL else "Warning",
        "note": shortened(printable(event.note)),
        "regarding": regarding,
    }
    return body | (series_patch(count, last) if count > 1 else {})


def series_patch(count: int, last: datetime.datetime) -> dict[str, Any]:
    """A merge patch with how often an event has been seen, and when last."""
    return {"series": {"count": count, "lastObservedTime": micro_time(last)}}


def micro_time(at: datetime.datetime) -> str:
    """A MicroTime: the server requires exactly six digits of a second."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def shortened(note: str) -> str:
    """The note cut to what the server accepts, in bytes, as kube-scheduler does."""
    encoded = note.encode()
    if len(encoded) <= MAX_NOTE_BYTES:
        return note
    suffix = " ..."
    return encoded[: MAX_NOTE_BYTES - len(suffix)].decode(errors="ignore") + suffix
