"""The scheduler's state as people see it: the values that the read-only endpoint serves.

Amounts are integers: shares in thousandths of a GPU, memory in bytes. The endpoint sends these
values as JSON objects with the same field names; readers ignore unknown fields.
"""

from dataclasses import dataclass, field

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.views.holding import (
    ContainerPartView,
    ContainerView,
    HoldingView,
    PlacementView,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView:
    """A pod's part of one card. `unheld`: parts (memory, time) that are not enforced.

    `dialect` is that of its request, "" if that is not known. `containers` are its containers'
    parts of this part, empty if all of them see the whole of it. `card_name` is the name that the
    card has for pods of its namespace, "" for none.
    """

    namespace: str
    name: str
    milli: int
    memory_bytes: int
    exclusive: bool = False
    dialect: str = ""
    card_name: str = ""
    unheld: tuple[str, ...] = ()
    containers: tuple[ContainerPartView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LingeringView:
    """A part of one card, held for `for_s` more seconds because its pod was deleted by force."""

    namespace: str
    name: str
    milli: int
    memory_bytes: int
    for_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendView:
    """Whether an isolation back-end has what it needs of a card; `ready` is None if unknown.

    `reason` is what is missing, as words that follow "it has".
    """

    backend: str
    ready: bool | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardNotReadyView:
    """Why a pod's isolation back-end is not ready on one of its cards; "" if unknown."""

    uuid: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardsNotReadyView:
    """Why a pod's isolation back-end is not ready on `cards` cards of a node; "" if unknown."""

    cards: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """One card. `known` is False for a card that pods hold and the inventory does not show.

    `capacity_milli` and `memory_bytes` are what pods may hold of it in all. Where `memory_scaling`
    (thousandths) is not 1000, that is its own memory times this; `capacity_milli` of an own 1000 is
    its share's. At most `max_tenants` pods may be on it; 0 is no limit.

    `cordoned`: an administrator keeps new pods off it.
    `unheld` are parts (memory, time) that are not enforced for some tenant. `reserved_milli`
    belong to the waiting pods `reserved_for`, and are not in use. `isolation` has the back-ends
    that pods here may use, without `none`. `claimed_by` are other nodes that list the card, or
    whose pods hold it: unless it counts here, it is not healthy. `lingering` are pods that were
    deleted by force, whose parts are in use until their grace periods are over.
    """

    uuid: str
    index: int = -1
    model: str = ""
    known: bool = True
    healthy: bool = True
    cordoned: bool = False
    memory_bytes: int = 0
    capacity_milli: int = 1000
    memory_scaling: int = 1000
    max_tenants: int = 0
    used_bytes: int = 0
    used_milli: int = 0
    reserved_milli: int = 0
    reserved_for: tuple[str, ...] = ()
    tenants: tuple[TenantView, ...] = ()
    unheld: tuple[str, ...] = ()
    isolation: tuple[BackendView, ...] = ()
    claimed_by: tuple[str, ...] = ()
    lingering: tuple[LingeringView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """How two cards reach each other: a word of `nvidia-smi topo -m`, "" if unknown.

    `bandwidth` is the best way's, which decisions use: MB/s, both directions summed; below 100 it
    only means that they are near.
    """

    uuid: str
    peer: str
    kind: str
    bandwidth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandView:
    """Cards of which every two have at least `bandwidth`; `intact` while all of them are idle."""

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
    """One node. `silent`: its collector does not answer, and its cards are the last known ones.

    `not_ready`: its kubelet does not say that it is ready, or says nothing.

    `native_gpus` are GPUs that the kubelet gave to pods and that no agent names: as many idle cards
    are held back. `topology` is set if it was requested and is known.
    """

    name: str
    address: str = ""
    known: bool = True
    unschedulable: bool = False
    not_ready: bool = False
    silent: bool = False
    native_gpus: int = 0
    cards: tuple[CardView, ...] = ()
    topology: TopologyView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod of this scheduler. `state` is one of docs/developers/internals.md.

    It asks for `count` cards of `milli` each, in thousandths of a card of the model `share_of` if
    that is set; `memory_bytes` is per card, or `memory_milli` thousandths of a card's memory; None
    for the share's part. `cards` are the uuids that
    it holds. `message` says why it waits. `isolation` is the back-end that enforces its share,
    `unheld` the parts that this does not enforce. `not_ready` are those of its cards on which the
    back-end is not known to work. `holds` is its part of each card; with `asks_for_other` its
    labels ask for something else. `card_name` is as that of a tenant.

    If its containers have claims of their own, `containers` says what each asks for and holds, and
    `relation` how their cards relate: `same card`, `different cards`, or "" if that does not
    matter. `count` is then the number of cards that they ask for, added up unless they are the same
    ones; where claims differ, `milli` and the memory are the largest, and `models` and
    `share_of` are empty.
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
    memory_milli: int | None = None
    models: tuple[str, ...] = ()
    share_of: str = ""
    node: str = ""
    cards: tuple[str, ...] = ()
    port: int | None = None
    message: str = ""
    isolation: str = ""
    unheld: tuple[str, ...] = ()
    not_ready: tuple[CardNotReadyView, ...] = ()
    holds: tuple[HoldingView, ...] = ()
    asks_for_other: bool = False
    containers: tuple[ContainerView, ...] = ()
    relation: str = ""
    card_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster at one instant. `overcommitted`: (node, uuid) of cards with free amounts below 0.

    `ready` is False until pods and nodes were listed. `inventory` is `read`, `unread`, or the
    message of the last failure.
    """

    scheduler: str
    ready: bool
    inventory: str
    nodes: tuple[NodeView, ...] = ()
    pods: tuple[PodView, ...] = ()
    overcommitted: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWhy:
    """A node's verdict on one pod: it fits, or the reasons with their numbers.

    `alike` are the further nodes with the same verdict, by name; on them other cards may lack what
    `shortfalls` says of cards of this node. In very large clusters of which no two nodes are alike,
    shortfalls are given for the nearest misses, and left out for the rest.
    `headroom`: how many members of the pod's gang this node alone would take now; None if the pod
    is not part of a waiting gang. `not_ready`: on how many of its cards the pod's isolation
    back-end is not ready, or unknown to be. `kept` are sentences about what preemption or a forced
    deletion keeps there for other pods. `scaled` says which cards' capacity is not their own size,
    as `card_scaling` words it.
    """

    name: str
    fits: bool
    alike: tuple[str, ...] = ()
    headroom: int | None = None
    reasons: tuple[str, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    not_ready: tuple[CardsNotReadyView, ...] = ()
    kept: tuple[str, ...] = ()
    scaled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimView:
    """A pod that would be evicted, and the cards that it holds.

    `answer` says why the API server did not evict it so far, "" if it was not asked or did.
    """

    namespace: str
    name: str
    node: str
    priority: int = 0
    cards: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NominatedPlaceView:
    """The place that a pod would get."""

    namespace: str
    name: str
    node: str
    cards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionView:
    """The victims of a plan, and its places. `leaving`: how many other pods leave anyhow.

    `in_flight`: it is being carried out. Otherwise `obstacle` says why it never will be, if so.
    `violations` is the number of victims beyond what their disruption budgets allow.
    """

    in_flight: bool = False
    obstacle: str = ""
    victims: tuple[VictimView, ...] = ()
    nominations: tuple[NominatedPlaceView, ...] = ()
    leaving: int = 0
    violations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyView:
    """Why a pod is where it is. `advice` are sentences about what would make it fit.

    `waits_for` says in words which cards it waits for and which pods hold them, "" if that is not
    all that it lacks.

    `ring` is set for pods that hold several cards, `placement` for pods with a node. `preemption`
    is the plan of evictions for it, None if they would not help. `indexes` are those of all cards
    named in it, by uuid.
    """

    pod: PodView
    message: str
    waits_for: str = ""
    nodes: tuple[NodeWhy, ...] = ()
    advice: tuple[str, ...] = ()
    ring: RingView | None = None
    preemption: PreemptionView | None = None
    placement: PlacementView | None = None
    indexes: dict[str, int] = field(default_factory=dict)
