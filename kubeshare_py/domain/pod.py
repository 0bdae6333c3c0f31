"""A pod as the scheduler sees it, and its shape: all that placement on one node depends on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msgspec import Struct

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.cluster_objects import (
    GroupReference,
    Labels,
    ObjectKey,
    PodController,
    Requirement,
)
from kubeshare_py.domain.gpu import CardTag
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.quantity import GROUP_MEMBERS, GROUP_MINIMUM
from kubeshare_py.domain.quota import NO_SCOPES, PodScopes
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import (
    CardRelation,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
    PlacementPolicy,
)

# Node labels that say which nodes a dialect may use.


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A node label by which administrators give nodes to pods of a dialect.

    A node whose label has none of `values` takes none of these pods. A node without the label takes
    them unless the rule is `required`. Invariant: there is a value, else ValueError.
    """

    label: str
    values: tuple[str, ...]
    required: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"{self.label}: no value of it gives a node to the dialect")


# Features that a node's kubelet declares in `status.declaredFeatures`, as far as pods need them.
#
# Source: component-helpers/nodedeclaredfeatures/features of Kubernetes 1.36, where two features
# matter to a new pod. The API server refuses pods whose features its own release does not have.


RESTART_ALL = "RestartAllContainersOnContainerExits"
USERS_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
#: All features that a pod can need.
NODE_FEATURES = frozenset({RESTART_ALL, USERS_ON_HOST_NETWORK})


# Container images: those that a pod needs, and those that nodes have.


@dataclass(frozen=True, slots=True)
class PodImages:
    """The images of a pod's containers and volumes, sorted, with a tag or digest.

    An image that several of them use is there as often. `containers` is the number of containers.
    """

    names: tuple[str, ...]
    containers: int


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image on a node: all its names, and its size in bytes."""

    names: tuple[str, ...]
    size: int


# Ports of the node that a pod's containers take.
#
# Rules: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#ports


#: All addresses of the node.
ANY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of one protocol (TCP, UDP, SCTP), at one address of the node or at all of them."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """Whether two pods cannot have them on one node."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


# What a pod says of ResourceClaims: which ones it uses.
#
# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/


@dataclass(frozen=True, slots=True)
class DeviceClaimName:
    """An entry of spec.resourceClaims, and the name of its ResourceClaim.

    `generated`: the claim is made from a template, for this pod; its name is "" until it is there.
    """

    entry: str
    claim: str
    generated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaims:
    """The claims of a pod, which is part of the value: they are reserved for it."""

    namespace: str
    pod: str
    uid: str
    names: tuple[DeviceClaimName, ...]

    def objects(self) -> tuple[ObjectKey, ...]:
        """The claims that are there, as far as the pod knows."""
        return tuple(ObjectKey(self.namespace, one.claim) for one in self.names if one.claim)


# Volumes of a pod that placement depends on, and which volumes a placement gives to its claims.
#
# Rules: https://kubernetes.io/docs/concepts/storage/persistent-volumes/ and
# https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/


#: Only one pod of a node may have such a disk, even to read it.
_EBS = "awsElasticBlockStore"
_EXCLUSIVE = frozenset({_EBS, "gcePersistentDisk", "iscsi", "rbd"})


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A PersistentVolumeClaim that a pod mounts, by its name in the pod's namespace.

    `owner` is set for a generic ephemeral volume: the claim's controller must be this pod, which is
    called `pod`.
    """

    name: str
    owner: PodUid | None = None
    pod: str = ""


@dataclass(frozen=True, slots=True)
class InlineDisk:
    """A disk that a pod's spec names without a claim.

    `source` is the field of the volume, such as `gcePersistentDisk`. `disk` names the disk among
    those of its source; for `rbd`, with its pool. `monitors` are those of `rbd`, else empty.
    `csi_driver` attaches the disk, "" if no CSI driver does.
    """

    source: str
    disk: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()
    csi_driver: str = ""

    @property
    def is_exclusive(self) -> bool:
        """Whether pods of one node cannot share the disk, unless all of them only read it."""
        return self.source in _EXCLUSIVE

    def conflicts(self, other: "InlineDisk") -> bool:
        """Whether pods with these disks cannot be on one node."""
        if not self.is_exclusive or (self.source, self.disk) != (other.source, other.disk):
            return False
        if self.monitors and not {*self.monitors} & {*other.monitors}:
            return False
        return self.source == _EBS or not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolumes:
    """The claims and disks that a pod mounts, in the order of its spec; the claims' namespace.

    Each claim and disk is there once. Invariant: it has a claim or a disk, else ValueError. The
    fields are hashed once.
    """

    namespace: str
    claims: tuple[PodClaim, ...] = ()
    disks: tuple[InlineDisk, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.claims and not self.disks:
            raise ValueError("neither a claim nor a disk")
        object.__setattr__(self, "_hash", hash((self.namespace, self.claims, self.disks)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class StaticBinding:
    """The PersistentVolume `volume` is to be bound to a claim, both by name."""

    claim: str
    volume: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeChoice:
    """What has to be done on one node before a pod can be bound to it: its PreBind.

    `namespace` is that of the claims. `bindings` are existing volumes for claims that have none,
    the smallest request first; `provisions` are claims for which a volume is to be made, by name.
    Empty if all claims are bound.
    """

    namespace: str
    bindings: tuple[StaticBinding, ...] = ()
    provisions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bindings or self.provisions)


# Pod affinity and topology spread: what a pod asks about other pods.
#
# Rules:
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
# and https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods of some namespaces, by their labels.

    They are in one of `namespaces` (sorted), or in one whose labels satisfy `namespace_selector`,
    which is None if there is none; an empty one selects every namespace. `labels` None selects no
    pod, and an empty tuple every one.
    """

    namespaces: tuple[str, ...]
    labels: tuple[Requirement, ...] | None
    namespace_selector: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Pods of `selector` in the same topology domain: on nodes with the same value of a label."""

    selector: PodSelector
    topology_key: str


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A preference of 1 to 100 for a term; below 0 for the absence of its pods."""

    term: AffinityTerm
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """How evenly the pods of `selector` are spread over the domains of a node label.

    `hard` is DoNotSchedule. `min_domains` is 1 unless the pod names more. `honours_affinity` and
    `honours_taints` say which nodes count: those that the pod's node affinity allows, and those
    whose taints it tolerates. Nodes without the label are in no domain; unless `needs_label`, a
    score counts them as one domain more, to which it adds nothing.
    """

    max_skew: int
    topology_key: str
    selector: PodSelector
    hard: bool
    min_domains: int = 1
    honours_affinity: bool = True
    honours_taints: bool = False
    needs_label: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InterPodTerms:
    """What a pod asks about other pods, with what their terms ask about it.

    Terms of other pods select by the pod's `namespace` and `labels`; the labels are those that some
    term names. The fields are hashed once.
    """

    namespace: str
    labels: Labels = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)
    #: See `remembered.weight_of`; 0 until it is computed.
    _weight: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        asked = (self.affinity, self.anti_affinity, self.preferred, self.spread)
        object.__setattr__(self, "_hash", hash((self.namespace, self.labels, *asked)))

    @property
    def named_keys(self) -> frozenset[str]:
        """The label keys that its own terms and constraints name."""
        selectors = [
            *(one.selector for one in (*self.affinity, *self.anti_affinity)),
            *(one.selector for one in self.spread),
            *(one.term.selector for one in self.preferred),
        ]
        return frozenset(line.key for one in selectors for line in one.labels or ())

    def __hash__(self) -> int:
        return self._hash


