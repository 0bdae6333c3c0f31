"""The controller of SharePods: `handle(event, now) -> effects`, without clock or client.

Nothing is requested before all SharePods and all pods are listed. For each name at most one request
is under way, and it is decided anew from what is known then: a process that ends at any point and
starts again goes on from what the API server stores. A second pod cannot come about, because a
pod has the name of its SharePod.
"""

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import assert_never

from kubeshare_py.domain.events import TimePassed
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.printable import MAX_MESSAGE, beginning, listed, printable
from kubeshare_py.sharepods.effects import (
    AdoptPod,
    CreatePod,
    DeletePod,
    EffectAnswered,
    PodBehindGone,
    PodBehindSeen,
    PodFound,
    PodsBehindListed,
    ReportSharePod,
    RequestDone,
    RequestFailed,
    RequestOutcome,
    SharePodEffect,
    SharePodEvent,
    SharePodGone,
    SharePodRequest,
    SharePodSeen,
    SharePodsListed,
    SharePodStored,
    WriteCardName,
    WriteStatus,
)
from kubeshare_py.sharepods.share_pod import (
    ConditionType,
    FieldHashes,
    PodBehind,
    PodMirror,
    SharePod,
    SharePodCondition,
    SharePodReason,
    SharePodStatus,
    is_older,
)

# What a SharePod and the pod of its name mean together: what to request, and what to show.


#: KubeShare 1.0's texts.
SYNCED = "SharePod synced successfully"
LEFT_OUT = "; what its pod has in labels, annotations or status is too long to be shown here"
VALUE_ERROR = "Value error: "
RESOURCE_EXISTS = "Resource {!r} already exists and is not managed by SharePod"
FORMER_POD = "the pod of an earlier SharePod of this name is still there"
EDITS_IGNORED = "changed after the pod was bound, and ignored until the pod is created anew: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`request` is for the pod. `card_name` is the annotation to write, None to leave it."""

    status: SharePodStatus
    request: CreatePod | DeletePod | AdoptPod | None = None
    card_name: str | None = None


def judge(share: SharePod, pod: PodBehind | None, last: PodMirror | None, refusal: str) -> Verdict:
    """Judge a SharePod and the pod of its name.

    `last` is its former pod's, which is gone, and `refusal` why the API server refuses the pod.
    """
    if pod is not None and pod.owner == share.uid:
        return _with_its_pod(share, pod)
    before = share.status if last is None else replace(share.status, mirror=last)
    if share.is_deleting or share.is_finished(before.mirror.phase):
        return Verdict(status=before)
    if share.problem:
        return Verdict(status=_failing(before, *_value_error(share)))
    if pod is not None:
        return _with_another(share, pod, before)
    if refusal:
        before = _failing(before, SharePodReason.POD_REFUSED, refusal)
    return Verdict(status=before, request=CreatePod(share))


def edited(before: FieldHashes, now: FieldHashes) -> list[str]:
    """The fields that differ; none if it is not known what they were or are."""
    if not (before and now):
        return []
    return sorted({name for name, _ in {*before} ^ {*now}})


def _with_its_pod(share: SharePod, pod: PodBehind) -> Verdict:
    changed = edited(pod.field_hashes, share.template.field_hashes)
    replaceable = changed and not (pod.is_bound or pod.is_deleting or share.is_deleting)
    status = SharePodStatus(mirror=_shown_of(share, pod))
    if replaceable and share.problem:
        return Verdict(status=_failing(status, *_value_error(share)))
    said = SYNCED + LEFT_OUT if pod.mirror.is_cut else SYNCED
    conditions = [_condition(SharePodReason.SYNCED, said, is_true=True)]
    if changed and pod.is_bound:
        ignored = _condition(
            SharePodReason.EDITS_IGNORED,
            EDITS_IGNORED + listed(changed),
            is_true=True,
            kind=ConditionType.EDITS_IGNORED,
        )
        conditions.append(ignored)
    return Verdict(
        status=replace(status, conditions=_as_shown(share, conditions)),
        request=DeletePod(share.key, share.uid, pod.uid, pod.version) if replaceable else None,
        card_name=_card_name(share, pod),
    )


