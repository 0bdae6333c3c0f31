"""Conditions of CustomResourceDefinitions."""

from dataclasses import dataclass

from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.times import timestamp


@dataclass(frozen=True, slots=True)
class CrdCondition:
    """A condition of a definition's status."""

    type: str
    status: bool
    reason: str
    message: str


NAMES_ACCEPTED = CrdCondition("NamesAccepted", True, "NoConflicts", "no conflicts found")
NOT_ACCEPTED = CrdCondition("Established", False, "NotAccepted", "not all names are accepted")
INSTALLING = CrdCondition(
    "Established", False, "Installing", "the initial names have been accepted"
)
ESTABLISHED = CrdCondition(
    "Established", True, "InitialNamesAccepted", "the initial names have been accepted"
)
DELETION_PENDING = CrdCondition(
    "Terminating",
    True,
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
DELETION_IN_PROGRESS = CrdCondition(
    "Terminating", True, "InstanceDeletionInProgress", "CustomResource deletion is in progress"
)
INSTANCES_GONE = CrdCondition(
    "Terminating", False, "InstanceDeletionCompleted", "removed all instances"
)


def is_true(definition: Json, kind: str) -> bool:
    """Whether a definition has that condition, with the status True."""
    return any(one["type"] == kind and one["status"] == "True" for one in _conditions(definition))


def with_conditions(definition: Json, now: float, *wanted: CrdCondition) -> Json:
    """A definition with these conditions; transition times are of changes of status only."""
    held = {one["type"]: one for one in _conditions(definition)}
    for condition in wanted:
        status = "True" if condition.status else "False"
        before = held.get(condition.type, {})
        same = before.get("status") == status
        held[condition.type] = {
            "type": condition.type,
            "status": status,
            "lastTransitionTime": before["lastTransitionTime"] if same else timestamp(now),
            "reason": condition.reason,
            "message": condition.message,
        }
    return {**definition, "status": {**definition["status"], "conditions": list(held.values())}}


def _conditions(definition: Json) -> list[Json]:
    return definition.get("status", {}).get("conditions") or []
