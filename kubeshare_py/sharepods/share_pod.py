"""A SharePod as the controller sees it: the pod that it wants, and the status that it shows."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from kubeshare_py.domain.identity import PodKey, PodUid

# The pod behind a SharePod, which has its namespace and name, as the controller needs it.


SharePodUid = NewType("SharePodUid", str)
#: The name of each field of a pod's template with a hash of its value, sorted by name.
FieldHashes = tuple[tuple[str, str], ...]

ENDED = ("Succeeded", "Failed")
_NO_POD, _NO_OWNER = PodUid(""), SharePodUid("")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMirror:
    """What a SharePod shows of its pod.

    `status` and `metadata` are the pod's, as JSON with sorted keys; b"" if there was no pod yet.
    `device` is the card's uuid, `port` that of the pod's manager, 0 for none. `is_cut`: the pod has
    more than can be shown.
    """

    pod_uid: PodUid = _NO_POD
    phase: str = ""
    status: bytes = b""
    metadata: bytes = b""
    device: str = ""
    port: int = 0
    node: str = ""
    # Not in what the SharePod shows, with which this is compared.
    is_cut: bool = field(default=False, compare=False)


NO_MIRROR = PodMirror()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBehind:
    """A pod by the name of a SharePod; of a pod of others only its identity counts.

    `owner` is the SharePod that controls it, "" if none does. `version` is its resourceVersion.
    `field_hashes` are those of the template that it was made from, empty if it does not say. It
    `is_marked` if it was once made by this controller. `card_name` names its virtual GPU.
    """

    key: PodKey
    uid: PodUid
    version: str = ""
    owner: SharePodUid = _NO_OWNER
    has_controller: bool = False
    is_marked: bool = False
    is_deleting: bool = False
    field_hashes: FieldHashes = ()
    card_name: str = ""
    mirror: PodMirror = NO_MIRROR

    @property
    def is_bound(self) -> bool:
        """Whether the pod has a node."""
        return bool(self.mirror.node)


def is_older(version: str, known: str) -> bool:
    """Whether a resourceVersion is older than a known one of the same object.

    They are growing numbers (KEP-5504); what is no number is taken as newer.
    """
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)


class ConditionType(StrEnum):
    """The conditions of a SharePod."""

    SYNCED = "Synced"
    EDITS_IGNORED = "EditsIgnored"


class SharePodReason(StrEnum):
    """Reasons of conditions and events; the first three are KubeShare 1.0's."""

    SYNCED = "Synced"
    VALUE_ERROR = "ErrValueError"
    RESOURCE_EXISTS = "ErrResourceExists"
    POD_REFUSED = "ErrPodRefused"
    FORMER_POD = "FormerPod"
    EDITS_IGNORED = "EditsIgnored"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePodCondition:
    """A condition; `since` is its lastTransitionTime as it is shown, "" for a new one."""

    type: ConditionType
    is_true: bool
    reason: str
    message: str
    since: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePodStatus:
    """A SharePod's status: its pod's, and the conditions, each type once."""

    mirror: PodMirror = NO_MIRROR
    conditions: tuple[SharePodCondition, ...] = ()

    def condition(self, wanted: ConditionType) -> SharePodCondition | None:
        """The condition of this type, if there is one."""
        return next((one for one in self.conditions if one.type is wanted), None)


NO_STATUS = SharePodStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePodTemplate:
    """The pod to create, as JSON, and the hashes of its fields, which an annotation says.

    Both are empty for a SharePod that is too long to make a pod from: it has a `problem`.
    """

    manifest: bytes
    field_hashes: FieldHashes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePod:
    """A SharePod.

    `problem` says which of its values cannot be understood, "" if all can. `card_name` is the
    virtual GPU of its annotation, `assigned_card_name` the one that the scheduler chose: if they
    differ, the user chose.
    """

    key: PodKey
    uid: SharePodUid
    version: str
    template: SharePodTemplate
    is_deleting: bool = False
    problem: str = ""
    restart_policy: str = "Always"
    card_name: str = ""
    assigned_card_name: str = ""
    status: SharePodStatus = NO_STATUS

    @property
    def chooses_card_name(self) -> bool:
        """Whether its user named the virtual GPU."""
        return self.card_name != self.assigned_card_name and bool(self.card_name)

    def is_finished(self, phase: str) -> bool:
        """Whether a pod that ended in this phase has done all that the SharePod wants.

        Such a pod is not created again when it is deleted, as in KubeShare 1.0
        (pkg/devicemanager/controller.go of release-1.0).
        """
        if self.restart_policy == "OnFailure":
            return phase == "Succeeded"
        return self.restart_policy == "Never" and phase in ENDED
