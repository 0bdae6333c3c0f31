"""A pod as the scheduler sees it, and its shape: all that row-local placement depends on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.bounds import GROUP_MEMBERS, GROUP_MINIMUM
from kubeshare_py.domain.group_objects import GroupReference
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuClaim, GpuRequest, InvalidRequest

#: (key, value) pairs, sorted.
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements that must all hold, on labels and on fields (metadata.name). Empty: never."""

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

    `resources` are sorted (name, amount) pairs: cpu in thousandths, others in their base unit,
    pods excluded. `terms` None means no required node affinity, an empty tuple one that nothing
    satisfies; they are hashable, a tuple or `packed_terms.PackedTerms`. `isolation` is the back-end
    that is to hold the pod to its share, once its profile has chosen; NONE too for pods without a
    share.
    """

    resources: tuple[tuple[str, int], ...] = ()
    claim: GpuClaim | None = None
    guarantee: bool = False
    needs_port: bool = False
    node_selector: tuple[tuple[str, str], ...] = ()
    terms: Sequence[NodeTerm] | None = None
    tolerations: tuple[Toleration, ...] = ()
    isolation: IsolationBackend = IsolationBackend.NONE
    _identity: tuple[object, ...] = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)
    #: See `remembered.weight_of`; 0 until it is asked for.
    _weight: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        # Shapes are dictionary keys several times per pod: hash once, not at each look-up.
        identity = (
            self.resources,
            self.claim,
            self.guarantee,
            self.needs_port,
            self.node_selector,
            self.terms,
            self.tolerations,
            self.isolation,
        )
        object.__setattr__(self, "_identity", identity)
        object.__setattr__(self, "_hash", hash(identity))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Shape) and self._identity == other._identity)


@remembered(4096)
def with_isolation(shape: Shape, backend: IsolationBackend) -> Shape:
    """The shape of a pod that this back-end is to hold to its share."""
    return replace(shape, isolation=backend)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A gang: its name, its size, and how many members must start together.

    `within` is a node label: all members' nodes must have one value of it. "" where it is enough
    that they are as near as possible.

    Invariants: headcount and min_available within their bounds (`bounds`).
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

    `created` is the RFC 3339 creationTimestamp, which sorts as text. `gates` are the names of its
    scheduling gates; `unsupported` are the fields of its spec that no plugin implements, in words:
    while there are any of either, the pod is not tried. `stale_results` are
    result annotations that the pod already carries although it is not bound: a Binding overwrites
    them. `problem` is set when the request cannot be understood; `request` is then None.
    `group_reference` names the object that describes its group: `group` is then what the object
    says, None while nobody knows. `owner` is the uid of the controller of a pod that is in a group,
    "" where there is none. `allocation_problem` says what is wrong with a bound pod's allocation,
    which is then None; `mismatch` what its containers are told, if that is not the allocation's
    cards. `isolation` is the back-end that the pod wishes. `preempts` is
    False for preemptionPolicy Never. Of bound pods `labels` are what disruption budgets select by,
    and `started` is the RFC 3339 start time. `nominated`: it says which node it would get,
    or which cards; `nominated_node` is that node. `grace_s` is how long (s) a kubelet may let the
    containers of a bound pod run on that is deleted, and `stopped` says that all of them have
    ended in the course of its deletion; both are told of bound pods only.
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
    stale_results: tuple[str, ...] = ()
    isolation: str = ""
    preempts: bool = True
    nominated: bool = False
    nominated_node: NodeName | None = None
    labels: Labels = ()
    started: str = ""
    grace_s: int = 0
    stopped: bool = False
