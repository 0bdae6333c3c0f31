"""What the machine remembers of a pod."""

import math
from dataclasses import dataclass
from enum import Enum, auto

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.scheduling.queue.pod_queue import SortKey


class State(Enum):
    """Where a pod of ours is on its way; pods of others are BOUND or not remembered at all."""

    NEW = auto()  # just seen; it has another state before the event is handled
    HELD = auto()  # not to be tried: gated, malformed, unsupported, being deleted, outside
    WAITING = auto()  # in the queue
    BACKOFF = auto()  # was refused; goes back to the queue later
    BINDING = auto()  # placed and charged, the binding is not answered yet
    ASSUMED = auto()  # the API server said it is bound, the watch has not shown it yet
    BOUND = auto()  # seen with a node


#: Pods without a place that a change of them, or of their PodGroup, concerns.
UNDECIDED = (State.HELD, State.WAITING, State.BACKOFF)


@dataclass(slots=True, eq=False)
class Record:
    """One pod. `allocation` and `node` are set from BINDING on."""

    pod: Pod
    state: State
    #: Its number in the order in which this process heard of pods; see `arrivals`.
    arrived: int
    key: SortKey = ()
    node: NodeName | None = None
    allocation: Allocation | None = None
    answered_at: float = 0.0
    tries: int = 0
    #: It waits outside of the queue, because so many of its namespace wait: see `waiting_limit`.
    is_outside: bool = False
    #: Edits after the first wait for the end of a pause: how many were taken in without one that
    #: came late, and until when the next waits (s). `is_edited`: one waits.
    edits: int = 0
    edits_rest_until: float = -math.inf
    is_edited: bool = False
    #: When it first joined the queue (s), and how often it was tried as the first of its line.
    queued_at: float | None = None
    attempts: int = 0
    #: Of a gang's member: its binding was refused and is to be sent again; once more it will not be
    #: sent again; it is to be deleted.
    refused: bool = False
    last_try: bool = False
    evicted: bool = False
    #: How many plans of preemption evicted others for it, and what to say of it if there were too
    #: many.
    plans: int = 0
    remark: str = ""
    #: Once its deletion is seen: when its grace period is over (s); and whether its containers were
    #: seen to have ended in the course of it.
    leaves_by: float | None = None
    stopped: bool = False
    #: What its owner was last told, if the pod itself is the reason that it waits.
    told: Diagnosis | None = None
    #: Its own shape as its profile understands it, where that says more: what the share is of each
    #: model, if it asks for a share of a certain one; which back-end is to hold it.
    asked: Shape | None = None
    #: What it asks for where its gang leaves it no choice of models, in place of its own shape.
    fixed: Shape | None = None

    @property
    def own_shape(self) -> Shape:
        """What the pod itself asks for."""
        return self.asked or self.pod.shape

    @property
    def shape(self) -> Shape:
        """What a place is looked for, and found, by."""
        return self.fixed or self.own_shape
