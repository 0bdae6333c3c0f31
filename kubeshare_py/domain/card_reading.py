"""A driver's report on the cards of one node, in vendor-independent terms.

None stands for what the driver does not report: an older driver, another vendor, a virtual card.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.remembered import remembered

# Isolation back-ends, which keep a card's tenants within their shares, and their choice.


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
        for one in self.allowed if asked_for else ():
            if one == asked_for:
                return one
        return self.allowed[0]


#: For profiles without a choice.
NOTHING_TO_CHOOSE = IsolationChoice()


@dataclass(frozen=True, slots=True)
class Isolation:
    """The back-end of one placement, and the limit of time on each card in milli (0: unknown)."""

    backend: IsolationBackend
    limit_milli: int = 0


# Whether a card has what an isolation back-end needs, as far as its node reports.
#
# A back-end without a report is not known to work, nor not to.


class NotReadyReason(StrEnum):
    """Why a back-end is not ready on a card, as collectors name it. Any other name becomes `OTHER`.

    Otherwise arbitrary names would make the scheduler remember each of them.
    """

    OLD_DRIVER = "old-driver"
    CGROUP_V1 = "cgroup-v1"
    MIG = "mig"
    NO_HOOK = "no-hook"
    NO_DAEMON = "no-daemon"
    NO_LIBRARY = "no-library"
    NO_LIBVGPU = "no-libvgpu"
    OTHER = "other"


#: The word for nothing missing.
READY = "ready"
#: The back-ends that need something of the card's node.
NEEDY = tuple(one for one in IsolationBackend if one is not IsolationBackend.NONE)

#: Words that follow "it has" and "GPUs with".
_WORDS: Mapping[str, str] = {
    NotReadyReason.OLD_DRIVER: "a driver older than r615",
    NotReadyReason.CGROUP_V1: "cgroup v1 on its node",
    NotReadyReason.MIG: "MIG, whose instances the driver does not limit",
    NotReadyReason.NO_HOOK: "no CDI specification with the hook for memory limits",
    NotReadyReason.NO_DAEMON: "no running MPS daemon",
    NotReadyReason.NO_LIBRARY: "no libgemhook.so.1 on its node",
    NotReadyReason.NO_LIBVGPU: "no libvgpu.so on its node",
    NotReadyReason.OTHER: "something missing that this version does not know",
}


@dataclass(frozen=True, slots=True)
class Readiness:
    """Why one back-end is not ready on a card; "" if it is, as far as can be seen."""

    backend: IsolationBackend
    reason: str = ""


#: The readiness of one card: each back-end with a report, once.
ReadinessReport = tuple[Readiness, ...]


def not_ready_reason(report: ReadinessReport, backend: IsolationBackend) -> str | None:
    """Why a back-end is not ready, "" if it is; None if unknown."""
    if backend is IsolationBackend.NONE:
        return ""
    return next((one.reason for one in report if one.backend is backend), None)


def in_words(reason: str) -> str:
    """What a card has, or lacks, that prevents a back-end from working."""
    return _WORDS[reason]


def as_labels(report: ReadinessReport) -> tuple[tuple[str, str], ...]:
    """For each back-end with a report: `READY`, or why it is not ready."""
    return tuple((one.backend.value, one.reason or READY) for one in report)


def of_labels(labels: Iterable[tuple[str, str]]) -> ReadinessReport:
    """The reverse of `as_labels`; unknown back-ends and those with "" are left out."""
    return _of_labels(tuple(labels))


@lru_cache(maxsize=1024)
def one_object(report: ReadinessReport) -> ReadinessReport:
    """The same object for equal values: tens of thousands of cards need not keep a copy each."""
    return report


@remembered(1024)
def _of_labels(labels: tuple[tuple[str, str], ...]) -> ReadinessReport:
    words = dict(labels)
    return one_object(
        tuple(
            Readiness(backend, "" if word == READY else _known(word))
            for backend in NEEDY
            if (word := words.get(backend, ""))
        )
    )


def _known(word: str) -> NotReadyReason:
    return NotReadyReason(word) if word in _WORDS else NotReadyReason.OTHER


#: The most addresses on the way to a device that is at no switch: root complex, root port, itself.
_SWITCHED = 3


class BusPath(StrEnum):
    """What lies between two devices besides their own links, from near to far.

    The words are those of `nvidia-smi topo -m`.
    """

    PIX = "PIX"  # at most one PCIe switch, or the same board
    PXB = "PXB"  # several PCIe switches, no host bridge
    PHB = "PHB"  # a PCIe host bridge
    NODE = "NODE"  # several host bridges of one NUMA node
    SYS = "SYS"  # several NUMA nodes


#: From near to far.
PATHS = tuple(BusPath)


class FarEnd(StrEnum):
    """What a card's own link leads to."""

    CARD = "card"
    SWITCH = "switch"
    OTHER = "other"


