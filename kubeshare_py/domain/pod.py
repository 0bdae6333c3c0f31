"""A pod as the scheduler sees it, and its shape: all that placement on one node depends on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.bounds import GROUP_MEMBERS, GROUP_MINIMUM
from kubeshare_py.domain.card_tags import CardTag
from kubeshare_py.domain.group_objects import GroupReference
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.label_selector import Labels, Requirement
from kubeshare_py.domain.needs.default_spread import PodController
from kubeshare_py.domain.needs.device_claims import DeviceClaims
from kubeshare_py.domain.needs.gpu_quota import NO_SCOPES, PodScopes
from kubeshare_py.domain.needs.host_ports import HostPort
from kubeshare_py.domain.needs.images import PodImages
from kubeshare_py.domain.needs.inter_pod import InterPodTerms
from kubeshare_py.domain.needs.node_rules import NodeRule
from kubeshare_py.domain.needs.placed_pod import PlacedPod
from kubeshare_py.domain.needs.placement_policy import PlacementPolicy
from kubeshare_py.domain.needs.volumes import PodVolumes
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import CardRelation, GpuClaim, GpuRequest, InvalidRequest

#: What only scores count, for containers that ask for none of a resource; see
#: `Shape.unrequested`. Kubernetes' names have no spaces.
UNREQUESTED = {"cpu": "unrequested cpu", "memory": "unrequested memory"}


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements on labels and fields (metadata.name) that must all hold. Empty: never."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class NodePreferences:
    """Preferred node affinity: terms, and how much (1 to 100) each counts.

    Invariant, else ValueError: there are as many weights as terms.
    """

    weights: tuple[int, ...]
    terms: Sequence[NodeTerm]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.terms):
            raise ValueError("each term must have a weight")


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; empty key with Exists tolerates all, empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """What placement on one node depends on; equal shapes share cached answers.

    `resources` are sorted (name, amount) pairs without pods: cpu in milli, others in their base
    unit. `terms` None means no required node affinity, an empty tuple one that nothing satisfies;
    they are hashable, a tuple or `packed_terms.PackedTerms`. `preferences` are preferred node
    affinity. `unrequested` is what scores count in addition to `resources`, under the names of
    `UNREQUESTED`; it is the same for pods of one template. `features` are those that the node must
    declare, sorted. `ignored` are resources that need not be free, because the pod's profile says
    so. `images` is None unless the pod's profile scores nodes by them. `isolation` is
    the back-end that enforces the pod's share, once its profile has chosen; NONE also for pods
    without a share. `node_rules` are those of the pod's dialect. `claims` are placed together, and
    `relation` says how their cards relate. `policy` is None for a pod that leaves the choice of
    node and cards to its profile. `inter_pod` is None for a pod that asks nothing about
    other pods and that no term of a placed pod selects, `volumes` for a pod that mounts neither
    claims nor disks, `device_claims` for a pod without ResourceClaims. `avoided` are nodes to
    which the API server refuses to bind the pod, sorted. `namespace` and `labels` are the pod's, as
    far as plugins of its profile declare that they read them: "" and empty otherwise, so that pods
    of one kind share one shape.
    """

    resources: tuple[tuple[str, int], ...] = ()
    claims: tuple[GpuClaim, ...] = ()
    relation: CardRelation = CardRelation.FREE
    guarantee: bool = False
    needs_port: bool = False
    node_selector: tuple[tuple[str, str], ...] = ()
    terms: Sequence[NodeTerm] | None = None
    tolerations: tuple[Toleration, ...] = ()
    preferences: NodePreferences | None = None
    unrequested: tuple[tuple[str, int], ...] = ()
    features: tuple[str, ...] = ()
    ignored: tuple[tuple[str, int], ...] = ()
    images: PodImages | None = None
    isolation: IsolationBackend = IsolationBackend.NONE
    host_ports: tuple[HostPort, ...] = ()
    node_rules: tuple[NodeRule, ...] = ()
    policy: PlacementPolicy | None = None
    inter_pod: InterPodTerms | None = None
    volumes: PodVolumes | None = None
    device_claims: DeviceClaims | None = None
    avoided: tuple[NodeName, ...] = ()
    namespace: str = ""
    labels: Labels = ()
    _identity: tuple[object, ...] = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)
    #: See `remembered.weight_of`; 0 until it is computed.
    _weight: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        # Shapes are dictionary keys several times per pod: hashed once, not at each look-up.
        identity = (
            self.resources,
            self.claims,
            self.relation,
            self.guarantee,
            self.needs_port,
            self.node_selector,
            self.terms,
            self.tolerations,
            self.preferences,
            self.unrequested,
            self.features,
            self.ignored,
            self.images,
            self.isolation,
            self.host_ports,
            self.node_rules,
            self.policy,
            self.inter_pod,
            self.volumes,
            self.device_claims,
            self.avoided,
            self.namespace,
            self.labels,
        )
        object.__setattr__(self, "_identity", identity)
        object.__setattr__(self, "_hash", hash(identity))

    @property
    def charged(self) -> tuple[tuple[str, int], ...]:
        """What a pod is charged of its node: `resources` and what only scores count."""
        return self.resources + self.unrequested if self.unrequested else self.resources

    @property
    def claim(self) -> GpuClaim | None:
        """The only claim; None if there are none or several."""
        return self.claims[0] if len(self.claims) == 1 else None

    def label(self, key: str) -> str | None:
        """The pod's label, for a plugin that declares it in `reads_labels`; None without it."""
        return next((text for name, text in self.labels if name == key), None)

    @property
    def is_cluster_wide(self) -> bool:
        """Whether its placement depends on more than one node."""
        parts = (self.inter_pod, self.volumes, self.device_claims)
        return any(one is not None for one in parts) or self.card_name is not None

    @property
    def card_name(self) -> CardTag | None:
        """The tag that names the card of the only claim; None if none does."""
        return self.claims[0].name if len(self.claims) == 1 else None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Shape) and self._identity == other._identity)


