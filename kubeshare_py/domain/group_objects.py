"""PodGroup objects, which describe groups, and the references of pods to them."""

from dataclasses import dataclass
from enum import StrEnum

from kubeshare_py.domain.bounds import GROUP_MEMBERS


class GroupApi(StrEnum):
    """The API group of a PodGroup."""

    COSCHEDULING = "scheduling.x-k8s.io"
    KUBERNETES = "scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class GroupReference:
    """A pod belongs to the group that this PodGroup of its namespace describes."""

    api: GroupApi
    name: str

    @property
    def gang(self) -> str:
        """The gang's name, which no label can give to another gang: labels have no slash."""
        return f"{self.api}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupObject:
    """One PodGroup: how many of its pods must start together, 1 if each is scheduled alone.

    `within` is that of a pod's group. `unsupported` are fields that are not implemented: its pods
    are not tried. Invariant: minimum is within its bound (`bounds`), else ValueError.
    """

    api: GroupApi
    namespace: str
    name: str
    min_member: int
    within: str = ""
    unsupported: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not GROUP_MEMBERS.allows(self.min_member):
            raise ValueError(f"minimum {GROUP_MEMBERS.problem(self.min_member)}")
