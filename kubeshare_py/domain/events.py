"""Everything that can happen to the scheduler.

Any event is legal in any state, late ones included.
"""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from kubeshare_py.domain.cluster_objects import (
    Budget,
    GroupApi,
    NamespaceObject,
    ObjectKey,
    PodGroupObject,
    ReplicaSetObject,
    ReplicationControllerObject,
    ServiceObject,
    StatefulSetObject,
    WatchedKind,
)
from kubeshare_py.domain.device import DeviceClass, ResourceClaim, ResourceSlice
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.quota import QuotaObject
from kubeshare_py.domain.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    ObjectWrite,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class PodSeen(Struct, frozen=True):
    """A pod was added or changed; the whole pod as it is now."""

    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedMember:
    """What matters of a finished member of a group, until it is deleted.

    `group` is the group's name within the namespace; `owner` is that of a Pod, and `group_owners`
    those of its allocation.
    """

    uid: PodUid
    namespace: str
    group: str
    owner: str = ""
    succeeded: bool = False
    had_node: bool = True
    group_owners: tuple[str, ...] = ()


class PodGone(Struct, frozen=True):
    """A pod was deleted, or reached a terminal phase.

    `finished` is set in the latter case, if the pod was in a group. `stopped`: its containers have
    ended, as a terminal phase implies. A pod that was deleted without that may have been deleted by
    force, and its kubelet may let the containers run on.
    """

    uid: PodUid
    finished: FinishedMember | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All unfinished pods, by a consistent read that was requested at `asked_at` (s).

    `unreadable` are listed pods that could not be decoded: they are there, and what is known of
    them stays. `finished` are the finished members of groups, `stopped` all finished pods.

    A long list comes in several events. The first one names in `to_come` the pods of all others:
    what it does not name is gone. `more`: another event follows. `continues`: one came before.
    `unreadable`, `finished` and `stopped` come with the first and with the last one.
    """

    pods: tuple[Pod, ...]
    asked_at: float
    unreadable: frozenset[PodUid] = frozenset()
    finished: tuple[FinishedMember, ...] = ()
    stopped: frozenset[PodUid] = frozenset()
    to_come: frozenset[PodUid] = frozenset()
    continues: bool = False
    more: bool = False


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
    """All nodes, by a consistent read; a long list comes in several events.

    `unreadable` are listed nodes that could not be decoded; the last known state of each stays.
    `more`: only some of the listed nodes; the others follow with the next event. Nodes that no
    event of a list names are gone.
    """

    nodes: tuple[Node, ...]
    unreadable: frozenset[NodeName] = frozenset()
    more: bool = False


@dataclass(frozen=True, slots=True)
class InventoryRead:
    """The cards of the nodes whose cards changed; the first one makes the inventory known.

    `silent` names all nodes whose collector does not answer now; their last known cards stay.
    `more`: only some of the changed nodes; the others follow with the next event.
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
    """All PodGroups of an API; None: they cannot be read now, and the known ones stay.

    `problem` says why there may be none, as words that follow "PodGroups of this API"; "" if all is
    well. `unreadable` are the (namespace, name) of listed PodGroups that could not be decoded; the
    last known state of each stays.
    """

    api: GroupApi
    groups: tuple[PodGroupObject, ...] | None
    problem: str = ""
    unreadable: frozenset[tuple[str, str]] = frozenset()


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
    """All disruption budgets, by a consistent read.

    `unreadable` are listed budgets that could not be decoded; the last known state of each stays.
    """

    budgets: tuple[Budget, ...]
    unreadable: frozenset[PodKey] = frozenset()


#: Any of the objects that placement depends on besides pods and nodes.
AnyObject = (
    NamespaceObject
    | PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CsiNode
    | CsiDriver
    | CsiStorageCapacity
    | VolumeAttachment
    | DeviceClass
    | ResourceSlice
    | ResourceClaim
    | ServiceObject
    | ReplicationControllerObject
    | ReplicaSetObject
    | StatefulSetObject
    | QuotaObject
)


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """Such an object was added or changed."""

    object: AnyObject


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """Such an object was deleted."""

    kind: WatchedKind
    key: ObjectKey


