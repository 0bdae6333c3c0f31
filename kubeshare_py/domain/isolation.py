"""How a card's tenants are kept from taking more than their share, and who chooses the way."""

from dataclasses import dataclass
from enum import StrEnum


class IsolationBackend(StrEnum):
    """Who keeps tenants apart; what each enforces is said in the room `isolation`."""

    NONE = "none"
    DRIVER = "driver"
    MPS = "mps"
    GEMINI = "gemini"


@dataclass(frozen=True, slots=True)
class IsolationChoice:
    """What a profile lets its pods choose from: the first is taken when they choose nothing else.

    Invariant: at least one.
    """

    allowed: tuple[IsolationBackend, ...] = (IsolationBackend.NONE,)

    def __post_init__(self) -> None:
        if not self.allowed:
            raise ValueError("a profile needs at least one isolation back-end")

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
