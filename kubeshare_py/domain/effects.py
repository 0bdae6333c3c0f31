"""Everything that the scheduler may request of its environment."""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import NodeAtDecision
from kubeshare_py.domain.storage import ObjectWrite

# The plan of a preemption: the preemptor, its places, and the victims.


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """One pod, or the members of a gang, ranked by the lowest of them.

    `guarantee`: all of them have a `sharedgpu/priority` above 0. `name` is the pod's or the gang's.
    """

    namespace: str
    name: str
    priority: int = 0
    guarantee: bool = False
    is_gang: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod to be evicted, and what it holds."""

    uid: PodUid
    key: PodKey
    node: NodeName
    priority: int = 0
    cards: tuple[GpuUuid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NominatedPlace:
    """The place that a pod gets once the victims have left."""

    uid: PodUid
    key: PodKey
    node: NodeName
    cards: tuple[GpuUuid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPlan:
    """Places for a pod, or for all members that a gang needs, and the victims.

    `victims` are to be evicted, the most important first; `awaited` leave anyhow. `violations` is
    the number of victims beyond what their PodDisruptionBudgets allow.
    """

    preemptor: Preemptor
    nominations: tuple[NominatedPlace, ...]
    victims: tuple[Victim, ...] = ()
    awaited: tuple[PodUid, ...] = ()
    violations: int = 0

    @property
    def makes_room(self) -> bool:
        """Whether any pod must leave before the places are free."""
        return bool(self.victims or self.awaited)


class Bind(Struct, frozen=True):
    """Bind a pod and record what it holds, in one request.

    It is sent again unchanged while the outcome is unknown. `stale_results` are result annotations
    to overwrite, because the pod carries them already. `decided` is what the node had at the first
    time, for annotations of the pod's dialect. `in_doubt_since` is when (s) an earlier try was last
    answered in a way that leaves open whether it was stored; None if there is no such try.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    allocation: Allocation
    stale_results: tuple[str, ...] = ()
    decided: NodeAtDecision = NodeAtDecision()
    in_doubt_since: float | None = None

    def __eq__(self, other: object) -> bool:
        """Whether both are the same Binding, whenever each is sent."""
        return isinstance(other, Bind) and self._sent == other._sent

    def __hash__(self) -> int:
        return hash(self._sent)

    @property
    def _sent(self) -> tuple[object, ...]:
        held, stale = self.allocation, self.stale_results
        return self.uid, self.key, self.node, held, stale, self.decided


@dataclass(frozen=True, slots=True)
class WriteObject:
    """Write to an object before a pod is bound, and answer with ObjectWritten.

    It is sent again unchanged while the outcome is unknown.
    """

    uid: PodUid
    key: PodKey
    token: DecisionToken
    write: ObjectWrite


@dataclass(frozen=True, slots=True)
class ReportWaiting:
    """Report why the pod waits: condition PodScheduled=False and an event."""

    uid: PodUid
    key: PodKey
    diagnosis: Diagnosis


class ReportScheduled(Struct, frozen=True):
    """Report that the pod was bound: a Scheduled event.

    `allocation` is what it holds, and `cards` are those that its node had when it was placed.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    allocation: Allocation | None = None
    cards: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a bound pod, by its uid, after a condition on it says why.

    `reason` is the condition's word for programs, `message` its sentence for people. `event` and
    `note` are those of the event for its owner; without a note it has the message. `on_behalf_of`
    is the namespace of the pods that get the place, "" if there are none.
    """

    uid: PodUid
    key: PodKey
    reason: str
    message: str
    event: str
    note: str = ""
    on_behalf_of: str = ""


@dataclass(frozen=True, slots=True)
class Nominate:
    """Nominate a waiting pod: the node and cards that it gets once other pods have left.

    None for the node clears the nomination.
    """

    uid: PodUid
    key: PodKey
    node: NodeName | None
    cards: tuple[GpuUuid, ...] = ()


@dataclass(frozen=True, slots=True)
class Preempt:
    """A plan is carried out by the Nominates and Evicts that follow: for the log, and an event.

    The pod is the preemptor, or the first of a gang.
    """

    uid: PodUid
    key: PodKey
    plan: PreemptionPlan