class Repair(StrEnum):
    """What a card needs before it works again, as its driver reports."""

    NONE = "none"
    RESET = "reset"
    DRAIN_AND_RESET = "drain-and-reset"
    REBOOT = "reboot"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLink:
    """An active link of a card that is not its bus: NVLink, xGMI.

    `bus` is the bus address of a card at the far end; `speed` is in MB/s, both directions summed.
    """

    far_end: FarEnd
    speed: int
    bus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The switched network of a card's links; it spans nodes whose cards have both names in common.

    `is_ready`: the card may use it. `cluster` is "" if the network ends at the node.
    """

    cluster: str
    clique: int
    is_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaDevice:
    """An RDMA device of a node, such as mlx5_0.

    `way` are the PCI addresses from the root complex (pci0000:00) over ports and switches to the
    device itself; at least the root complex and the device.
    """

    name: str
    way: tuple[str, ...]
    numa_node: int | None = None

    @property
    def bus(self) -> str:
        """Its own PCI address."""
        return self.way[-1]

    @property
    def switch(self) -> str:
        """The upstream port of the PCIe switch that it is at; "" for none.

        Between root complex and device are a root port, and the two ports of each switch.
        """
        return self.way[-3] if len(self.way) > _SWITCHED else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardProcess:
    """A process that uses a card; `pid` is the host's."""

    pid: int
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryErrors:
    """Errors since the card's last reset, and rows of its memory that were replaced by spares.

    A pending replacement or page retirement needs a reset.
    """

    corrected: int | None = None
    uncorrected: int | None = None
    remapped_corrected: int | None = None
    remapped_uncorrected: int | None = None
    remap_waits: bool | None = None
    remap_failed: bool | None = None
    retirement_waits: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReading:
    """One card.

    A card that is `divided` (MIG mode) is not given to pods; its instances are: cards with a
    `parent` and a `profile` such as 1g.5gb; `hides_parts`: the driver refused a question about
    them, and there may be others. `memory_bytes` is the card's whole memory, 0 if it is not known;
    `shares_memory`: the driver has none to report, because the card uses the node's.
    `reserved_bytes` the driver's part of it; `used_bytes` includes that part only if
    `reserved_bytes` is None. `busy_percent` is the part of the time in which something ran,
    `copying_percent` that in which memory was read or written. `bus_speed` is the bandwidth of this
    card's bus in MB/s, both directions summed. `paths` name the other whole cards of the node,
    `rdma` its RDMA devices.
    """

    uuid: GpuUuid
    index: int
    model: str
    memory_bytes: int
    reserved_bytes: int | None = None
    used_bytes: int | None = None
    shares_memory: bool = False
    divided: bool | None = None
    hides_parts: bool = False
    parent: GpuUuid | None = None
    profile: str = ""
    bus: str = ""
    bus_speed: int | None = None
    numa_node: int | None = None
    paths: tuple[tuple[GpuUuid, BusPath], ...] = ()
    rdma: tuple[tuple[str, BusPath], ...] = ()
    links: tuple[OwnLink, ...] = ()
    fabric: Fabric | None = None
    errors: MemoryErrors = MemoryErrors()
    repair: Repair | None = None
    busy_percent: int | None = None
    copying_percent: int | None = None
    temperature_celsius: int | None = None
    power_milliwatts: int | None = None
    processes: tuple[CardProcess, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverError:
    """One error of a card. `code` is the driver's own, such as xid-79.

    `is_application`: a program's mistake, which does not affect the card.
    """

    uuid: GpuUuid
    code: str
    is_application: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """A question to which the driver gave an error instead of an answer.

    `card` is its uuid, or its index if the uuid could not be read, or "" for the whole node.
    """

    card: str
    question: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFeatures:
    """What a node shows of the needs of isolation back-ends; None is unknown.

    `memory_hook`: whether a CDI specification of cards has the hook that sets memory limits.
    `mps_daemons` are the cards with a running daemon. `gemini_library`, `hami_library`: whether it
    is there.
    """

    cgroup_v2: bool | None = None
    memory_hook: bool | None = None
    mps_daemons: tuple[GpuUuid, ...] | None = None
    gemini_library: bool | None = None
    hami_library: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """All cards of a node at one instant, and the errors since the last reading.

    `unreadable` are cards that are there but could not be given away: their memory is 0, and they
    are not divided. `driver` is its
    version; `no_driver` says why there is none, on a node that has no cards either. `took_s` is the
    duration of the reading.
    """

    cards: tuple[CardReading, ...] = ()
    unreadable: tuple[CardReading, ...] = ()
    happened: tuple[DriverError, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()
    driver: str = ""
    no_driver: str = ""
    took_s: float = 0.0
    features: NodeFeatures = NodeFeatures()
    rdma: tuple[RdmaDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCard:
    """A card as last read, with its faults in order; a healthy card has none.

    `is_gone`: the driver no longer lists it. `is_read`: the last reading has it, readable or not.
    `readiness` says which isolation back-ends have what they need of it.
    """

    reading: CardReading
    faults: tuple[str, ...] = ()
    is_gone: bool = False
    is_read: bool = True
    readiness: ReadinessReport = ()

    @property
    def is_listed(self) -> bool:
        """Whether pods may get this card, while it has no fault."""
        there = not self.is_gone and self.reading.memory_bytes > 0
        return there and not self.reading.divided


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLink:
    """How two cards reach each other: the best way, as a word of `nvidia-smi topo -m`.

    `speed` is the bandwidth of that way in MB/s, both directions summed; 0 if unknown.
    """

    uuid: GpuUuid
    peer: GpuUuid
    kind: str
    speed: int
