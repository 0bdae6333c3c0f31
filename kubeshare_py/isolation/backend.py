"""The parts of an isolation back-end, as values from which every way of injection is made.

The webhook patches pods from these values, and the admission policy's CEL is generated from them,
so that both do the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.isolation import IsolationBackend


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable, with a fixed value or from a field of the pod (downward API).

    The kubelet reads the field when a container starts; a missing annotation is an empty value and
    no error (kubelet, makeEnvironmentVariables). `is_default`: an entry of the same name in the
    container is kept, whatever its value; for all other variables it is refused.
    """

    name: str
    value: str = ""
    field_path: str = ""
    is_default: bool = False

    @classmethod
    def of_annotation(cls, name: str, key: str) -> "Variable":
        """A variable with the value of an annotation."""
        return cls(name, field_path=f"metadata.annotations['{key}']")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVolume:
    """A folder of the node."""

    name: str
    path: str
    kind: str = "Directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume's mount point in the container; `sub_path_expr` may use variables as $(NAME)."""

    volume: str
    path: str
    sub_path_expr: str = ""
    read_only: bool = False


#: The annotations that a back-end's variables refer to, for these cards and this limit of time in
#: thousandths of each card.
Results = Callable[[Sequence[CardCharge], int], Mapping[str, str]]


def no_results(cards: Sequence[CardCharge], limit_milli: int) -> Mapping[str, str]:
    """For back-ends that need only the usual result annotations."""
    del cards, limit_milli
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to keep the tenants of a shared card within their shares.

    `domain.isolation.HOLDS` says what it enforces. `variables`, `volumes`, `mounts` and `preload`
    (a library that must come first in LD_PRELOAD) go into every container of a pod with a share.
    `results` gives the annotations that the variables refer to, for the cards of a pod; or for
    those of one container, where containers differ.
    """

    name: IsolationBackend
    variables: tuple[Variable, ...] = ()
    volumes: tuple[HostVolume, ...] = ()
    mounts: tuple[Mount, ...] = ()
    preload: str = ""
    results: Results = no_results

    @property
    def reserved(self) -> tuple[str, ...]:
        """The names of variables that only this project sets."""
        return tuple(dict.fromkeys(one.name for one in self.variables))
