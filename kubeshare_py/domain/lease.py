"""The Lease that schedulers lead by: what it says, and what to write on it.

Fields: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease as last read; two are equal when they say the same, whatever their versions.

    `acquired` and `renewed` are times of somebody else's clock: compared, never computed with.
    """

    version: str = field(default="", compare=False)
    holder: str = ""
    transitions: int = 0
    duration_s: int = 0
    acquired: str = ""
    renewed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClaim:
    """What to write over the Lease of `version`, "" to create one.

    `holder` is "" to release it; `acquires` says that the holder is a new one.
    """

    version: str
    holder: str
    transitions: int
    duration_s: int
    acquires: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFigures:
    """How an election stands for this process, for its metrics; `name` is the Lease's.

    `slow_renewals`: the Lease had to be read before it could be renewed.
    """

    name: str
    leads: bool
    slow_renewals: int
