"""What a dialect adds to new pods, or refuses, as the webhook of its former scheduler did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kubeshare_py.domain.request import ContainerRef


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContainer:
    """A container of a new pod: what it asks for of the resources that dialects own, if it does."""

    name: str
    container: ContainerRef
    amounts: Mapping[str, int]
    privileged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """By container: limits to add, as resource and amount, and variables to add, with their values.

    What a container has already stays as it is.
    """

    limits: Mapping[ContainerRef, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    variables: Mapping[ContainerRef, tuple[tuple[str, str], ...]] = field(default_factory=dict)


#: What is added by most dialects.
NOTHING_ADDED = Admitted()


@runtime_checkable
class AdmittingDialect(Protocol):
    """A dialect that adds to new pods, or refuses some."""

    def admitted(self, containers: Sequence[NewContainer], *, has_node: bool) -> Admitted | str:
        """What a new pod of this dialect's gets besides its cards, or why it is refused.

        `has_node`: its spec names a node already.
        """
        ...
