"""All that is known under one name: a SharePod, the pod behind it, and the request under way."""

import math
from dataclasses import dataclass, field, replace

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.sharepods.effects import SharePodRequest, WriteCardName, WriteStatus
from kubeshare_py.sharepods.events import RequestFailed
from kubeshare_py.sharepods.pod_behind import PodBehind, PodMirror, is_older
from kubeshare_py.sharepods.share_pod import SharePod
from kubeshare_py.sharepods.verdict import judge

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
