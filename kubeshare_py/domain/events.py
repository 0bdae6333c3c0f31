"""Everything that can happen to the scheduler.

Any event is legal in any state, late ones included.
"""

from dataclasses import dataclass
from enum import StrEnum

from kubeshare_py.domain.budget import Budget
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.group_objects import GroupApi, PodGroupObject
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was added or changed; the whole pod as it is now."""

    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedMember:
    """What counts of a pod that was in a group and is over, for as long as it is not deleted.

    `group` is the group's name within the namespace; `owner` as a Pod's.
    """

    uid: PodUid
    namespace: str
    group: str
    owner: str = ""
    succeeded: bool = False
    had_node: bool = True


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod was deleted, or reached a terminal phase.

    `finished` is what is left of it in the latter case, if it was in a group. `stopped`: its
    containers have ended, as a terminal phase says. A pod that was deleted without that may have
    been deleted by force: a kubelet may let its containers run on.
    """

    uid: PodUid
    finished: FinishedMember | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All unfinished pods, by a consistent read that was asked for at `asked_at`.

    `unreadable` are listed pods that could not be understood at all: they are there, and whatever
    was known of them stays. `finished` is what is left of pods that were in groups and are over,
    `stopped` are all pods that are over.
    """

    pods: tuple[Pod, ...]
    asked_at: float
    unreadable: frozenset[PodUid] = frozenset()
    finished: tuple[FinishedMember, ...] = ()
    stopped: frozenset[PodUid] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class NodesListed:
    """All nodes, by a consistent read."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class InventoryRead:
    """Cards of the nodes whose cards changed; the first one says that the inventory is known.

    `silent` names all nodes whose collector does not answer now; their last known cards stay.
    `more`: only some of the changed nodes; the others and all else follow with the next one.
    """

    changed: tuple[tuple[NodeName, tuple[Gpu, ...]], ...]
    silent: tuple[NodeName, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class InventoryFailed:
    """The inventory could not be read; the last known one stays."""

    message: str


@dataclass(frozen=True, slots=True)
class PodGroupSeen:
    """A PodGroup was added or changed."""

    group: PodGroupObject


@dataclass(frozen=True, slots=True)
class PodGroupGone:
    """A PodGroup was deleted."""

    api: GroupApi
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class PodGroupsListed:
    """All PodGroups of an API; None: they cannot be read now, and what was known stays.

    `trouble` says why there may be none, in words that follow "PodGroups of this API"; "" if all
    is well.
    """

    api: GroupApi
    groups: tuple[PodGroupObject, ...] | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    """A disruption budget was added or changed."""

    budget: Budget


@dataclass(frozen=True, slots=True)
class BudgetGone:
    """A disruption budget was deleted."""

    key: PodKey


@dataclass(frozen=True, slots=True)
class BudgetsListed:
    """All disruption budgets, by a consistent read."""

    budgets: tuple[Budget, ...]


class Refusal(StrEnum):
    """Why the API server definitely did not bind a pod."""

    GONE = "gone"  # no such pod, or another one under its name
    ASSIGNED = "assigned"  # somebody else bound it
    GATED = "gated"
    DELETING = "deleting"
    INVALID = "invalid"  # the request itself was wrong: nothing was stored


@dataclass(frozen=True, slots=True)
class Bound:
    """The API server stored the placement."""


@dataclass(frozen=True, slots=True)
class BindRefused:
    """The API server definitely did not store it."""

    refusal: Refusal
    message: str


@dataclass(frozen=True, slots=True)
class BindUnknown:
    """Nobody knows: a lost response, or one (429, 5xx, 403) that says nothing of earlier tries."""

    message: str
    #: The server asked not to be bothered for so long.
    retry_after_s: float = 0.0


BindOutcome = Bound | BindRefused | BindUnknown


@dataclass(frozen=True, slots=True)
class BindAnswered:
    """A Bind effect came to an end, one way or another."""

    uid: PodUid
    token: DecisionToken
    outcome: BindOutcome


@dataclass(frozen=True, slots=True)
class BindSlotsFree:
    """At most `slots` more bindings may be sent now."""

    slots: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing happened; time did."""


ClusterEvent = NodeSeen | NodeGone | NodesListed | InventoryRead | InventoryFailed
BudgetEvent = BudgetSeen | BudgetGone | BudgetsListed
PodEvent = PodSeen | PodGone | PodsListed
PodGroupEvent = PodGroupSeen | PodGroupGone | PodGroupsListed

Event = (
    PodEvent
    | PodGroupEvent
    | ClusterEvent
    | BudgetEvent
    | BindAnswered
    | BindSlotsFree
    | TimePassed
)
