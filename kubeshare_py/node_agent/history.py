"""The collector's memory from one reading to the next, and its judgement of cards."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kubeshare_py.domain.card_reading import (
    CardReading,
    JudgedCard,
    NodeReading,
    Repair,
    Unanswered,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.readiness import ReadinessReport, as_labels
from kubeshare_py.node_agent.health import LOST, MEMORY_UNKNOWN, STALE, UNREADABLE, faults
from kubeshare_py.node_agent.needs import readiness
from kubeshare_py.node_agent.rdma import nearest
from kubeshare_py.node_agent.xids import cure, takes_card_out

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