@remembered(4096)
def with_isolation(shape: Shape, backend: IsolationBackend) -> Shape:
    """The shape of a pod whose share this back-end enforces."""
    return replace(shape, isolation=backend)


@remembered(4096)
def with_inter_pod(shape: Shape, terms: InterPodTerms) -> Shape:
    """The shape of a pod that asks this about other pods."""
    return replace(shape, inter_pod=terms)


@remembered(4096)
def with_volumes(shape: Shape, volumes: PodVolumes) -> Shape:
    """The shape of a pod that mounts these."""
    return replace(shape, volumes=volumes)


def with_device_claims(shape: Shape, claims: DeviceClaims | None) -> Shape:
    """The shape of a pod that uses these, which no other pod has."""
    return shape if claims is None else replace(shape, device_claims=claims)


@remembered(1024)
def avoiding(shape: Shape, nodes: tuple[NodeName, ...]) -> Shape:
    """The shape of a pod that the API server refuses to bind to these nodes."""
    return replace(shape, avoided=nodes)


@remembered(4096)
def with_origin(shape: Shape, namespace: str, labels: Labels) -> Shape:
    """The shape of a pod of a profile whose plugins read this namespace and these labels."""
    return replace(shape, namespace=namespace, labels=labels)


@remembered(4096)
def without_resources(shape: Shape, names: tuple[str, ...]) -> Shape:
    """The shape of a pod of a profile that ignores these resources."""
    ignored = tuple(one for one in shape.resources if one[0] in names)
    kept = tuple(one for one in shape.resources if one[0] not in names)
    return replace(shape, resources=kept, ignored=ignored)


@remembered(4096)
def with_images(shape: Shape, images: PodImages) -> Shape:
    """The shape of a pod with these images, in a profile that scores nodes by them."""
    return replace(shape, images=images)


