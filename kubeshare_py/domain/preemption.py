"""The plan of a preemption: the preemptor, its places, and the victims."""

from dataclasses import dataclass

from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """One pod, or the members of a gang, ranked by the lowest of them.

    `guarantee`: all of them have a `sharedgpu/priority` above 0. `name` is the pod's or the gang's.
    """

    namespace: str
    name: str
    priority: int = 0
    guarantee: bool = False
    is_gang: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod to be evicted, and what it holds."""

    uid: PodUid
    key: PodKey
    node: NodeName
    priority: int = 0
    cards: tuple[GpuUuid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NominatedPlace:
    """The place that a pod gets once the victims have left."""

    uid: PodUid
    key: PodKey
    node: NodeName
    cards: tuple[GpuUuid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPlan:
    """Places for a pod, or for all members that a gang needs, and the victims.

    `victims` are to be evicted, the most important first; `awaited` leave anyhow. `violations` is
    the number of victims beyond what their PodDisruptionBudgets allow.
    """

    preemptor: Preemptor
    nominations: tuple[NominatedPlace, ...]
    victims: tuple[Victim, ...] = ()
    awaited: tuple[PodUid, ...] = ()
    violations: int = 0

    @property
    def makes_room(self) -> bool:
        """Whether any pod must leave before the places are free."""
        return bool(self.victims or self.awaited)
