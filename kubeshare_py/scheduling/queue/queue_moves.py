"""Pods that entered a queue, counted by queue and by what made them enter it, for the metrics.

Queues and events have kube-scheduler's names (pkg/scheduler/framework/events.go), except that
nothing of its corresponds to a reading of the card inventory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kubeshare_py.domain.pod import Pod

ACTIVE, BACKOFF, UNSCHEDULABLE = "active", "backoff", "unschedulable"

POD_ADD = "UnschedulablePodAdd"
POD_UPDATE = "UnschedulablePodUpdate"
GATES_ELIMINATED = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
TOLERATION_ADDED = "UnschedulablePodUpdatePodToleration"
ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
FORCE_ACTIVATE = "ForceActivate"
ASSIGNED_POD_DELETE = "AssignedPodDelete"
NODE_ADD, NODE_UPDATE = "NodeAdd", "NodeUpdate"
INVENTORY_READ = "InventoryRead"
POD_GROUP_CHANGED = "PodGroupUpdate"


@dataclass(slots=True)
class QueueMoves:
    """How many pods entered which queue because of what.

    Rows improve one by one and lines of pods are woken once a turn: what improved the last row
    stands for all of them (`improved_by`).
    """

    improved_by: str = NODE_ADD
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def entered(self, queue: str, event: str, pods: int = 1) -> None:
        """So many pods more."""
        key = (queue, event)
        self._counts[key] = self._counts.get(key, 0) + pods

    def woken(self, pods: int) -> None:
        """So many pods are tried again because a row improved."""
        self.entered(ACTIVE, self.improved_by, pods)

    def counts(self) -> Iterator[tuple[tuple[str, str], int]]:
        """((queue, event), pods) in the order in which they first occurred."""
        yield from self._counts.items()


def update_event(old: Pod, new: Pod) -> str:
    """What a change of a waiting pod is called."""
    if old.gates and not new.gates:
        return GATES_ELIMINATED
    if old.shape.tolerations != new.shape.tolerations:
        return TOLERATION_ADDED
    return POD_UPDATE
