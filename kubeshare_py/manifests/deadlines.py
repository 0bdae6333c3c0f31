"""When running pods end at the latest: their deadlines, those of their Jobs, and an annotation.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup; a pod's
own `activeDeadlineSeconds` counts from its start, that of its Job from the Job's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from kubeshare_py.domain.identity import PodUid
from kubeshare_py.manifests.common_definitions import ListMetadata, ObjectMeta
from kubeshare_py.manifests.decoding import decoded

#: A pod's annotation: for how many seconds after its start it is expected to run.
EXPECTED = "kubeshare.io/expected-seconds"
_DEADLINE = "activeDeadlineSeconds"
#: Longer than any pod runs: datetime ends in the year 9999.
_LONGEST_S = 10 * 366 * 86_400


class _Spec(msgspec.Struct, rename="camel"):
    active_deadline_seconds: int | None = None


class _Status(msgspec.Struct, rename="camel"):
    start_time: str | None = None


class _Item(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Items(msgspec.Struct):
    items: list[_Item] | None = None
    metadata: ListMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestEnd:
    """A pod ends at this Unix time (s) at the latest; `by` says which field says so."""

    at: float
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A pod or Job: its uid, its controller's, and when it must end by its own fields."""

    uid: str
    controller: str
    end: LatestEnd | None


def timed_objects(body: bytes, kind: str) -> tuple[list[Timed], str]:
    """The pods or Jobs of a list, and the continue token, "" at the end. Raises UNDECODABLE.

    `kind` names them in sentences: `spec` for pods, `Job`.
    """
    found = decoded(body, _Items)
    timed = [
        Timed(
            uid=one.metadata.uid,
            controller=one.metadata.controller_uid,
            end=_end(one, kind),
        )
        for one in found.items or ()
    ]
    return timed, (found.metadata and found.metadata.next_page) or ""


def latest_ends(pods: Iterable[Timed], jobs: Iterable[Timed]) -> Mapping[PodUid, LatestEnd]:
    """The first of what a pod and its Job say, for all pods of which one of them says it."""
    of_jobs = {job.uid: job.end for job in jobs if job.end is not None}
    found: dict[PodUid, LatestEnd] = {}
    for pod in pods:
        ends = [end for end in (pod.end, of_jobs.get(pod.controller)) if end is not None]
        if ends:
            found[PodUid(pod.uid)] = min(ends, key=lambda end: end.at)
    return found


def _end(item: _Item, kind: str) -> LatestEnd | None:
    started = _moment(item.status.start_time)
    if started is None:
        return None
    ends = []
    if item.spec.active_deadline_seconds is not None:
        ends.append((item.spec.active_deadline_seconds, f"{_DEADLINE} of its {kind}"))
    expected = (item.metadata.annotations or {}).get(EXPECTED, "")
    if expected.isascii() and expected.isdigit():
        ends.append((int(expected), f"its annotation {EXPECTED}"))
    within = [(after_s, by) for after_s, by in ends if 0 <= after_s <= _LONGEST_S]
    if not within:
        return None
    after_s, by = min(within)
    return LatestEnd(at=started + after_s, by=by)


def _moment(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None
