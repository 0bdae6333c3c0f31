"""The scheduler's state as people see it: the values that the read-only endpoint serves.

Amounts are integers: shares in thousandths of a GPU, memory in bytes. The endpoint sends these
values as JSON objects with the same field names; readers ignore unknown fields.
"""

import msgspec

from kubeshare_py.domain.diagnosis import Shortfall

# What a pod holds, as people see it: amounts of its cards, its neighbours, why it is there.


class HoldingView(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's part of one card: milli and bytes; `index` -1: not in the inventory."""

    uuid: str
    index: int = -1
    model: str = ""
    milli: int = 0
    memory_bytes: int = 0


class ContainerView(msgspec.Struct, frozen=True, kw_only=True):
    """What one container asks for and holds; `container` is `container-0`, `init-0` and so on.

    The number is the container's index in spec.containers or spec.initContainers. It asks for
    `count` cards of `milli` each, none if `count` is 0; the fields are those of a `PodView`. With
    `exclusive` the cards are for it alone. `holds` are its cards, in the order in which it sees
    them.
    """

    container: str
    count: int = 0
    milli: int = 0
    memory_bytes: int | None = None
    memory_milli: int | None = None
    models: tuple[str, ...] = ()
    share_of: str = ""
    exclusive: bool = False
    holds: tuple[HoldingView, ...] = ()


class ContainerPartView(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one card that one container of its tenant holds: milli and bytes."""

    container: str
    milli: int
    memory_bytes: int


class NeighbourView(msgspec.Struct, frozen=True, kw_only=True):
    """Another pod on the same cards, and its parts of them.

    `namespace` and `name` are "" for pods that the reader may not see.
    """

    namespace: str
    name: str
    holds: tuple[HoldingView, ...] = ()


class ScoreView(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin's score of a node for a pod; `points` are before the weight."""

    plugin: str
    weight: int
    points: int


class RankedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that fits, and its weighted sum of scores."""

    name: str
    score: int


class PlacementView(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod's node would rank if the pod were placed now, and its cards' other tenants.

    `rank` counts from 1 among the `fitting` nodes. It is 0, and `score` has no meaning, if the pod
    would no longer fit its own node, or if scores alone did not decide (gangs). `others` are the
    best of the other nodes. Scores that are relative to all nodes that fit count as in a decision.
    """

    rank: int = 0
    fitting: int = 0
    score: int = 0
    scores: tuple[ScoreView, ...] = ()
    others: tuple[RankedNode, ...] = ()
    neighbours: tuple[NeighbourView, ...] = ()


def container_words(container: str) -> str:
    """A container in a sentence: `container-0` is `container 0`, `init-0` is `init container 0`."""
    kind, _, index = container.rpartition("-")
    return f"{'init ' if kind == 'init' else ''}container {index}"


class TenantView(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's part of one card. `unheld`: parts (memory, time) that are not enforced.

    `dialect` is that of its request, "" if that is not known. `containers` are its containers'
    parts of this part, empty if all of them see the whole of it. `card_name` is the name that the
    card has for pods of its namespace, "" for none. `share_pod` is the SharePod of that namespace
    that the pod was made of, "" for none.
    """

    namespace: str
    name: str
    milli: int
    memory_bytes: int
    exclusive: bool = False
    dialect: str = ""
    card_name: str = ""
    share_pod: str = ""
    unheld: tuple[str, ...] = ()
    containers: tuple[ContainerPartView, ...] = ()


class LingeringView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of one card, held for `for_s` more seconds because its pod was deleted by force."""

    namespace: str
    name: str
    milli: int
    memory_bytes: int
    for_s: int


class BackendView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an isolation back-end has what it needs of a card; `ready` is None if unknown.

    `reason` is what is missing, as words that follow "it has".
    """

    backend: str
    ready: bool | None = None
    reason: str = ""


class CardNotReadyView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod's isolation back-end is not ready on one of its cards; "" if unknown."""

    uuid: str
    reason: str = ""


class CardsNotReadyView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod's isolation back-end is not ready on `cards` cards of a node; "" if unknown."""

    cards: int
    reason: str = ""


class CardView(msgspec.Struct, frozen=True, kw_only=True):
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

    `busy_milli` (thousandths of the time in which a kernel ran) and `in_use_bytes` (of memory) are
    what is really used of the card, measured in the last two minutes; unset where not known.
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
    busy_milli: int | msgspec.UnsetType = msgspec.UNSET
    in_use_bytes: int | msgspec.UnsetType = msgspec.UNSET


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """How two cards reach each other: a word of `nvidia-smi topo -m`, "" if unknown.

    `bandwidth` is the best way's, which decisions use: MB/s, both directions summed; below 100 it
    only means that they are near.
    """

    uuid: str
    peer: str
    kind: str
    bandwidth: int


class IslandView(msgspec.Struct, frozen=True, kw_only=True):
    """Cards of which every two have at least `bandwidth`; `intact` while all of them are idle."""

    bandwidth: int
    cards: tuple[str, ...]
    intact: bool


class TopologyView(msgspec.Struct, frozen=True, kw_only=True):
    """How the cards of a node are joined; each pair once, islands from the widest on."""

    cards: tuple[str, ...]
    numa_nodes: tuple[int | None, ...]
    links: tuple[LinkView, ...]
    islands: tuple[IslandView, ...]


class RingView(msgspec.Struct, frozen=True, kw_only=True):
    """How the cards of one pod are joined; `slowest_hop` is that of their best ring, in MB/s."""

    slowest_hop: int
    links: tuple[LinkView, ...]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
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


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of this scheduler. `state` is one of docs/developers/internals.md.

    It asks for `count` cards of `milli` each, in thousandths of a card of the model `share_of` if
    that is set; `memory_bytes` is per card, or `memory_milli` thousandths of a card's memory; None
    for the share's part. `cards` are the uuids that
    it holds. `message` says why it waits. `isolation` is the back-end that enforces its share,
    `unheld` the parts that this does not enforce. `not_ready` are those of its cards on which the
    back-end is not known to work. `holds` is its part of each card; with `asks_for_other` its
    labels ask for something else. `card_name` is as that of a tenant. `unlikely` are
    sentences about labels that are hardly meant as they are. `gang` is the name of its pod group in
    its namespace, "" if it is in none.

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
    unlikely: tuple[str, ...] = ()
    gang: str = ""


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one instant. `overcommitted`: (node, uuid) of cards with free amounts below 0.

    `ready` is False until pods and nodes were listed. `inventory` is `read`, `unread`, or the
    message of the last failure. `source` is where cards come from now, `prometheus` or `scrape` for
    example; "" if that is not known.
    """

    scheduler: str
    ready: bool
    inventory: str
    source: str = ""
    nodes: tuple[NodeView, ...] = ()
    pods: tuple[PodView, ...] = ()
    overcommitted: tuple[tuple[str, str], ...] = ()


class NodeWhy(msgspec.Struct, frozen=True, kw_only=True):
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


class VictimView(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that would be evicted, and the cards that it holds.

    `answer` says why the API server did not evict it so far, "" if it was not asked or did.
    """

    namespace: str
    name: str
    node: str
    priority: int = 0
    cards: tuple[str, ...] = ()
    answer: str = ""


class NominatedPlaceView(msgspec.Struct, frozen=True, kw_only=True):
    """The place that a pod would get."""

    namespace: str
    name: str
    node: str
    cards: tuple[str, ...] = ()


class PreemptionView(msgspec.Struct, frozen=True, kw_only=True):
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


class WhyView(msgspec.Struct, frozen=True, kw_only=True):
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
    indexes: dict[str, int] = msgspec.field(default_factory=dict)


class ProspectView(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of a pod that does not exist, if it were created now.

    `fits`: it would be placed at once, and `why.pod` has the node and the cards. Otherwise `why` is
    as that of a pod that waits. `notes` are sentences about what the answer leaves out.
    """

    fits: bool
    why: WhyView
    notes: tuple[str, ...] = ()


class SchedulerView(msgspec.Struct, frozen=True, kw_only=True):
    """A profile of the scheduler: pods with its `name` as schedulerName are its own.

    They may ask for GPUs in its `dialects`. `extender`: kube-scheduler chooses their nodes.
    """

    name: str
    dialects: tuple[str, ...] = ()
    extender: bool = False


# What pods of manifests ask for, as `kubectl kubeshare check` shows it.


class CheckedClaim(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One claim: of a container (`container-0`, `init-0`), or of the whole pod if that is "".

    `milli` are thousandths of each GPU, `limitMilli` caps their time; `memoryBytes` is for each
    GPU, None for the part of its memory that goes with the share.
    """

    count: int
    milli: int
    limit_milli: int
    container: str = ""
    memory_bytes: int | None = None
    exclusive: bool = False
    models: tuple[str, ...] = ()


class CheckedProspect(msgspec.Struct, frozen=True, rename="camel"):
    """What would become of the pod if it were created now.

    `fits`: it would be placed at once on `node`, with the GPUs of the uuids `cards`. If not, `why`
    says what of, as `why -o json` does of a waiting pod. None if that was not asked: `message` says
    why. `notes` are sentences about what the answer leaves out.
    """

    fits: bool | None
    message: str = ""
    node: str = ""
    cards: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: WhyView | None = None


class CheckedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of a manifest. `dialect` is "" if it asks for no GPU, or in several dialects.

    `path` leads from the object to the pod's template, where the object is of a kind with several.
    `scheduler` is the schedulerName of the scheduler that takes the pod. `refused` are sentences;
    the pod is fine without any. `notes` are sentences about a pod that is fine, or under a
    condition. `documentation` is where its dialect says what its keys mean, "" if it does not.
    `now` is set if it was asked what would become of it now.
    """

    object: str
    scheduler: str
    dialect: str
    claims: tuple[CheckedClaim, ...]
    refused: tuple[str, ...]
    documentation: str = ""
    path: str = ""
    notes: tuple[str, ...] = ()
    now: CheckedProspect | msgspec.UnsetType = msgspec.UNSET
