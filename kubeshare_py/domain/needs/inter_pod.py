"""Pod affinity and topology spread: what a pod asks about other pods.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
and https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
"""

from dataclasses import dataclass, field

from kubeshare_py.domain.label_selector import Labels, Requirement


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
