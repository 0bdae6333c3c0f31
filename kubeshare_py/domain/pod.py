"""A pod as the scheduler sees it, and its shape: all that placement on one node depends on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.bounds import GROUP_MEMBERS, GROUP_MINIMUM
from kubeshare_py.domain.group_objects import GroupReference
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import CardRelation, GpuClaim, GpuRequest, InvalidRequest

#: (key, value) pairs, sorted.
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements on labels and fields (metadata.name) that must all hold. Empty: never."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


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
    they are hashable, a tuple or `packed_terms.PackedTerms`. `isolation` is the back-end that
    enforces the pod's share, once its profile has chosen; NONE also for pods without a share.
    `claims` are placed together, and `relation` says how their cards relate.
    """

    resources: tuple[tuple[str, int], ...] = ()
    claims: tuple[GpuClaim, ...] = ()
    relation: CardRelation = CardRelation.FREE
    guarantee: bool = False
    needs_port: bool = False
    node_selector: tuple[tuple[str, str], ...] = ()
    terms: Sequence[NodeTerm] | None = None
    tolerations: tuple[Toleration, ...] = ()
    isolation: IsolationBackend = IsolationBackend.NONE
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
            self.isolation,
        )
        object.__setattr__(self, "_identity", identity)
        object.__setattr__(self, "_hash", hash(identity))

    @property
    def claim(self) -> GpuClaim | None:
        """The only claim; None if there are none or several."""
        return self.claims[0] if len(self.claims) == 1 else None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Shape) and self._identity == other._identity)


@remembered(4096)
def with_isolation(shape: Shape, backend: IsolationBackend) -> Shape:
    """The shape of a pod whose share this back-end enforces."""
    return replace(shape, isolation=backend)


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
    while it is unknown. `owner` is the uid of the controller of a group's member, "" if there is
    none. `isolation` is the back-end that the pod wishes. `preempts` is False for preemptionPolicy
    Never. `nominated`: the pod shows a node or cards that it would get; `nominated_node` is that
    node.

    The following are for bound pods. `allocation_problem` says what is wrong with its allocation,
    which is then None. `mismatch` names the cards in its containers' variables if they are not the
    allocation's; `difference` says where the annotations of another scheduler that bound it and its
    spec differ, of which the larger is charged. `labels` are what disruption budgets select by, and
    `started` is the RFC 3339 start time. `grace_s` is how long (s) a kubelet may let the containers
    run on after a deletion, and `stopped` says that all of them have ended in the course of it.
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
    gates: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    deleting: bool = False
    allocation: Allocation | None = None
    allocation_problem: str = ""
    mismatch: str = ""
    difference: str = ""
    stale_results: tuple[str, ...] = ()
    isolation: str = ""
    preempts: bool = True
    nominated: bool = False
    nominated_node: NodeName | None = None
    labels: Labels = ()
    started: str = ""
    grace_s: int = 0
    stopped: bool = False
