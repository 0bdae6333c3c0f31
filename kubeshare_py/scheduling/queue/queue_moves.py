"""Counts pods that entered a queue, by queue and event, for the metrics.

Queues and events have kube-scheduler's names (pkg/scheduler/framework/events.go), except for
readings of the card inventory, which it does not have.
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
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"
ASSIGNED_POD_DELETE = "AssignedPodDelete"
NODE_ADD, NODE_UPDATE = "NodeAdd", "NodeUpdate"
INVENTORY_READ = "InventoryRead"
POD_GROUP_CHANGED = "PodGroupUpdate"


@dataclass(slots=True)
class QueueMoves:
    """How many pods entered each queue, by event.

    Rows improve one by one and shape queues of pods are woken once per iteration: the cause of the
    last row's improvement stands for all of them (`improved_by`).
    """

    improved_by: str = NODE_ADD
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def entered(self, queue: str, event: str, pods: int = 1) -> None:
        """Count `pods` more."""
        key = (queue, event)
        self._counts[key] = self._counts.get(key, 0) + pods

    def woken(self, pods: int) -> None:
        """Count pods that are tried again because a row improved."""
        self.entered(ACTIVE, self.improved_by, pods)

    def counts(self) -> Iterator[tuple[tuple[str, str], int]]:
        """((queue, event), pods) in the order in which they first occurred."""
        yield from self._counts.items()


def update_event(old: Pod, new: Pod) -> str:
    """The event's name for a change of a waiting pod."""
    if old.gates and not new.gates:
        return GATES_ELIMINATED
    if old.shape.tolerations != new.shape.tolerations:
        return TOLERATION_ADDED
    return POD_UPDATE
