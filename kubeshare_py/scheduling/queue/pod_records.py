"""The machine's record of a pod, and what metrics count of pods: moves and attempts."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import Effect
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.scheduling.queue.pod_queue import SortKey

# The machine's record of a pod.


class PodState(Enum):
    """The state of a pod of this scheduler; pods of others are BOUND or have no record."""

    NEW = auto()  # just seen; it has another state before the event is handled
    GATED = auto()  # not tried: has scheduling gates, is malformed, unsupported, deleted, outside
    WAITING = auto()  # in the queue
    BACKOFF = auto()  # was refused; returns to the queue later
    DELEGATED = auto()  # kube-scheduler chooses its node, and asks for the rest
    PREBINDING = auto()  # placed and charged; a PreBind plugin waits for something in the cluster
    ASSUMED = auto()  # placed and charged, the binding is not answered yet
    UNCONFIRMED = auto()  # the API server has bound it, the watch has not shown it yet
    BOUND = auto()  # seen with a node

    # By identity: Enum's own hash is two calls in Python, and each pod is looked up by its state.
    __hash__ = object.__hash__


#: Pods without a place, which changes of the pod or its PodGroup concern.
UNDECIDED = (PodState.GATED, PodState.WAITING, PodState.BACKOFF, PodState.DELEGATED)


class PodProgress(NamedTuple):
    """How far a pod is, for the figures of the process.

    `is_assumed`: it is placed, and its binding is not answered yet. `queued_at` and `attempts` are
    those of its `Record`.
    """

    scheduler_name: str
    is_assumed: bool
    queued_at: float | None
    attempts: int


@dataclass(slots=True, eq=False)
class Record:
    """One pod.

    Which modules write a field is said in brackets; all may read it.
    """

    #: As the API server shows it (event_handlers, enqueue), with what its PodGroup says
    #: (gang_repair).
    pod: Pod
    #: How far it is (pod_table).
    state: PodState
    #: Its number in order of arrival, from 1: it decides between pods that were created in the
    #: same second. It never changes.
    arrived: int
    #: Its place in the queue (enqueue; gang_cycles: of a gang's members).
    key: SortKey = ()
    #: Where it is charged, and for which cards (pod_charges; external_changes, once the cards that
    #: it was bound with are known by name).
    node: NodeName | None = None
    allocation: Allocation | None = None
    #: When (s) its Binding was answered (pod_cycle).
    answered_at: float = 0.0
    #: How often it backed off (enqueue), and how often this Binding was sent again (pod_cycle).
    tries: int = 0
    #: It waits outside of the queue, because its namespace has reached the limit (enqueue).
    is_outside: bool = False
    #: Edits after the first wait for the end of a pause: how many were taken in without one that
    #: came late, and until when (s) the next one waits. `is_edited`: one waits (enqueue).
    edits: int = 0
    edits_rest_until: float = -math.inf
    is_edited: bool = False
    #: When it first joined the queue (s) (enqueue), and how many attempts it had, as the first of
    #: its shape queue or with its gang (pod_cycle, gang_cycles).
    queued_at: float | None = None
    attempts: int = 0
    #: For a gang's member: its binding was refused and is to be sent again (pod_cycle); it will not
    #: be sent again after the next refusal (gang_repair, pod_cycle).
    is_refused: bool = False
    last_try: bool = False
    #: Its eviction was decided: as a victim (nominations), or as a member of a gang (gang_repair).
    #: All three end with its placement (pod_cycle).
    evicted: bool = False
    #: The owners of its gang's members, which the gang keeps; None without a gang (gangs).
    gang_owners: Mapping[str, None] | None = None
    #: Its last placement had to wait for a PreBind plugin: another one needs a place among those
    #: that wait. `is_held`: it is gated until there is one (pre_bind).
    pre_binds: bool = False
    is_held: bool = False
    #: What its placement waits for, while it is PREBINDING (pre_bind, node_turns).
    waits_for: str = ""
    #: Its place was found because of the flush, and is not bound yet (pod_cycle; for members of a
    #: gang also retries and gang_cycles).
    flushed: bool = False
    #: How many preemption plans evicted others for it, and the remark once they are used up
    #: (preemptor_queue).
    plans: int = 0
    remark: str = ""
    #: Once its deletion is seen: when its grace period is over (s), and whether its containers
    #: ended in the course of it (external_changes).
    leaves_by: float | None = None
    stopped: bool = False
    #: The last report about this pod itself: `enqueue.report_waiting` sets it, and who reports
    #: something else or moves the pod on forgets it (enqueue, pod_cycle, pre_bind, extender_binds).
    reported: Diagnosis | None = None
    #: Its shape with its profile's additions: its share on each model if it asks for a share of a
    #: certain one, and its back-end (enqueue).
    asked: Shape | None = None
    #: The version of shapes for which that was found (enqueue).
    shape_version: int = 0
    #: Its shape if its gang leaves it no choice of models, in place of its own (gang_places;
    #: enqueue clears it).
    fixed: Shape | None = None

    @property
    def own_shape(self) -> Shape:
        """The pod's own shape."""
        return self.asked or self.pod.shape

    @property
    def shape(self) -> Shape:
        """The shape by which a place is searched and found."""
        return self.fixed or self.asked or self.pod.shape

    def progress(self) -> PodProgress:
        """How far the pod is."""
        is_assumed = self.state is PodState.ASSUMED
        return PodProgress(self.pod.scheduler_name, is_assumed, self.queued_at, self.attempts)


# Counts pods that entered a queue, by queue and event, for the metrics.
#
# Queues and events have kube-scheduler's names (pkg/scheduler/framework/events.go), except for
# readings of the card inventory, which it does not have.


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
    _counts: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def entered(self, queue: str, event: str, pods: int = 1) -> None:
        """Count `pods` more."""
        self._counts[queue, event] += pods

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


# Attempts to place pods: what one led to, and counts for the metrics by profile and result.


@dataclass(slots=True)
class Attempts:
    """Attempts so far, by profile.

    An attempt of a shape queue's first pod stands for the whole shape queue, because the pods
    behind it are not tried. `unschedulable`: it fits nowhere, or a plugin refuses it. `failed`: the
    API server refused the Binding or did not confirm it, each time. `scheduled`: the pod is bound.
    """

    scheduled: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unschedulable: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    #: Those of `failed` that were sent to the API server, of all profiles.
    failed_binds: int = 0
    #: Searches for victims.
    preemptions: int = 0
    #: Pods and gangs that have used up their plans.
    exhausted: int = 0
    #: Placements that ended because a PreBind plugin waited too long.
    pre_bind_timeouts: int = 0
    #: Pods bound after the flush of an unschedulable queue found their places.
    after_flush: int = 0


class Tried(NamedTuple):
    """One attempt of a gang or of a pod: how many pods it placed, and its effects in order."""

    placed: int = 0
    effects: Sequence[Effect] = ()


def count(tries: dict[str, int], profile: str) -> None:
    """Count one more."""
    tries[profile] = tries.get(profile, 0) + 1
