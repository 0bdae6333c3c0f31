"""The collector's memory from one reading to the next, and its judgement of cards."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kubeshare_py.domain.card_reading import (
    CardReading,
    IsolationBackend,
    JudgedCard,
    MemoryErrors,
    NodeFeatures,
    NodeReading,
    NotReadyReason,
    Readiness,
    ReadinessReport,
    Repair,
    Unanswered,
    as_labels,
    one_object,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.links import nearest

# Whether a card may take new pods: all rules; docs/inventory.md explains them.


#: The driver no longer lists the card: it fell off the bus.
LOST = "lost"
#: The driver lists the card and cannot describe it.
UNREADABLE = "unreadable"
#: The driver lists the card and has no memory of it to report: the card uses the node's.
MEMORY_UNKNOWN = "memory-unknown"
#: Nothing was read for too long: what is known of the node's cards may be wrong.
STALE = "stale"
MEMORY_ERRORS = "memory-errors"
REMAP_WAITS = "remap-waits"
REMAP_FAILED = "remap-failed"
RETIREMENT_WAITS = "retirement-waits"

#: The names of faults, without driver errors (xid-79).
NAMES = (
    LOST,
    UNREADABLE,
    MEMORY_UNKNOWN,
    STALE,
    MEMORY_ERRORS,
    REMAP_WAITS,
    REMAP_FAILED,
    RETIREMENT_WAITS,
    *(f"repair-{one.value}" for one in Repair if one is not Repair.NONE),
)


def faults(card: CardReading, parent: CardReading | None, happened: Iterable[str]) -> list[str]:
    """The faults of a readable card; empty if it is healthy.

    An instance has its parent's faults too. `happened` are codes of driver errors that are still
    held against the card and are not a program's mistake.
    """
    found = [*_state(card), *(_state(parent) if parent is not None else ()), *happened]
    return sorted(set(found))


def _state(card: CardReading) -> list[str]:
    found = _memory(card.errors)
    if card.repair not in (None, Repair.NONE):
        found.append(f"repair-{card.repair}")
    return found


def _memory(errors: MemoryErrors) -> list[str]:
    return [
        name
        for name, is_wrong in (
            (MEMORY_ERRORS, errors.uncorrected),
            (REMAP_WAITS, errors.remap_waits),
            (REMAP_FAILED, errors.remap_failed),
            (RETIREMENT_WAITS, errors.retirement_waits),
        )
        if is_wrong
    ]


# Which isolation back-ends have what they need of a card: all rules; docs/isolation.md lists them.
#
# A back-end is ready if it has all that it needs; one thing missing is the reason that it is not.


#: The first branch of NVIDIA's driver with memory limits by cgroup.
LIMITING_BRANCH = 615


def readiness(card: CardReading, driver: str, features: NodeFeatures) -> ReadinessReport:
    """The readiness of one card or instance with this driver version; without the unknown."""
    judged = (
        (IsolationBackend.DRIVER, _driver(card, driver, features)),
        (IsolationBackend.MPS, _mps(card, features)),
        (IsolationBackend.GEMINI, _verdict((NotReadyReason.NO_LIBRARY, features.gemini_library))),
        (IsolationBackend.HAMI_CORE, _verdict((NotReadyReason.NO_LIBVGPU, features.hami_library))),
    )
    return one_object(
        tuple(Readiness(backend, reason) for backend, reason in judged if reason is not None)
    )


def _driver(card: CardReading, driver: str, features: NodeFeatures) -> str | None:
    branch = re.match(r"\d+", driver)
    return _verdict(
        (NotReadyReason.MIG, card.parent is None),
        (NotReadyReason.OLD_DRIVER, int(branch[0]) >= LIMITING_BRANCH if branch else None),
        (NotReadyReason.CGROUP_V1, features.cgroup_v2),
        (NotReadyReason.NO_HOOK, features.memory_hook),
    )


def _mps(card: CardReading, features: NodeFeatures) -> str | None:
    daemons = features.mps_daemons
    return _verdict((NotReadyReason.NO_DAEMON, None if daemons is None else card.uuid in daemons))


def _verdict(*needs: tuple[NotReadyReason, bool | None]) -> str | None:
    """The first thing that is missing, "" if all is there; None if something is unknown."""
    for reason, is_there in needs:
        if is_there is False:
            return reason
    return None if any(is_there is None for _, is_there in needs) else ""


# NVIDIA's driver errors (XIDs): what each is to a card, and what ends it.
#
# Numbers and actions are those of NVIDIA's catalogue, column "Resolution Bucket (Immediate
# Action)": https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. Where the
# catalogue names a workflow, or words of its own, the comment beside the numbers says how that is
# read here.


class Cure(StrEnum):
    """What the catalogue wants done about an error. The first two leave the card to new pods."""

    IGNORE = "ignore"
    RESTART_APP = "restart-app"
    RESET = "reset"
    REBOOT = "reboot"
    CONTACT = "contact-support"


#: Errors that programs cause, as NVIDIA's device plugin ignores them, but for 109: the plugin
#: ignores that too, while the catalogue wants a reset.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68})

CURES: Mapping[int, Cure] = {
    **dict.fromkeys((14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121), Cure.IGNORE),
    **dict.fromkeys((137, 141, 152, 153, 157, 160, 161), Cure.IGNORE),
    # WORKFLOW_XID_45: the cleanup after another error, which has a number of its own.
    45: Cure.IGNORE,
    # XID_154: says that the recovery action changed, which is read by itself.
    154: Cure.IGNORE,
    # Power smoothing is on, off or at its end; no reset is required.
    **dict.fromkeys((162, 163, 164, 165), Cure.IGNORE),
    **dict.fromkeys((8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69), Cure.RESTART_APP),
    **dict.fromkeys((70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89), Cure.RESTART_APP),
    94: Cure.RESTART_APP,
    **dict.fromkeys(range(96, 106), Cure.RESTART_APP),
    **dict.fromkeys((*range(126, 136), 139), Cure.RESTART_APP),
    **dict.fromkeys((46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156), Cure.RESET),
    158: Cure.RESET,
    # WORKFLOW_XID_48, and 171 and 172, its details: "a GPU reset or node reboot is needed".
    **dict.fromkeys((48, 171, 172), Cure.RESET),
    # WORKFLOW_NVLINK_ERR: the same words. WORKFLOW_NVLINK5_ERR depends on details that NVML does
    # not report; drivers for such cards name a recovery action.
    **dict.fromkeys((74, *range(144, 151)), Cure.RESET),
    # RESTART_BM and RESTART_VM.
    **dict.fromkeys((79, 151), Cure.REBOOT),
    # CHECK_MECHANICALS, UPDATE_SWFW and CONTACT_SUPPORT.
    **dict.fromkeys((54, 78, 142), Cure.CONTACT),
}

_PREFIX = "xid-"


def xid_code(xid: int) -> str:
    """The name of an XID in faults and metrics."""
    return f"{_PREFIX}{xid}"


def cure(code: str) -> Cure:
    """What ends an error by its name; an error that the catalogue does not explain wants a reset.

    Other vendors' codes are not in the catalogue either.
    """
    number = code.removeprefix(_PREFIX)
    known = number.isdecimal() and code.startswith(_PREFIX)
    return CURES.get(int(number), Cure.RESET) if known else Cure.RESET


def takes_card_out(code: str) -> bool:
    """Whether a card with this error takes no new pods until the error is over."""
    return cure(code) not in (Cure.IGNORE, Cure.RESTART_APP)


#: What to do about a card whose driver has no memory to report.
SAY_MEMORY = "the driver reports no memory of this card: set collector.memory"
#: The least time (s) that a driver error counts, even if the driver wants no repair.
ERROR_KEPT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A line for the log; `is_trouble`: a person should look at it."""

    event: str
    about: Mapping[str, object]
    is_trouble: bool = True


