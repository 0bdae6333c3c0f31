"""The Lease of leader election: its content, and what to write on it.

Fields: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
"""

from dataclasses import dataclass, field

#: The number of terms with numbers of their own, which Kubernetes keeps in an int32; the last is
#: followed by 0.
TERMS = 2**31
#: The longest duration (s): a longer one on a Lease counts as this, because a forged one would keep
#: all schedulers from leading. No configuration may have a longer one.
LONGEST_LEASE_S = 600


def after(term: int) -> int:
    """The number of the next term."""
    return (term + 1) % TERMS


def is_later(term: int, than: int) -> bool:
    """Whether `term` is at most half of all terms ahead.

    The policy kubeshare-bindings uses the same rule.

    Serial number arithmetic: https://www.rfc-editor.org/rfc/rfc1982
    """
    return 0 < (term - than) % TERMS < TERMS // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease as last read; two are equal if their content is, whatever their versions.

    `acquired` and `renewed` are times of another process's clock: compared, never computed with.
    `duration_s` is in seconds. `transitions` is below TERMS. `problems` name implausible fields,
    and what was assumed instead.
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

    `holder` is "" to release it; `acquires`: the holder is a new one.
    """

    version: str
    holder: str
    transitions: int
    duration_s: int
    acquires: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFigures:
    """The state of the election for this process, for its metrics; `name` is the Lease's.

    `slow_renewals`: how often the Lease had to be read before it could be renewed.
    """

    name: str
    leads: bool
    slow_renewals: int
