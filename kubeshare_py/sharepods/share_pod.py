"""A SharePod as the controller sees it: the pod that it wants, and the status that it shows."""

from dataclasses import dataclass, field
from enum import StrEnum

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.sharepods.pod_behind import (
    ENDED,
    NO_MIRROR,
    FieldHashes,
    PodMirror,
    SharePodUid,
)


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
