"""How a card's tenants are kept from taking more than their share, and who chooses the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class IsolationBackend(StrEnum):
    """Who keeps tenants apart; how, is said in the room `isolation`."""

    NONE = "none"
    DRIVER = "driver"
    MPS = "mps"
    GEMINI = "gemini"


class Enforcement(StrEnum):
    """Who says no when a container wants more than its part."""

    NOTHING = "nothing"  # nobody
    COOPERATIVE = "cooperative"  # a library or settings in the container, which it can get rid of
    DRIVER = "driver"  # the kernel or the driver, whatever the container does


class Part(StrEnum):
    """What a share of a card is a share of."""

    MEMORY = "memory"
    TIME = "time"


#: How far each back-end holds a container to its part.
HOLDS: Mapping[IsolationBackend, Mapping[Part, Enforcement]] = {
    IsolationBackend.NONE: {
        Part.MEMORY: Enforcement.NOTHING,
        Part.TIME: Enforcement.NOTHING,
    },
    IsolationBackend.DRIVER: {
        Part.MEMORY: Enforcement.DRIVER,
        Part.TIME: Enforcement.NOTHING,
    },
    IsolationBackend.MPS: {
        Part.MEMORY: Enforcement.COOPERATIVE,
        Part.TIME: Enforcement.COOPERATIVE,
    },
    IsolationBackend.GEMINI: {
        Part.MEMORY: Enforcement.COOPERATIVE,
        Part.TIME: Enforcement.COOPERATIVE,
    },
}
#: What a back-end holds nobody to: such a part of a request is a wish.
UNHELD: Mapping[IsolationBackend, tuple[Part, ...]] = {
    backend: tuple(part for part in Part if held[part] is Enforcement.NOTHING)
    for backend, held in HOLDS.items()
}


@dataclass(frozen=True, slots=True)
class IsolationChoice:
    """What a profile lets its pods choose from: the first is taken when they choose nothing else.

    Invariant: at least one.
    """

    allowed: tuple[IsolationBackend, ...] = (IsolationBackend.NONE,)

    def __post_init__(self) -> None:
        if not self.allowed:
            raise ValueError("a profile needs at least one isolation back-end")

    def allows(self, wish: str) -> bool:
        """Whether this is one of them, or nothing is wished."""
        return not wish or wish in self.allowed

    def chosen(self, wish: str) -> IsolationBackend:
        """The one that the pod wishes (the value of its label) if it may, else the first."""
        return next((one for one in self.allowed if one == wish), self.allowed[0])


#: For profiles that say nothing.
NOTHING_TO_CHOOSE = IsolationChoice()


@dataclass(frozen=True, slots=True)
class Isolation:
    """What one placement is held to: by whom, and to how much time of each card (0: unknown)."""

    backend: IsolationBackend
    limit_milli: int = 0
