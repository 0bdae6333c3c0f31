"""Events, stored once in core/v1 form and served through core/v1 and events.k8s.io/v1."""

from kubeshare_py.embedded_cluster.protocol.names import qualified_problem
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.times import is_micro_time

_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_STORED = {wire: stored for stored, wire in _RENAMED.items()}
_LIMITS = {"note": 1024, "reason": 128, "action": 128, "reportingInstance": 128}
_SERIES_MINIMUM = 2
_TYPES = ("Normal", "Warning")


def present_new(event: Json) -> Json:
    """The stored event as events.k8s.io/v1 shows it."""
    return {_RENAMED.get(key, key): value for key, value in event.items()}


def absorb_new(event: Json) -> Json:
    """An events.k8s.io/v1 body as it is stored."""
    return {_STORED.get(key, key): value for key, value in event.items()}


def default_event(event: Json) -> None:
    """Add an empty reference to events without one."""
    event.setdefault("involvedObject", {})


def core_event_causes(event: Json) -> list[StatusCause]:
    """The loose old rules, unless the event has the new style's eventTime."""
    return new_event_causes(event) if "eventTime" in event else _namespace_causes(event)


def _named_causes(event: Json) -> list[StatusCause]:
    """The namespace's rule of events.k8s.io/v1, which core/v1 does not have."""
    return [] if event["involvedObject"].get("namespace") else _namespace_causes(event)


def new_event_causes(event: Json) -> list[StatusCause]:
    """The rules of events.k8s.io/v1, on the stored form."""
    causes = _named_causes(event)
    seen = present_new(event)
    if "eventTime" not in seen:
        causes.append(required("eventTime"))
    for name in ("reportingController", "reportingInstance", "action", "reason"):
        if not seen.get(name):
            causes.append(required(name))
    if problem := qualified_problem(seen.get("reportingController") or "x"):
        causes.append(wrong("reportingController", seen["reportingController"], problem))
    for name, limit in _LIMITS.items():
        if len(seen.get(name, "")) > limit:
            causes.append(wrong(name, "", f"can have at most {limit} bytes"))
    if seen.get("type") not in _TYPES:
        causes.append(unsupported("type", seen.get("type", ""), _TYPES))
    series = seen.get("series")
    if series is not None and series.get("count", 0) < _SERIES_MINIMUM:
        causes.append(wrong("series.count", series.get("count", 0), "should be at least 2"))
    return causes


def event_update_causes(new: Json, old: Json) -> list[StatusCause]:
    """A new-style event keeps everything but its series."""
    if "eventTime" not in old:
        return []
    return [
        not_allowed(name, "field is immutable")
        for name in sorted({*new, *old} - {"metadata", "series"})
        if new.get(name) != old.get(name)
    ]


def micro_time_problem(event: Json) -> str:
    """Why eventTime or series.lastObservedTime does not parse ("" if they do)."""
    times = (event.get("eventTime"), (event.get("series") or {}).get("lastObservedTime"))
    return _bad(times)


def lease_time_problem(lease: Json) -> str:
    """The same for a Lease's acquireTime and renewTime."""
    spec = lease.get("spec") or {}
    return _bad((spec.get("acquireTime"), spec.get("renewTime")))


def _namespace_causes(event: Json) -> list[StatusCause]:
    """The namespace must be the involved object's, or default for objects without one."""
    namespace = event["involvedObject"].get("namespace", "")
    own = event["metadata"].get("namespace", "")
    if namespace == own or (namespace == "" and own == "default"):
        return []
    return [wrong("involvedObject.namespace", namespace, "does not match event.namespace")]


def _bad(times: tuple[object, ...]) -> str:
    for text in times:
        if text is not None and not is_micro_time(text):
            return f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
    return ""
