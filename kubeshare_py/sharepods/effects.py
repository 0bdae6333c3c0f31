"""What the reconciler wants done: at most one request for each SharePod at a time."""

from dataclasses import dataclass

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.sharepods.pod_behind import SharePodUid
from kubeshare_py.sharepods.share_pod import SharePod, SharePodStatus


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
