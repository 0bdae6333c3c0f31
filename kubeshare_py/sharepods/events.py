"""What the reconciler learns: objects as they are seen, and answers to its requests."""

from dataclasses import dataclass

from kubeshare_py.domain.events import TimePassed
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.sharepods.effects import SharePodRequest
from kubeshare_py.sharepods.pod_behind import PodBehind, SharePodUid
from kubeshare_py.sharepods.share_pod import SharePod


@dataclass(frozen=True, slots=True)
class SharePodSeen:
    """A SharePod was made or changed."""

    share_pod: SharePod


@dataclass(frozen=True, slots=True)
class SharePodGone:
    """A SharePod was deleted."""

    key: PodKey
    uid: SharePodUid


@dataclass(frozen=True, slots=True)
class SharePodsListed:
    """All SharePods; those that cannot be read stay as they are known."""

    share_pods: tuple[SharePod, ...]
    unreadable: frozenset[PodKey] = frozenset()


@dataclass(frozen=True, slots=True)
class PodBehindSeen:
    """A pod was made or changed: any pod of the cluster."""

    pod: PodBehind


@dataclass(frozen=True, slots=True)
class PodBehindGone:
    """A pod was deleted; `pod` is as it was at last."""

    pod: PodBehind


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsBehindListed:
    """All pods of the cluster, by a list that was asked for at `asked_at` (s, as `now`)."""

    pods: tuple[PodBehind, ...]
    asked_at: float
    unreadable: frozenset[PodUid] = frozenset()


@dataclass(frozen=True, slots=True)
class PodFound:
    """A pod was created or adopted, or another one has its name."""

    pod: PodBehind


@dataclass(frozen=True, slots=True)
class SharePodStored:
    """A SharePod as it is after a write to it."""

    share_pod: SharePod


@dataclass(frozen=True, slots=True)
class RequestDone:
    """It was done, or is not needed any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed:
    """It was refused, or not answered. `is_definite`: the API server refuses the object itself.

    `retry_after_s` is how long (s) the server asks to wait.
    """

    message: str
    is_definite: bool = False
    retry_after_s: float = 0.0


RequestOutcome = PodFound | SharePodStored | RequestDone | RequestFailed


@dataclass(frozen=True, slots=True)
class EffectAnswered:
    """A request was answered."""

    request: SharePodRequest
    outcome: RequestOutcome


SharePodEvent = (
    SharePodSeen
    | SharePodGone
    | SharePodsListed
    | PodBehindSeen
    | PodBehindGone
    | PodsBehindListed
    | EffectAnswered
    | TimePassed
)