@dataclass(frozen=True, slots=True)
class ObjectsListed:
    """All objects of a kind; None: they cannot be read now, and the known ones stay.

    `problem` says why there may be none, as words that follow the kind's name; "" if all is well.
    `unreadable` are listed objects that could not be decoded; the last known state of each stays.
    """

    kind: WatchedKind
    objects: tuple[AnyObject, ...] | None
    problem: str = ""
    unreadable: frozenset[ObjectKey] = frozenset()


class Refusal(StrEnum):
    """Why the API server definitely did not bind a pod."""

    GONE = "gone"  # no such pod, or another one under its name
    ASSIGNED = "assigned"  # another client bound it
    GATED = "gated"
    DELETING = "deleting"
    INVALID = "invalid"  # the request itself was wrong: nothing was stored
    DENIED = "denied"  # an admission policy or webhook does not let it pass
    FORBIDDEN = "forbidden"  # this scheduler may bind no pod there, whatever the node


#: Refusals that hold for one try alone: an earlier try of the same Binding may have been stored,
#: and a later one may be accepted.
OF_ONE_TRY = frozenset({Refusal.INVALID, Refusal.DENIED, Refusal.FORBIDDEN})


class Bound(Struct, frozen=True):
    """The API server stored the placement."""


@dataclass(frozen=True, slots=True)
class BindRefused:
    """The API server definitely did not store it."""

    refusal: Refusal
    message: str


@dataclass(frozen=True, slots=True)
class BindUnknown:
    """The outcome is unknown: a lost response, or one (429, 5xx) that leaves it open."""

    message: str
    #: Seconds that the server asked to wait before the next request.
    retry_after_s: float = 0.0


BindOutcome = Bound | BindRefused | BindUnknown


class BindAnswered(Struct, frozen=True):
    """A Bind effect has an outcome."""

    uid: PodUid
    token: DecisionToken
    outcome: BindOutcome


@dataclass(frozen=True, slots=True)
class BindAsked:
    """kube-scheduler has chosen a node for a pod, and asks its extender to bind it there."""

    uid: PodUid
    key: PodKey
    node: NodeName


class WriteOutcome(StrEnum):
    """What became of a write to an object."""

    DONE = "done"
    STALE = "stale"  # the object has another version by now: nothing was stored
    REFUSED = "refused"  # definitely not stored, for another reason
    UNKNOWN = "unknown"  # a lost response, or one (429, 5xx, 403) that leaves it open


@dataclass(frozen=True, slots=True)
class ObjectWritten:
    """A WriteObject effect has an outcome; `message` says why it was not performed.

    `retry_after_s` are the seconds that the server asked to wait before the next request.
    """

    uid: PodUid
    token: DecisionToken
    write: ObjectWrite
    outcome: WriteOutcome
    message: str = ""
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class EvictionFailed:
    """An Evict effect was refused, or its outcome is unknown; `answer` says why."""

    uid: PodUid
    answer: str


class BindSlotsFree(Struct, frozen=True):
    """Decide now: at most `slots` more bindings may be sent, and no more than MAX_UNANSWERED."""

    slots: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Only time has passed."""


ClusterEvent = NodeSeen | NodeGone | NodesListed | InventoryRead | InventoryFailed
BudgetEvent = BudgetSeen | BudgetGone | BudgetsListed
PodEvent = PodSeen | PodGone | PodsListed
PodGroupEvent = PodGroupSeen | PodGroupGone | PodGroupsListed
ObjectEvent = ObjectSeen | ObjectGone | ObjectsListed

Event = (
    PodEvent
    | PodGroupEvent
    | ClusterEvent
    | BudgetEvent
    | ObjectEvent
    | BindAsked
    | BindAnswered
    | ObjectWritten
    | EvictionFailed
    | BindSlotsFree
    | TimePassed
)
