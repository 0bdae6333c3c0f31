"""What the answer to a request changes in what is known, and the events that follow from it."""

from dataclasses import replace
from typing import assert_never

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.sharepods.effects import (
    AdoptPod,
    CreatePod,
    DeletePod,
    ReportSharePod,
    SharePodEffect,
    SharePodRequest,
    WriteStatus,
)
from kubeshare_py.sharepods.events import (
    PodFound,
    RequestDone,
    RequestFailed,
    RequestOutcome,
    SharePodStored,
)
from kubeshare_py.sharepods.pod_behind import PodBehind
from kubeshare_py.sharepods.record import RetryPause, SharePodRecord
from kubeshare_py.sharepods.share_pod import ConditionType, SharePod


def key_of(request: SharePodRequest) -> PodKey:
    """The name that a request is about."""
    return request.key if isinstance(request, DeletePod) else request.share_pod.key


def answered(
    record: SharePodRecord, request: SharePodRequest, outcome: RequestOutcome, now: float
) -> list[SharePodEffect]:
    """Take in the answer to the request under way, at `now` (s); what follows at once."""
    record.request = None
    effects: list[SharePodEffect] = []
    match outcome:
        case PodFound():
            effects = _pod_found(record, request, outcome.pod, now)
        case SharePodStored():
            _stored(record, outcome.share_pod)
            effects = _reports(request)
        case RequestDone():
            _done(record, request)
        case RequestFailed():
            _failed(record, request, outcome, now)
        case _:
            assert_never(outcome)
    if record.request is None:
        record.gone.clear()
    return effects


def _stored(record: SharePodRecord, found: SharePod) -> None:
    record.write_pause.reset()
    known = record.share_pod
    if known is not None and known.uid == found.uid:
        record.take_share_pod(found)


def _pod_found(
    record: SharePodRecord, request: SharePodRequest, pod: PodBehind, now: float
) -> list[SharePodEffect]:
    """A pod was created or found; one that a SharePod no longer wants is deleted again."""
    record.refusal = ""
    record.pod_pause.reset()
    record.take_pod(pod)
    record.found_at = now
    if not isinstance(request, CreatePod):
        return []
    wanted, made_for = record.share_pod, request.share_pod.uid
    if pod.owner != made_for or (wanted is not None and wanted.uid == made_for):
        return []
    record.request = DeletePod(record.key, made_for, pod.uid)
    return [record.request]


def _done(record: SharePodRecord, request: SharePodRequest) -> None:
    """A pod that was deleted is there until the watch shows its end."""
    pod = record.pod
    if isinstance(request, DeletePod) and pod is not None and pod.uid == request.uid:
        record.pod = replace(pod, is_deleting=True)


def _failed(
    record: SharePodRecord, request: SharePodRequest, failure: RequestFailed, now: float
) -> None:
    _pause_of(record, request).failed(failure, now)
    share = record.share_pod
    if share is None or not isinstance(request, CreatePod) or not failure.is_definite:
        return
    asked = request.share_pod
    if (asked.uid, asked.template) == (share.uid, share.template):
        record.refusal = failure.message


def _pause_of(record: SharePodRecord, request: SharePodRequest) -> RetryPause:
    about_pod = isinstance(request, CreatePod | DeletePod | AdoptPod)
    return record.pod_pause if about_pod else record.write_pause


def _reports(request: SharePodRequest) -> list[SharePodEffect]:
    """Events about conditions that are new in a stored status, and about each new pod."""
    if not isinstance(request, WriteStatus):
        return []
    share, after = request.share_pod, request.status
    before = share.status
    is_new_pod = before.mirror.pod_uid != after.mirror.pod_uid
    return [
        ReportSharePod(share.key, share.uid, one.reason, one.message)
        for one in after.conditions
        if one != before.condition(one.type)
        or (is_new_pod and one.is_true and one.type is ConditionType.SYNCED)
    ]
