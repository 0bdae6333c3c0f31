"""Isolation back-ends, which keep a card's tenants within their shares, and their choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class IsolationBackend(StrEnum):
    """What keeps tenants apart; the room `isolation` says how."""

    NONE = "none"
    DRIVER = "driver"
    MPS = "mps"
    GEMINI = "gemini"
    HAMI_CORE = "hami-core"

    @property
    def label(self) -> str:
        """Its name as a label of Prometheus, which has no dashes."""
        return self.value.replace("-", "_")


class Enforcement(StrEnum):
    """What stops a container that wants more than its part."""

    NOTHING = "nothing"  # nothing does
    COOPERATIVE = "cooperative"  # a library or settings in the container, which it can get rid of
    DRIVER = "driver"  # the kernel or the driver, whatever the container does


class Part(StrEnum):
    """What a share of a card is a share of."""

    MEMORY = "memory"
    TIME = "time"


#: How each back-end enforces each part.
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
    IsolationBackend.HAMI_CORE: {
        Part.MEMORY: Enforcement.COOPERATIVE,
        Part.TIME: Enforcement.COOPERATIVE,
    },
}
#: The parts of a pod's request that a back-end does not enforce.
UNHELD: Mapping[IsolationBackend, tuple[Part, ...]] = {
    backend: tuple(part for part in Part if held[part] is Enforcement.NOTHING)
    for backend, held in HOLDS.items()
}


@dataclass(frozen=True, slots=True)
class IsolationChoice:
    """The back-ends that a profile's pods may choose; the first is the default.

    Invariant: at least one, else ValueError.
    """

    allowed: tuple[IsolationBackend, ...] = (IsolationBackend.NONE,)

    def __post_init__(self) -> None:
        if not self.allowed:
            raise ValueError("a profile needs at least one isolation back-end")

    def allows(self, asked_for: str) -> bool:
        """Whether this is one of them, or ""."""
        return not asked_for or asked_for in self.allowed

    def chosen(self, asked_for: str) -> IsolationBackend:
        """The back-end that the pod chooses by label, if it may, else the first."""
        return next((one for one in self.allowed if one == asked_for), self.allowed[0])


#: For profiles without a choice.
NOTHING_TO_CHOOSE = IsolationChoice()


@dataclass(frozen=True, slots=True)
class Isolation:
    """The back-end of one placement, and the limit of time on each card in milli (0: unknown)."""

    backend: IsolationBackend
    limit_milli: int = 0