def _shown_of(share: SharePod, pod: PodBehind) -> PodMirror:
    """What is shown of a pod; KubeShare 1.0 wrote on the SharePod alone which card its pods got."""
    known = share.status.mirror
    if pod.is_marked or known.pod_uid != pod.uid:
        return pod.mirror
    return replace(
        pod.mirror,
        device=pod.mirror.device or known.device,
        port=pod.mirror.port or known.port,
    )


def _with_another(share: SharePod, pod: PodBehind, before: SharePodStatus) -> Verdict:
    if pod.is_marked and not (pod.has_controller or pod.is_deleting):
        return Verdict(status=before, request=AdoptPod(share, pod.uid))
    if pod.owner:
        return Verdict(status=_failing(before, SharePodReason.FORMER_POD, FORMER_POD))
    text = RESOURCE_EXISTS.format(share.key.name).replace("'", '"')
    return Verdict(status=_failing(before, SharePodReason.RESOURCE_EXISTS, text))


def _card_name(share: SharePod, pod: PodBehind) -> str | None:
    """The name that the scheduler gave, unless the SharePod shows it, or its user gave one."""
    found = pod.card_name if pod.is_bound else ""
    if share.chooses_card_name or found == share.card_name:
        return None
    return found


def _value_error(share: SharePod) -> tuple[SharePodReason, str]:
    return SharePodReason.VALUE_ERROR, VALUE_ERROR + share.problem


def _failing(before: SharePodStatus, reason: SharePodReason, message: str) -> SharePodStatus:
    return replace(before, conditions=(_condition(reason, message, is_true=False),))


def _condition(
    reason: SharePodReason,
    message: str,
    *,
    is_true: bool,
    kind: ConditionType = ConditionType.SYNCED,
) -> SharePodCondition:
    # As it can be shown: another text than the one that is stored would be written for ever.
    shown = beginning(printable(message), MAX_MESSAGE)
    return SharePodCondition(type=kind, is_true=is_true, reason=reason, message=shown)


def _as_shown(
    share: SharePod, conditions: list[SharePodCondition]
) -> tuple[SharePodCondition, ...]:
    """The conditions in the order in which the SharePod shows them."""
    shown = [one.type for one in share.status.conditions]
    order = {kind: at for at, kind in enumerate(shown)}
    return tuple(sorted(conditions, key=lambda one: order.get(one.type, len(order))))


# All that is known under one name: a SharePod, the pod behind it, and the request under way.


#: Seconds from when a status begins to differ until it is written: a pod that starts changes often.
SETTLE_S = 0.5
#: Pauses (s) after failures: the first, and the longest, for objects that are refused and others.
FIRST_S, LONGEST_REFUSED_S, LONGEST_S = 0.5, 60.0, 8.0


@dataclass(slots=True)
class RetryPause:
    """When a kind of request may be made again: at `at` (s)."""

    at: float = -math.inf
    failures: int = 0

    def failed(self, failure: RequestFailed, now: float) -> None:
        """Wait twice as long as the last time, and as long as the server asks."""
        longest_s = LONGEST_REFUSED_S if failure.is_definite else LONGEST_S
        pause_s = min(FIRST_S * 2.0 ** min(self.failures, 16), longest_s)
        self.failures += 1
        self.at = now + max(pause_s, failure.retry_after_s)

    def reset(self) -> None:
        """Do not wait."""
        self.at, self.failures = -math.inf, 0