@remembered(4096)
def by_claim(shape: Shape) -> tuple[Shape, ...]:
    """The shape once for each different claim, with that claim alone; itself if it has none."""
    if len(shape.claims) <= 1:
        return (shape,)
    return tuple(
        replace(shape, claims=(claim,), relation=CardRelation.FREE)
        for claim in dict.fromkeys(shape.claims)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A gang: its name, its size, and how many members must start together.

    `within` is a node label of which all members' nodes must share one value; "" if they only need
    to be as near as possible. Invariant: headcount and min_available are within their bounds
    (`bounds`), else ValueError.
    """

    name: str
    headcount: int
    min_available: int
    within: str = ""

    def __post_init__(self) -> None:
        for name, bound, amount in (
            ("headcount", GROUP_MEMBERS, self.headcount),
            ("min_available", GROUP_MINIMUM, self.min_available),
        ):
            if not bound.allows(amount):
                raise ValueError(f"{name} {bound.problem(amount)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that is not finished.

    `created` is the RFC 3339 creationTimestamp, which sorts as text. `gates` are its scheduling
    gates. `unsupported` are fields of its spec that no plugin implements; with any of these or
    gates, the pod is not tried. `stale_results` are result annotations on a pod that is not bound:
    a Binding overwrites them. `problem` is set if the request cannot be understood; `request` is
    then None.

    `group_reference` names the object that describes its group; `group` is then the object's, None
    while it is unknown. `owner` is what a run of a group's member belongs to: the uid of its JobSet
    or controller, or the name of its Deployment, "" if there is none. `owner_title` is the kind and
    name of its controller, for people. `isolation` is the back-end that the pod wishes. `scopes`
    are what quotas ask about it, known only where a dialect has quotas. `preempts` is False for
    preemptionPolicy Never. `nominated`: the pod shows a node or cards that it would get;
    `nominated_node` is that node.

    `labels` are what terms of other pods and disruption budgets select by. `images` are those of a
    pod without a node, and `controller` the ReplicaSet or the like whose selector says which pods
    belong together with it.

    The following are for bound pods. `allocation_problem` says what is wrong with its allocation,
    which is then None. `mismatch` names the cards in its containers' variables if they are not the
    allocation's; `difference` says where the annotations of another scheduler that bound it and its
    spec differ, of which the larger is charged. `started` is the RFC 3339 start time. `grace_s` is
    how long (s) a kubelet may let the containers run on after a deletion, and `stopped` says that
    all of them have ended in the course of it.
    """

    uid: PodUid
    key: PodKey
    shape: Shape
    scheduler_name: str = ""
    node_name: NodeName | None = None
    priority: int = 0
    label_priority: int = 0
    created: str = ""
    request: GpuRequest | None = None
    problem: InvalidRequest | None = None
    group: PodGroup | None = None
    group_reference: GroupReference | None = None
    owner: str = ""
    owner_title: str = ""
    gates: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    deleting: bool = False
    allocation: Allocation | None = None
    allocation_problem: str = ""
    mismatch: str = ""
    difference: str = ""
    stale_results: tuple[str, ...] = ()
    isolation: str = ""
    scopes: PodScopes = NO_SCOPES
    preempts: bool = True
    nominated: bool = False
    nominated_node: NodeName | None = None
    labels: Labels = ()
    controller: PodController | None = None
    images: PodImages | None = None
    started: str = ""
    grace_s: int = 0
    stopped: bool = False

    @property
    def placed(self) -> PlacedPod:
        """What the placement of other pods depends on, of this pod on its node."""
        shape = self.shape
        return _placed_pod(
            self.key.namespace,
            self.labels,
            shape.inter_pod,
            shape.host_ports,
            shape.volumes,
            shape.device_claims if self.node_name is None else None,
            self.deleting,
        )


@remembered(4096)
def _placed_pod(
    namespace: str,
    labels: Labels,
    terms: InterPodTerms | None,
    host_ports: tuple[HostPort, ...],
    volumes: PodVolumes | None,
    device_claims: DeviceClaims | None,
    terminating: bool,
) -> PlacedPod:
    return PlacedPod(
        namespace=namespace,
        labels=labels,
        terms=terms,
        host_ports=host_ports,
        volumes=volumes,
        device_claims=device_claims,
        terminating=terminating,
    )