# What the placement of other pods depends on, of a pod that has a node, besides amounts.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPod:
    """A pod on a node, as other pods see it.

    `terms` are its own, None if it has none. `volumes` are what it mounts. `choice` says which
    volumes its claims are to get, while that is not done. `device_claims` are its
    ResourceClaims, while it is not bound. `terminating`: it is being deleted.
    """

    namespace: str
    labels: Labels = ()
    terms: InterPodTerms | None = None
    host_ports: tuple[HostPort, ...] = ()
    volumes: PodVolumes | None = None
    choice: VolumeChoice | None = None
    device_claims: DeviceClaims | None = None
    terminating: bool = False


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
    they are hashable, a tuple or `PackedTerms` of `manifests.pods.placement`. `preferences` are
    preferred node affinity. `unrequested` is what scores count in addition to `resources`, under
    the names of `UNREQUESTED`; it is the same for pods of one template. `features` are those that
    the node must declare, sorted. `ignored` are resources that need not be free, because the pod's
    profile says so. `images` is None unless the pod's profile scores nodes by them. `isolation` is
    the back-end that enforces the pod's share, once its profile has chosen; NONE also for pods
    without a share. `node_rules` are those of the pod's dialect. `claims` are placed together, and
    `relation` says how their cards relate. `policy` is None for a pod that leaves the choice of
    node and cards to its profile. `inter_pod` is None for a pod that asks nothing about other pods
    and that no term of a placed pod selects, `volumes` for a pod that mounts neither claims nor
    disks, `device_claims` for a pod without ResourceClaims. `avoided` are nodes to which the API
    server refuses to bind the pod, sorted. `namespace` and `labels` are the pod's, as far as
    plugins of its profile declare that they read them: "" and empty otherwise, so that pods of one
    kind share one shape.
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


class Pod(Struct, frozen=True, kw_only=True):
    """A pod that is not finished.

    `created` is the RFC 3339 creationTimestamp, which sorts as text. `gates` are its scheduling
    gates. `unsupported` are fields of its spec that no plugin implements; with any of these or
    gates, the pod is not tried. `stale_results` are result annotations on a pod that is not bound:
    a Binding overwrites them. `problem` is set if the request cannot be understood; `request` is
    then None.

    `group` is its gang (the API's object is a `PodGroupObject`): by its labels, or as the object
    says that `group_reference` names, and then None while that is unknown. `owner` is what a run of
    a group's member belongs to: the uid of its JobSet or controller, or the name of its Deployment,
    "" if there is none. `owner_title` is the kind and name of its controller, for people; bound
    pods with GPUs have it too, for what they hold. Both are also set for pods of KubeShare 1.0's
    dialect, whose controller is a SharePod (`sharepod a`).
    `isolation` is the back-end that the pod wishes. `scopes` are what quotas ask about it, known
    only where a dialect has quotas. `unlikely` are sentences about labels that can be read and are
    hardly meant so, such as a memory of 8 bytes. `preempts` is False for preemptionPolicy Never.
    `nominated`: the pod shows a node or cards that it would get; `nominated_node` is that node.

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
    unlikely: tuple[str, ...] = ()
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