@dataclass(slots=True, kw_only=True)
class SharePodRecord:
    """What is known of one name. `last` is what the SharePod's former pod was when it went.

    `found_at` is when (s) an answer showed the pod, before any watch did. `gone` are pods that were
    deleted while a request was under way, whose answer may still show them. `refusal` is why the
    pod was refused. `differs_since` is since when (s) the status shows something else.
    """

    key: PodKey
    share_pod: SharePod | None = None
    pod: PodBehind | None = None
    found_at: float = -math.inf
    last: PodMirror | None = None
    request: SharePodRequest | None = None
    gone: set[PodUid] = field(default_factory=set)
    refusal: str = ""
    pod_pause: RetryPause = field(default_factory=RetryPause)
    write_pause: RetryPause = field(default_factory=RetryPause)
    differs_since: float | None = None
    due: float = math.inf

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known any more that a SharePod of this name would need."""
        has_pod = self.pod is not None and bool(self.pod.owner)
        return self.share_pod is None and self.request is None and not has_pod

    def take_share_pod(self, found: SharePod) -> None:
        """Take in a SharePod, unless a newer state of it is known."""
        known = self.share_pod
        if known is not None and known.uid == found.uid:
            if is_older(found.version, known.version):
                return
            if known.template.manifest != found.template.manifest:
                self._try_at_once()
        else:
            self.last = self.differs_since = None
            self._try_at_once()
        self.share_pod = found
        self._keep_one_copy()

    def take_pod(self, found: PodBehind) -> None:
        """Take in the pod of this name, unless it is gone or a newer state of it is known."""
        known = self.pod
        if found.uid in self.gone:
            return
        if known is not None and known.uid == found.uid and is_older(found.version, known.version):
            return
        if known is not None and known.uid != found.uid:
            self.lose_pod(known)
        self.pod = found
        self._keep_one_copy()

    def lose_pod(self, last: PodBehind) -> None:
        """Take in that a pod is gone; `last` is its last state."""
        if self.request is not None:
            self.gone.add(last.uid)
        if self.pod is None or self.pod.uid != last.uid:
            return
        self.pod, self.found_at = None, -math.inf
        if self.share_pod is not None and last.owner == self.share_pod.uid:
            self.last = last.mirror

    def next_request(self, now: float) -> SharePodRequest | None:
        """The request to make now; sets `due`, when (s) to ask again."""
        self.due = math.inf
        share = self.share_pod
        if share is None or self.request is not None:
            return None
        verdict = judge(share, self.pod, self.last, self.refusal)
        if verdict.request is not None and self._is_time(self.pod_pause.at, now):
            return verdict.request
        if verdict.card_name is not None and self._is_time(self.write_pause.at, now):
            return WriteCardName(share, verdict.card_name)
        if verdict.status == share.status:
            self.differs_since = None
            return None
        if self.differs_since is None:
            self.differs_since = now
        # An end is shown at once: by it a later process knows not to make the pod again.
        changes_on = self.pod is not None and not share.is_finished(verdict.status.mirror.phase)
        settled_at = self.differs_since + (SETTLE_S if changes_on else 0.0)
        if self._is_time(max(settled_at, self.write_pause.at), now):
            return WriteStatus(share, verdict.status)
        return None

    def _keep_one_copy(self) -> None:
        """Keep what the SharePod shows of its pod once, if both are the same."""
        share, pod = self.share_pod, self.pod
        if share is not None and pod is not None and share.status.mirror == pod.mirror:
            self.share_pod = replace(share, status=replace(share.status, mirror=pod.mirror))

    def _is_time(self, at: float, now: float) -> bool:
        if now >= at:
            return True
        self.due = min(self.due, at)
        return False

    def _try_at_once(self) -> None:
        self.refusal = ""
        self.pod_pause.reset()
        self.write_pause.reset()


# What the answer to a request changes in what is known, and the events that follow from it.


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


class Reconciler:
    """All SharePods; `handle` is all that changes it. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._records: dict[PodKey, SharePodRecord] = {}
        self._share_pods_listed = self._pods_listed = False
        self._due: list[tuple[float, PodKey]] = []

    @property
    def is_ready(self) -> bool:
        """Whether both lists have been read."""
        return self._share_pods_listed and self._pods_listed

    def records(self) -> Iterable[SharePodRecord]:
        """The records by name, to be read only."""
        return self._records.values()

    def wake_at(self) -> float:
        """When (s) `TimePassed` is to be handled; inf for never."""
        return self._due[0][0] if self._due else math.inf

    def handle(self, event: SharePodEvent, now: float) -> list[SharePodEffect]:
        """Take in an event; what is to be done. Every event is legal in every state."""
        touched, effects = self._take(event, now)
        if not self.is_ready:
            return effects
        for key in touched:
            effects += self._step(key, now)
        return effects

    def _take(
        self, event: SharePodEvent, now: float
    ) -> tuple[Iterable[PodKey], list[SharePodEffect]]:
        """Change what is known; the names that this is about, and what follows at once."""
        effects: list[SharePodEffect] = []
        match event:
            case SharePodSeen() | SharePodGone() | SharePodsListed():
                touched = self._take_share_pods(event)
            case PodBehindSeen() | PodBehindGone() | PodsBehindListed():
                touched = self._take_pods(event)
            case EffectAnswered():
                touched, effects = [key_of(event.request)], self._answered(event, now)
            case TimePassed():
                touched = self._take_due(now)
            case _:
                assert_never(event)
        return touched, effects

    def _take_share_pods(
        self, event: SharePodSeen | SharePodGone | SharePodsListed
    ) -> list[PodKey]:
        match event:
            case SharePodSeen():
                self._record(event.share_pod.key).take_share_pod(event.share_pod)
                return [event.share_pod.key]
            case SharePodGone():
                self._share_pod_gone(event)
                return [event.key]
            case SharePodsListed():
                return self._list_share_pods(event)

    def _take_pods(self, event: PodBehindSeen | PodBehindGone | PodsBehindListed) -> list[PodKey]:
        match event:
            case PodBehindSeen():
                self._pod_seen(event.pod)
                return [event.pod.key]
            case PodBehindGone():
                record = self._records.get(event.pod.key)
                if record is not None:
                    record.lose_pod(event.pod)
                return [event.pod.key]
            case PodsBehindListed():
                return self._list_pods(event)

    def _step(self, key: PodKey, now: float) -> list[SharePodEffect]:
        record = self._records.get(key)
        if record is None:
            return []
        if record.is_empty:
            del self._records[key]
            return []
        before = record.due
        request = record.next_request(now)
        if request is not None:
            record.request, record.due = request, math.inf
            return [request]
        if record.due not in (math.inf, before):
            heapq.heappush(self._due, (record.due, key))
        return []

    def _record(self, key: PodKey) -> SharePodRecord:
        found = self._records.get(key)
        if found is None:
            found = self._records[key] = SharePodRecord(key=key)
        return found

    def _share_pod_gone(self, event: SharePodGone) -> None:
        record = self._records.get(event.key)
        known = record.share_pod if record is not None else None
        if record is not None and known is not None and known.uid == event.uid:
            record.share_pod, record.last = None, None

    def _list_share_pods(self, event: SharePodsListed) -> list[PodKey]:
        self._share_pods_listed = True
        present = {one.key for one in event.share_pods} | event.unreadable
        for key, record in self._records.items():
            if key not in present:
                record.share_pod, record.last = None, None
        for one in event.share_pods:
            self._record(one.key).take_share_pod(one)
        return [*self._records]

    def _pod_seen(self, pod: PodBehind) -> None:
        """Pods that no SharePod controls count only where a SharePod has their name."""
        if pod.owner or pod.key in self._records:
            self._record(pod.key).take_pod(pod)

    def _list_pods(self, event: PodsBehindListed) -> list[PodKey]:
        self._pods_listed = True
        present = {one.uid for one in event.pods} | event.unreadable
        for record in self._records.values():
            known = record.pod
            if known and known.uid not in present and record.found_at <= event.asked_at:
                record.lose_pod(known)
        for one in event.pods:
            self._pod_seen(one)
        return [*self._records]

    def _take_due(self, now: float) -> list[PodKey]:
        found: dict[PodKey, None] = {}
        while self._due and self._due[0][0] <= now:
            found[heapq.heappop(self._due)[1]] = None
        return [*found]

    def _answered(self, event: EffectAnswered, now: float) -> list[SharePodEffect]:
        record = self._records.get(key_of(event.request))
        if record is None or record.request != event.request:
            return []
        return answered(record, event.request, event.outcome, now)
