"""Everything the scheduler can want done."""

from dataclasses import dataclass
from enum import StrEnum

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.preemption import PreemptionPlan


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a pod and record what it holds, in one request.

    Sent again unchanged while the outcome is unknown. `stale_results` are result annotations to
    overwrite because the pod carries them already.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    allocation: Allocation
    stale_results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportWaiting:
    """Tell the pod's owner why it waits: condition PodScheduled=False and an event."""

    uid: PodUid
    key: PodKey
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class ReportScheduled:
    """Tell the pod's owner that it was bound: a Scheduled event."""

    uid: PodUid
    key: PodKey
    node: NodeName


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a bound pod, this very one, and say on it beforehand why.

    `reason` is a word for programs, `message` a sentence for people: its condition. `event` and
    `note` are those of the event that its owner gets; without a note it has the message.
    `on_behalf_of` is the namespace of the pods that get the place, "" where it is for none.
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
    """Say on a pod that waits which node and cards it gets once others have left.

    None for the node takes that back.
    """

    uid: PodUid
    key: PodKey
    node: NodeName | None
    cards: tuple[GpuUuid, ...] = ()


@dataclass(frozen=True, slots=True)
class Preempt:
    """A plan is being carried out, by the Nominates and Evicts that come with this: for the log."""

    uid: PodUid
    key: PodKey
    plan: PreemptionPlan


class Trouble(StrEnum):
    """What is wrong with a bound pod, mostly by others' doing; reasons of events."""

    NOT_OURS = "AllocationNotOurs"  # somebody else wrote it: it is charged as it says
    UNREADABLE = "AllocationUnreadable"  # what the pod holds is not charged
    CHANGED = "AllocationChanged"  # what was charged when it was bound stays charged
    MISMATCH = "GPUMismatch"  # its containers are told other cards than are charged
    UNKNOWN_CARDS = "GPUUnknown"  # some of the cards that it holds are not on its node
    MISSING = "GPUNotAllocated"  # it asks for cards and was bound without any
    INCOMPLETE = "GangIncomplete"  # too few members of its gang could be bound


@dataclass(frozen=True, slots=True)
class ReportTrouble:
    """Tell the owner of a bound pod what is wrong with it: a Warning event."""

    uid: PodUid
    key: PodKey
    trouble: Trouble
    note: str


class Overuse(StrEnum):
    """How something of a node is used or claimed more than it may be; reasons of events."""

    AMOUNT = "GPUOvercommitted"  # they hold more of a card than it has
    EXCLUSIVITY = "GPUExclusivityBroken"  # one has a card for itself, and others hold it too
    PORT = "PodManagerPortShared"  # they hold the same port of the node
    CLAIM = "GPUClaimedTwice"  # other nodes list its cards too, or pods of theirs hold them


@dataclass(frozen=True, slots=True)
class ReportOvercommit:
    """Tell a node's operators that pods use too much of it in one way, or no longer do.

    `uuid` is None for the cards that the kubelet hands out by itself, all together, for those that
    other nodes claim, all together, and where it is a matter of a pod-manager `port`.
    """

    node: NodeName
    uuid: GpuUuid | None
    is_over: bool
    note: str
    kind: Overuse = Overuse.AMOUNT
    port: int | None = None


@dataclass(frozen=True, slots=True)
class LogPluginFailure:
    """A plugin failed at an extension point, so often since that was logged last: for the log."""

    plugin: str
    extension_point: str
    message: str
    times: int


@dataclass(frozen=True, slots=True)
class Lingers:
    """A pod was deleted by force; its cards are held for so long (s) from now: for the log."""

    uid: PodUid
    key: PodKey
    node: NodeName
    cards: tuple[GpuUuid, ...]
    for_s: float


Report = ReportWaiting | ReportScheduled | ReportTrouble | ReportOvercommit
Effect = Bind | Evict | Nominate | Preempt | LogPluginFailure | Lingers | Report