@dataclass(frozen=True, slots=True)
class AnswerBind:
    """Tell kube-scheduler what became of a pod that it asked to bind (`events.BindAsked`).

    `problem` is a sentence for the pod's owner, "" if the pod is bound to the node.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    problem: str = ""


class PodWarning(StrEnum):
    """A problem of a pod, mostly caused by other clients; reasons of events."""

    NOT_OURS = "AllocationNotOurs"  # another client wrote it: it is charged as it says
    UNREADABLE = "AllocationUnreadable"  # what the pod holds is not charged
    CHANGED = "AllocationChanged"  # what was charged when it was bound stays charged
    MISMATCH = "GPUMismatch"  # its containers' variables name other cards
    DIFFERENCE = "AllocationDiffers"  # its annotations and its spec: the larger is charged
    UNKNOWN_CARDS = "GPUUnknown"  # some of the cards that it holds are not on its node
    MISSING = "GPUNotAllocated"  # it asks for cards and was bound without any
    INCOMPLETE = "GangIncomplete"  # too few members of its gang could be bound
    SAME_GROUP = "PodGroupRunsAgain"  # pods of another owner use its group's name at the same time
    NO_SCHEDULER = "NoScheduler"  # it asks in a dialect, and names a scheduler that is not there
    UNLIKELY = "LabelsUnlikely"  # its labels can be read, and are hardly meant so


@dataclass(frozen=True, slots=True)
class ReportPodWarning:
    """Report a problem of a pod to its owner: a Warning event."""

    uid: PodUid
    key: PodKey
    warning: PodWarning
    note: str


class Overuse(StrEnum):
    """A way in which a node's parts are overused, or reported wrongly; reasons of events."""

    AMOUNT = "GPUOvercommitted"  # pods hold more of a card than it has
    EXCLUSIVITY = "GPUExclusivityBroken"  # a card is exclusive to one pod, and others hold it too
    PORT = "PodManagerPortShared"  # pods hold the same port of the node
    CLAIM = "GPUClaimedTwice"  # other nodes list its cards too, or pods of theirs hold them
    AGENT = "NodeAgentUnusable"  # its agent's annotation cannot be used, or names others' cards


@dataclass(frozen=True, slots=True)
class ReportOvercommit:
    """Report to a node's operators that pods overuse part of it, or no longer do.

    `uuid` is None for all cards that the kubelet gives out, for all cards that other nodes claim,
    for the words of the node's agent, and for a pod-manager `port`.
    """

    node: NodeName
    uuid: GpuUuid | None
    is_over: bool
    note: str
    kind: Overuse = Overuse.AMOUNT
    port: int | None = None


class CardChange(StrEnum):
    """What became of a card; reasons of events."""

    FAILED = "GPUUnhealthy"
    RECOVERED = "GPUHealthy"
    VANISHED = "GPUVanished"  # its node does not list it any more
    RETURNED = "GPUReturned"  # its node lists it again


@dataclass(frozen=True, slots=True)
class ReportCardChange:
    """Report what became of a card, to its node's operators and to owners of pods that hold it.

    `card` names it in a sentence. `pods` are those that hold part of it, by namespace and name.
    """

    node: NodeName
    uuid: GpuUuid
    change: CardChange
    card: str
    pods: tuple[tuple[PodKey, PodUid], ...] = ()


@dataclass(frozen=True, slots=True)
class LogPluginFailure:
    """How often a plugin failed in this way since the last log line: for the log.

    `traceback` has a line for each frame of its exception; it is empty for a wrong answer.
    """

    plugin: str
    extension_point: str
    message: str
    times: int
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Lingers:
    """A pod was deleted by force; its cards are held for `for_s` (s) from now: for the log."""

    uid: PodUid
    key: PodKey
    node: NodeName
    cards: tuple[GpuUuid, ...]
    for_s: float


ReportEffect = (
    ReportWaiting | ReportScheduled | ReportPodWarning | ReportOvercommit | ReportCardChange
)
Effect = (
    Bind
    | WriteObject
    | Evict
    | Nominate
    | Preempt
    | AnswerBind
    | LogPluginFailure
    | Lingers
    | ReportEffect
)
