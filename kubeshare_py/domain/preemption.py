"""Who makes room for whom: the plan of a preemption, before and while it is carried out."""

from dataclasses import dataclass

from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """For whom room is to be made: one pod, or the members of a gang, ranked by the last of them.

    `guarantee`: all of them have a `sharedgpu/priority` above 0. `name` is the pod's or the gang's.
    """

    namespace: str
    name: str
    priority: int = 0
    guarantee: bool = False
    is_gang: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod that is to go, and what it holds."""

    uid: PodUid
    key: PodKey
    node: NodeName
    priority: int = 0
    cards: tuple[GpuUuid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The place that a pod gets once the victims are gone."""

    uid: PodUid
    key: PodKey
    node: NodeName
    cards: tuple[GpuUuid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPlan:
    """Places for a pod, or for all that a gang needs, and which pods go for them.

    `victims` are to be evicted, the most important first; `awaited` leave anyhow. So many of the
    victims are beyond what their PodDisruptionBudgets allow (`violations`).
    """

    preemptor: Preemptor
    seats: tuple[Seat, ...]
    victims: tuple[Victim, ...] = ()
    awaited: tuple[PodUid, ...] = ()
    violations: int = 0
