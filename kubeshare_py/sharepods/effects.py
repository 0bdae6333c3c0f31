"""What the reconciler wants done: at most one request for each SharePod at a time."""

from dataclasses import dataclass

from kubeshare_py.domain.events import TimePassed
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.sharepods.share_pod import PodBehind, SharePod, SharePodStatus, SharePodUid


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pod of a SharePod. If its name is taken, look by which pod."""

    share_pod: SharePod


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod if it has this uid and, unless it is "", this resourceVersion.

    `owner` is the SharePod on whose behalf.
    """

    key: PodKey
    owner: SharePodUid
    uid: PodUid
    version: str = ""


@dataclass(frozen=True, slots=True)
class AdoptPod:
    """Make a SharePod the controller of a pod that has none."""

    share_pod: SharePod
    uid: PodUid


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the status of a SharePod, as long as it has this uid."""

    share_pod: SharePod
    status: SharePodStatus


@dataclass(frozen=True, slots=True)
class WriteCardName:
    """Say in a SharePod's annotations which virtual GPU the scheduler chose; "" takes them away."""

    share_pod: SharePod
    card_name: str


@dataclass(frozen=True, slots=True)
class ReportSharePod:
    """Write an event about a SharePod; it has no answer."""

    key: PodKey
    uid: SharePodUid
    reason: str
    note: str


#: Those that are answered with EffectAnswered.
SharePodRequest = CreatePod | DeletePod | AdoptPod | WriteStatus | WriteCardName
SharePodEffect = SharePodRequest | ReportSharePod


# What the reconciler learns: objects as they are seen, and answers to its requests.


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
    """A request was performed, or is not needed any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed:
    """A request was refused or not answered. `is_definite`: the API server refuses the object.

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
