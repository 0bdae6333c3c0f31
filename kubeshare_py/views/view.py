"""The scheduler's state as people look at it: what the read-only endpoint serves.

Amounts are integers: shares in thousandths of a GPU, memory in bytes. The endpoint sends these
values as JSON objects with the same field names; readers ignore fields that they do not know.
"""

from dataclasses import dataclass, field

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.views.holding import HoldingView, PlacementView


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A pod's part of one card. `unheld`: parts (memory, time) that nothing holds it to."""

    namespace: str
    name: str
    milli: int
    memory_bytes: int
    exclusive: bool = False
    unheld: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LingeringView:
    """A part of one card that is held for `for_s` more seconds: its pod was deleted by force."""

    namespace: str
    name: str
    milli: int
    memory_bytes: int
    for_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendView:
    """Whether an isolation back-end has what it needs of a card: `ready`, None if nobody tells.

    `lack` is what is missing, in words that go after "it has".
    """

    backend: str
    ready: bool | None = None
    lack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LackView:
    """What a pod's isolation back-end lacks on one of its cards; "" where nobody tells."""

    uuid: str
    lack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LacksView:
    """On so many cards of a node a pod's isolation back-end lacks this; "": nobody tells."""

    cards: int
    lack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """One card. `known` is False for a card that pods hold and the inventory does not show.

    `unheld` are parts (memory, time) of which nothing holds some tenant to its own.
    `earmarked_milli` of it belong to those who wait, `earmarked_for`; that is not in use.
    `isolation` has the back-ends that pods here may use, but for `none`. `claimed_by` are other
    nodes that list the card, or whose pods hold it: unless it counts here it is not healthy.
    `lingering` are pods that were deleted by force, whose parts are held, and in use, until their
    grace periods are over.
    """

    uuid: str
    index: int = -1
    model: str = ""
    known: bool = True
    healthy: bool = True
    memory_bytes: int = 0
    used_bytes: int = 0
    used_milli: int = 0
    earmarked_milli: int = 0
    earmarked_for: tuple[str, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    unheld: tuple[str, ...] = ()
    isolation: tuple[BackendView, ...] = ()
    claimed_by: tuple[str, ...] = ()
    lingering: tuple[LingeringView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """How two cards reach each other: a word of `nvidia-smi topo -m`, "" where nobody says.

    `bandwidth` is what decisions count, by the best way: MB/s, both directions summed; below 100
    it only says that they are near.
    """

    uuid: str
    peer: str
    kind: str
    bandwidth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandView:
    """Cards each two of which have at least `bandwidth`; `intact` while all of them are idle."""

    bandwidth: int
    cards: tuple[str, ...]
    intact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyView:
    """How the cards of a node are joined; each pair once, islands from the widest on."""

    cards: tuple[str, ...]
    numa_nodes: tuple[int | None, ...]
    links: tuple[LinkView, ...]
    islands: tuple[IslandView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RingView:
    """How the cards of one pod are joined; `slowest_hop` is that of their best ring, in MB/s."""

    slowest_hop: int
    links: tuple[LinkView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node. `silent`: its collector does not answer, the cards are the last known ones.

    `native_gpus` are GPUs of pods that the kubelet gave cards to by itself: as many idle cards are
    held back. `topology` is there only where it was asked for and is known.
    """

    name: str
    address: str = ""
    known: bool = True
    unschedulable: bool = False
    silent: bool = False
    native_gpus: int = 0
    cards: tuple[CardView, ...] = ()
    topology: TopologyView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod of ours. `state`: held, waiting, backoff, binding, assumed or bound.

    `count` cards of `milli` each are asked for, thousandths of a card of the model `share_of` where
    that is set; `memory_bytes` is per card, None for the share's part. `cards` are the uuids that
    it holds. `message` says why it waits.
    `isolation` is what is to hold it to its share, `unheld` the parts that this does not hold.
    `lacks` are those of its cards on which that is not known to work, or known not to.
    `holds` is what it has of each card; with `asks_for_other` its labels ask for something else.
    """

    namespace: str
    name: str
    uid: str
    state: str
    profile: str = ""
    priority: int = 0
    label_priority: int = 0
    created: str = ""
    count: int = 0
    milli: int = 0
    memory_bytes: int | None = None
    models: tuple[str, ...] = ()
    share_of: str = ""
    node: str = ""
    cards: tuple[str, ...] = ()
    port: int | None = None
    message: str = ""
    isolation: str = ""
    unheld: tuple[str, ...] = ()
    lacks: tuple[LackView, ...] = ()
    holds: tuple[HoldingView, ...] = ()
    asks_for_other: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Everything at one instant. `overcommitted`: (node, uuid) with less than nothing free.

    `ready` is False until pods and nodes were listed. `inventory` says how the card inventory
    stands: `read`, `unread`, or the message of the last failure.
    """

    scheduler: str
    ready: bool
    inventory: str
    nodes: tuple[NodeView, ...] = ()
    pods: tuple[PodView, ...] = ()
    overcommitted: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWhy:
    """What one node says to one pod: it fits, or the reasons, and the numbers behind them.

    `lacks`: on how many of its cards the pod's isolation back-end does not work, or may not.
    `kept` are sentences: what preemption, or a forced deletion, keeps there for others. `room`: how
    many members of the pod's gang it would take now by itself, None if the pod waits for no others.
    """

    name: str
    fits: bool
    room: int | None = None
    reasons: tuple[str, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    lacks: tuple[LacksView, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimView:
    """A pod that would be evicted, and the cards that it holds."""

    namespace: str
    name: str
    node: str
    priority: int = 0
    cards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatView:
    """The place that a pod would get."""

    namespace: str
    name: str
    node: str
    cards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionView:
    """Who would be evicted, and for which places. `leaving`: so many others leave anyhow.

    `under_way`: it is being carried out. Else `obstacle` says why not, if it never will be.
    `violations`: so many of the victims are beyond what their disruption budgets allow.
    """

    under_way: bool = False
    obstacle: str = ""
    victims: tuple[VictimView, ...] = ()
    seats: tuple[SeatView, ...] = ()
    leaving: int = 0
    violations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyView:
    """Why a pod is where it is. `advice` are sentences: what would make it fit.

    `ring` is there for pods that hold several cards, `placement` for pods with a node.
    `preemption` is what evictions would do for it, None where they would not help.
    `indexes` are those of the cards that are named anywhere in it, by uuid.
    """

    pod: PodView
    message: str
    nodes: tuple[NodeWhy, ...] = ()
    advice: tuple[str, ...] = ()
    ring: RingView | None = None
    preemption: PreemptionView | None = None
    placement: PlacementView | None = None
    indexes: dict[str, int] = field(default_factory=dict)