@dataclass(slots=True)
class History:
    """The readings of one node, taken in one after the other. `now` (s) is of any one clock."""

    reading: NodeReading | None = None
    read_at: float | None = None
    #: Driver errors by card and code, programs' mistakes included; and unanswered questions.
    errors: Counter[tuple[GpuUuid, str]] = field(default_factory=Counter)
    unanswered: Counter[tuple[str, str]] = field(default_factory=Counter)
    _cards: dict[GpuUuid, CardReading] = field(default_factory=dict)
    _missing: dict[GpuUuid, str] = field(default_factory=dict)
    #: When (s) an error was last seen that takes its card out.
    _held: dict[GpuUuid, dict[str, float]] = field(default_factory=dict)
    _unanswered_before: frozenset[Unanswered] = frozenset()
    _faults: Mapping[GpuUuid, tuple[str, ...]] = field(default_factory=dict)
    _readiness: Mapping[GpuUuid, ReadinessReport] = field(default_factory=dict)

    def take(self, reading: NodeReading, now: float) -> list[Notice]:
        """Take in a reading; what has changed, for the log."""
        first, before = self.reading is None, self.reading or NodeReading()
        self.reading, self.read_at = reading, now
        if before.driver and reading.driver and before.driver != reading.driver:
            # Another driver was loaded, which resets all cards: earlier errors are over.
            self._held.clear()
        self._compare(reading)
        notices = [*self._counted(reading, now)]
        self._forget(now)
        notices += [*self._judged(), *self._isolation(reading), *self._questions(reading)]
        if first or (before.driver, before.no_driver) != (reading.driver, reading.no_driver):
            about = {"cards": len(reading.cards), "driver": reading.driver or reading.no_driver}
            notices.append(Notice(event="driver", about=about, is_trouble=False))
        return notices

    def cards(self, *, stale: bool = False) -> tuple[JudgedCard, ...]:
        """Every known card, those that are gone included, by index and uuid.

        `stale`: the last reading is too old to call a card healthy.
        """
        last = self.reading or NodeReading()
        read = {card.uuid for card in (*last.cards, *last.unreadable)}
        return tuple(
            JudgedCard(
                reading=card,
                faults=(*self._faults.get(card.uuid, ()), *([STALE] if stale else [])),
                is_gone=self._missing.get(card.uuid) == LOST,
                is_read=card.uuid in read,
                readiness=self._readiness.get(card.uuid, ()),
            )
            for card in sorted(self._cards.values(), key=lambda card: (card.index, card.uuid))
        )

    def _counted(self, reading: NodeReading, now: float) -> Iterator[Notice]:
        for error in reading.happened:
            self.errors[error.uuid, error.code] += 1
            if not error.is_application and takes_card_out(error.code):
                self._held.setdefault(error.uuid, {})[error.code] = now
            about = {"card": error.uuid, "code": error.code, "cure": cure(error.code).value}
            yield Notice(event="driver-error", about=about, is_trouble=not error.is_application)
        for question in reading.unanswered:
            self.unanswered[question.question, question.error] += 1

    def _questions(self, reading: NodeReading) -> Iterator[Notice]:
        asked = frozenset(reading.unanswered)
        for one in sorted(
            asked - self._unanswered_before, key=lambda one: (one.card, one.question)
        ):
            about = {"card": one.card, "question": one.question, "error": one.error}
            yield Notice(event="unanswered", about=about)
        self._unanswered_before = asked

    def _compare(self, reading: NodeReading) -> None:
        """Which cards are there, came back, or are missing."""
        read = {card.uuid: card for card in reading.cards}
        unreadable = {card.uuid: card for card in reading.unreadable if card.uuid not in read}
        for uuid in self._missing.keys() & (read.keys() | unreadable.keys()):
            if self._missing.pop(uuid) == LOST:
                # The card or the driver was reset: earlier errors are over.
                self._held.pop(uuid, None)
        for uuid, card in unreadable.items():
            known = self._cards.get(uuid, card)
            unreadable[uuid] = replace(
                card,
                index=known.index,
                model=known.model or card.model,
                memory_bytes=known.memory_bytes,
            )
            self._missing[uuid] = MEMORY_UNKNOWN if card.shares_memory else UNREADABLE
        there = read | unreadable
        for uuid, card in there.items():
            if card.divided is None and uuid in self._cards:
                # The driver does not tell the mode now; a card does not change it by itself.
                there[uuid] = replace(card, divided=self._cards[uuid].divided)
        for uuid, card in [*self._cards.items()]:
            if uuid in there:
                continue
            parent = there.get(card.parent) if card.parent else None
            if card.parent is None:
                self._missing[uuid] = LOST
            elif parent is not None and parent.hides_parts:
                self._missing[uuid] = UNREADABLE
            else:
                # The administrator may remove instances.
                del self._cards[uuid]
                self._held.pop(uuid, None)
                self._missing.pop(uuid, None)
        self._cards.update(there)

    def _forget(self, now: float) -> None:
        for uuid, codes in self._held.items():
            card = self._cards.get(uuid)
            whole = self._cards.get(card.parent, card) if card and card.parent else card
            if whole is not None and whole.repair is Repair.NONE:
                for code in [code for code, at in codes.items() if now - at >= ERROR_KEPT_S]:
                    del codes[code]

    def _judged(self) -> Iterator[Notice]:
        found = {
            uuid: tuple(
                [self._missing[uuid]]
                if uuid in self._missing
                else faults(
                    card,
                    self._cards.get(card.parent) if card.parent else None,
                    [*self._held.get(uuid, ()), *self._held.get(card.parent or uuid, ())],
                )
            )
            for uuid, card in self._cards.items()
        }
        for uuid in sorted(found):
            if found[uuid] != self._faults.get(uuid, ()):
                about: dict[str, object] = {"card": uuid, "faults": list(found[uuid])}
                if MEMORY_UNKNOWN in found[uuid]:
                    about |= {"model": self._cards[uuid].model, "message": SAY_MEMORY}
                yield Notice(event="health", about=about, is_trouble=bool(found[uuid]))
        self._faults = found

    def _isolation(self, reading: NodeReading) -> Iterator[Notice]:
        """Which back-ends are not ready, and why; for known cards, only what is new."""
        found = {
            card.uuid: readiness(card, reading.driver, reading.features) for card in reading.cards
        }
        for uuid in sorted(found.keys() & self._readiness.keys()):
            for one in found[uuid]:
                if one not in self._readiness[uuid]:
                    about = {"card": uuid, **dict(as_labels((one,)))}
                    yield Notice(event="isolation", about=about, is_trouble=bool(one.reason))
        self._readiness = found


def given_away(cards: tuple[JudgedCard, ...]) -> tuple[Gpu, ...]:
    """The cards that pods may be placed on; divided cards by their instances."""
    return tuple(
        Gpu(
            uuid=card.reading.uuid,
            index=card.reading.index,
            model=card.reading.model,
            memory_bytes=card.reading.memory_bytes,
            healthy=not card.faults,
            numa_node=card.reading.numa_node,
            parent=card.reading.parent,
            fabric=_fabric(card.reading),
            readiness=card.readiness,
            rdma=nearest(path for _, path in card.reading.rdma),
        )
        for card in cards
        if card.is_listed
    )


def _fabric(card: CardReading) -> str:
    """Cluster and clique, as in the label nvidia.com/gpu.clique; "" for a fabric of one node."""
    fabric = card.fabric
    if fabric is None or not fabric.cluster or not fabric.is_ready:
        return ""
    return f"{fabric.cluster}.{fabric.clique}"
