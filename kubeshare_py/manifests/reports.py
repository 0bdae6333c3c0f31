"""What owners and operators are told: the PodScheduled condition and events, as request bodies.

Formats: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/ and, for
texts and reasons, kube-scheduler's.
"""

import datetime
import zlib
from dataclasses import dataclass
from typing import Any

import msgspec

from kubeshare_py.dialects.results import EARMARK
from kubeshare_py.domain.effects import Overuse
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.printable import printable
from kubeshare_py.manifests.undecodable import UNDECODABLE

CONTROLLER = "kubeshare-scheduler"
POD_SCHEDULED, UNSCHEDULABLE = "PodScheduled", "Unschedulable"
SCHEDULED, FAILED_SCHEDULING = "Scheduled", "FailedScheduling"
PREEMPTED = "Preempted"
#: Of each kind of overuse, what its event says when it is over.
OVERUSE_ENDED = {
    Overuse.AMOUNT: "GPUOvercommitEnded",
    Overuse.EXCLUSIVITY: "GPUExclusivityRestored",
    Overuse.PORT: "PodManagerPortFreed",
    Overuse.CLAIM: "GPUClaimSettled",
}
#: Where events of things without a namespace are kept.
DEFAULT_NAMESPACE = "default"
_NORMAL = frozenset({SCHEDULED, PREEMPTED, *OVERUSE_ENDED.values()})
_ACTIONS = {SCHEDULED: "Binding", FAILED_SCHEDULING: "Scheduling", PREEMPTED: "Preempting"}
#: Of everything that is told about what pods hold.
_CHARGING = "Charging"
MOST_NOTE_BYTES = 1024
MOST_INSTANCE = 128
MOST_OBJECT_NAME = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Regarding:
    """What an event is about. `part` tells apart what belongs to one object, such as its cards."""

    kind: str
    namespace: str
    name: str
    uid: str
    part: str = ""


def regarding_pod(uid: PodUid, key: PodKey) -> Regarding:
    """A pod."""
    return Regarding(kind="Pod", namespace=key.namespace, name=key.name, uid=uid)


def regarding_part(node: NodeName, uuid: GpuUuid | None, port: int | None = None) -> Regarding:
    """A card of a node, one of its ports, or (neither) all cards that the kubelet hands out.

    The uid is the node's name: kubelets do so, and `kubectl describe node` looks for that.
    """
    part = uuid or ("all" if port is None else f"port {port}")
    return Regarding(kind="Node", namespace="", name=node, uid=node, part=part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedEvent:
    """One event; `at` is an aware time."""

    regarding: Regarding
    reason: str
    note: str
    at: datetime.datetime

    @property
    def namespace(self) -> str:
        """Where the event is kept."""
        return self.regarding.namespace or DEFAULT_NAMESPACE

    @property
    def name(self) -> str:
        """Name as client-go makes it: the object's and the time in hexadecimal nanoseconds.

        A part has its place between the two: several may be told of at the same time.
        """
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        stamp = f".{(self.at - epoch) // datetime.timedelta(microseconds=1) * 1000:x}"
        if self.regarding.part:
            stamp = f".{zlib.crc32(self.regarding.part.encode()):08x}{stamp}"
        return self.regarding.name[: MOST_OBJECT_NAME - len(stamp)].rstrip("-.") + stamp


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _PodStatus(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Spec(msgspec.Struct):
    nodeName: str = ""


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


_POD = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a pod's condition says already: whether it is False, and the text if it is ours."""

    status_is_false: bool
    message: str | None


def read_told(body: bytes, uid: PodUid) -> Told | None:
    """Read it from a pod; None if this is not the pod, or nobody waits with it any more."""
    try:
        pod = _POD.decode(body)
    except UNDECODABLE:
        return None
    if pod.metadata.uid != uid or pod.spec.nodeName:
        return None
    for condition in pod.status.conditions or []:
        if condition.type == POD_SCHEDULED and condition.status == "False":
            ours = condition.reason == UNSCHEDULABLE
            return Told(status_is_false=True, message=condition.message if ours else None)
    return Told(status_is_false=False, message=None)


def waiting_patch(uid: PodUid, message: str, changed: datetime.datetime | None) -> dict[str, Any]:
    """Write a strategic merge patch for pods/status that sets the one condition.

    `changed` is when the condition's status changed; None leaves that time as it is. The uid makes
    the patch fail (422) on another pod of the same name.
    """
    condition = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": UNSCHEDULABLE,
        "message": printable(message),
    }
    if changed is not None:
        condition["lastTransitionTime"] = changed.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


def disruption_patch(
    uid: PodUid, reason: str, message: str, changed: datetime.datetime
) -> dict[str, Any]:
    """Write a strategic merge patch for pods/status that says why a pod is about to be deleted.

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
    """Write a merge patch for pods/status that nominates a pod, or takes that back.

    The API server takes the annotation with it in the same write.
    """
    return {
        "metadata": {"uid": uid, "annotations": {EARMARK: ",".join(cards) or None}},
        "status": {"nominatedNodeName": node},
    }


def event_body(event: ReportedEvent, instance: str, count: int, last: datetime.datetime) -> object:
    """Write an event for events.k8s.io/v1; `count` and `last` are of its series, 1 for none."""
    about = event.regarding
    regarding = {"apiVersion": "v1", "kind": about.kind, "name": about.name, "uid": about.uid}
    if about.namespace:
        regarding["namespace"] = about.namespace
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": event.namespace, "name": event.name},
        "eventTime": micro_time(event.at),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:MOST_INSTANCE],
        "action": _ACTIONS.get(event.reason, _CHARGING),
        "reason": event.reason,
        "type": "Normal" if event.reason in _NORMAL else "Warning",
        "note": shortened(printable(event.note)),
        "regarding": regarding,
    }
    return body | (series_patch(count, last) if count > 1 else {})


def series_patch(count: int, last: datetime.datetime) -> dict[str, Any]:
    """Write a merge patch that says how often an event has been seen, and when last."""
    return {"series": {"count": count, "lastObservedTime": micro_time(last)}}


def micro_time(at: datetime.datetime) -> str:
    """Write a MicroTime: the server wants exactly six digits of a second."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def shortened(note: str) -> str:
    """Cut a note to what the server accepts, in bytes, as kube-scheduler does."""
    encoded = note.encode()
    if len(encoded) <= MOST_NOTE_BYTES:
        return note
    suffix = " ..."
    return encoded[: MOST_NOTE_BYTES - len(suffix)].decode(errors="ignore") + suffix
