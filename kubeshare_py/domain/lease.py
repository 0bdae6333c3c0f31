"""The Lease that schedulers lead by: what it says, and what to write on it.

Fields: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
"""

from dataclasses import dataclass, field

#: So many terms of leadership have numbers of their own, which Kubernetes keeps in an int32; after
#: the last comes 0.
TERMS = 2**31
#: A Lease that says a longer duration (s) is taken to say this, and no configuration may: a forged
#: one would keep all schedulers from leading.
LONGEST_LEASE_S = 600


def after(term: int) -> int:
    """The number of the next term."""
    return (term + 1) % TERMS


def is_later(term: int, than: int) -> bool:
    """Whether `term` follows within half of all terms; the policy kubeshare-fence says the same.

    As sequence numbers are compared: https://www.rfc-editor.org/rfc/rfc1982
    """
    return 0 < (term - than) % TERMS < TERMS // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease as last read; two are equal when they say the same, whatever their versions.

    `acquired` and `renewed` are times of somebody else's clock: compared, never computed with.
    `transitions` is below TERMS. `problems` say what on it cannot be, and what was taken instead.
    """

    version: str = field(default="", compare=False)
    holder: str = ""
    transitions: int = 0
    duration_s: int = 0
    acquired: str = ""
    renewed: str = ""
    problems: tuple[str, ...] = field(default=(), compare=False)


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
