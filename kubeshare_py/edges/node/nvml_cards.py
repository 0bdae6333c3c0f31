"""The cards of a node with NVIDIA's driver: a CardReader."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import pynvml

from kubeshare_py.domain.card_reading import (
    BusPath,
    CardReading,
    DriverError,
    NodeReading,
    Unanswered,
)
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.quantity import CARD_BYTES, CARDS_OF_NODE
from kubeshare_py.edges.node.nvml import (
    WHOLE_CARD,
    ErrorEvents,
    NoDriver,
    Nvml,
    NvmlAnswers,
    NvmlFailed,
)
from kubeshare_py.node_agent import nvidia

# All cards of a node through one open session of NVIDIA's library.


#: The most instances of one card; NVIDIA's have seven at most.
_MAX_INSTANCES = 64
#: Errors for numbers without an instance.
_HOLES = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT)


@dataclass(slots=True)
class _Parts:
    """The MIG instances of a card; `hidden` if the driver refused a question about them."""

    cards: list[CardReading] = field(default_factory=list)
    hidden: bool = False


class NvmlSession:
    """The open library. Constant properties are asked once."""

    def __init__(self) -> None:
        """Raises NvmlFailed."""
        #: Whether the last reading missed a card that the driver still counts.
        self.has_lost = False
        self.events: ErrorEvents | None = None
        self._nvml = Nvml()
        self._fixed: dict[GpuUuid, CardReading] = {}
        #: The whole memory as first read, in bytes.
        self._totals: dict[GpuUuid, int] = {}
        self._paths: dict[frozenset[GpuUuid], BusPath | None] = {}
        self._instances: dict[tuple[GpuUuid, int], list[GpuUuid]] = {}
        try:
            self.events = self._events()
        except NvmlFailed:
            self.close()
            raise

    def close(self) -> None:
        """Close it."""
        if self.events is not None:
            self.events.close()
        self._nvml.close()

    def read(self) -> NodeReading:
        """All cards now; raises NvmlFailed if they cannot even be counted."""
        nvml = self._nvml
        nvml.lost.clear()
        self.has_lost = False
        self._instances.clear()
        handles: dict[GpuUuid, object] = {}
        cards: list[CardReading] = []
        for index, handle, uuid in self._handles():
            found = None if uuid is None else self._card(index, handle, uuid)
            if uuid is None or found is None or uuid in nvml.lost:
                self.has_lost = True
                continue
            handles[uuid] = handle
            cards += self._with_parts(found, handle)
        self._join(handles)
        cards = [self._with_paths(card, handles) for card in cards]
        driver = nvml.ask("", "nvmlSystemGetDriverVersion") or ""
        unanswered, nvml.unanswered = tuple(nvml.unanswered), []
        return NodeReading(
            cards=tuple(card for card in cards if _is_readable(card)),
            unreadable=tuple(card for card in cards if not _is_readable(card)),
            unanswered=unanswered,
            driver=driver,
        )

    def of_instances(self, error: DriverError, instance: int) -> tuple[DriverError, ...]:
        """An error, once for each card or instance that it concerns."""
        if instance == WHOLE_CARD:
            return (error,)
        uuids = self._instances.get((error.uuid, instance), [error.uuid])
        return tuple(replace(error, uuid=uuid) for uuid in uuids)

    def _events(self) -> ErrorEvents | None:
        handles = {uuid: handle for _, handle, uuid in self._handles() if uuid is not None}
        events = ErrorEvents(self._nvml, handles)
        if events.are_told:
            return events
        events.close()
        return None

    def _handles(self) -> Iterator[tuple[int, object, GpuUuid | None]]:
        """Index, handle and uuid of each card; raises NvmlFailed if they cannot be counted."""
        count = self._nvml.ask("", "nvmlDeviceGetCount")
        if count is None:
            error = self._nvml.unanswered[-1].error if self._nvml.unanswered else "no answer"
            raise NvmlFailed(f"nvmlDeviceGetCount: {error}")
        problem = CARDS_OF_NODE.problem(count)
        if problem:
            raise NvmlFailed(f"nvmlDeviceGetCount: {problem}")
        for index in range(count):
            handle = self._nvml.ask(str(index), "nvmlDeviceGetHandleByIndex", index)
            uuid = None
            if handle is not None:
                uuid = self._nvml.ask(str(index), "nvmlDeviceGetUUID", handle)
            yield index, handle, None if uuid is None else GpuUuid(uuid)

    def _card(self, index: int, handle: object, uuid: GpuUuid) -> CardReading:
        """One card; its memory is 0 if its name or memory cannot be read."""
        answers = NvmlAnswers(self._nvml, uuid, handle)
        fixed = self._fixed.get(uuid) or self._first(index, answers, uuid)
        mode = answers.ask("nvmlDeviceGetMigMode")
        given = {**self._memory(answers, uuid, fixed.model), **answers.usage()}
        return replace(
            fixed,
            index=index,
            divided=None if mode is None else bool(mode[0]),
            links=answers.links(),
            fabric=answers.fabric(),
            errors=answers.errors(),
            repair=answers.repair(),
            processes=answers.processes(),
            **given,
        )

    def _first(self, index: int, answers: NvmlAnswers, uuid: GpuUuid) -> CardReading:
        """Its constant properties; asked again with the next reading if any was refused."""
        before = len(self._nvml.unanswered)
        fixed = CardReading(
            uuid=uuid,
            index=index,
            model=answers.ask("nvmlDeviceGetName") or "",
            memory_bytes=0,
            bus=answers.bus(),
            bus_speed=answers.bus_speed(),
            numa_node=answers.numa_node(),
        )
        if len(self._nvml.unanswered) == before:
            self._fixed[uuid] = fixed
        return fixed

    def _memory(self, answers: NvmlAnswers, uuid: GpuUuid, model: str) -> dict[str, Any]:
        """Fields about its memory; the total is 0 without a model.

        The total of the first reading stays: it is physical, and two ways of asking for it that
        differ would otherwise change the card's capacity from one reading to the next.
        """
        given = answers.memory()
        if not model:
            return {"memory_bytes": 0}
        if CARD_BYTES.allows(given["memory_bytes"]):
            given["memory_bytes"] = self._totals.setdefault(uuid, given["memory_bytes"])
        return given

    def _with_parts(self, card: CardReading, handle: object) -> list[CardReading]:
        """A card and its MIG instances.

        Where the driver does not tell the mode, it may tell of instances, which a card has in MIG
        mode only.
        """
        if card.divided is False:
            return [card]
        parts = self._parts(card, handle)
        divided = True if parts.cards else card.divided
        return [replace(card, divided=divided, hides_parts=parts.hidden), *parts.cards]

    def _parts(self, card: CardReading, handle: object) -> _Parts:
        whole, found = NvmlAnswers(self._nvml, card.uuid, handle), _Parts()
        most, found.hidden = whole.attempt("nvmlDeviceGetMaxMigDeviceCount")
        if most is None and (card.divided or found.hidden):
            # The driver says how many numbers there are by refusing those that are not.
            most, found.hidden = _MAX_INSTANCES, False
        for number in range(min(most or 0, _MAX_INSTANCES)):
            function = "nvmlDeviceGetMigDeviceHandleByIndex"
            part, is_hidden = whole.attempt(function, number, silent=_HOLES)
            uuid = None
            if part is not None:
                uuid, is_hidden = whole.attempt_of(part, "nvmlDeviceGetUUID")
            found.hidden = found.hidden or is_hidden
            if uuid is not None:
                found.cards.append(self._part(card, part, uuid))
        return found

    def _part(self, card: CardReading, handle: object, uuid: GpuUuid) -> CardReading:
        """One MIG instance; its memory is 0 if it cannot be read."""
        answers = NvmlAnswers(self._nvml, uuid, handle)
        name = answers.ask("nvmlDeviceGetName") or ""
        memory = self._memory(answers, uuid, name)
        instance = answers.ask("nvmlDeviceGetGpuInstanceId")
        if instance is not None:
            self._instances.setdefault((card.uuid, instance), []).append(uuid)
        size = answers.ask("nvmlDeviceGetAttributes")
        slices = size.gpuInstanceSliceCount if size is not None else 0
        megabytes = size.memorySizeMB if size is not None else 0
        return CardReading(
            uuid=uuid,
            index=card.index,
            model=name,
            parent=card.uuid,
            profile=nvidia.profile(name, slices, megabytes),
            bus=card.bus,
            numa_node=card.numa_node,
            processes=answers.processes(),
            **memory,
        )

    def _join(self, handles: dict[GpuUuid, object]) -> None:
        for one, other in combinations(handles, 2):
            pair = frozenset((one, other))
            if pair not in self._paths:
                function = "nvmlDeviceGetTopologyCommonAncestor"
                level, is_refused = self._nvml.attempt(one, function, handles[one], handles[other])
                if not is_refused:
                    self._paths[pair] = None if level is None else nvidia.bus_path(level)

    def _with_paths(self, card: CardReading, handles: dict[GpuUuid, object]) -> CardReading:
        if card.uuid not in handles:
            return card
        paths = (
            (other, path)
            for other in handles
            if other != card.uuid
            and (path := self._paths.get(frozenset((card.uuid, other)))) is not None
        )
        return replace(card, paths=tuple(paths))


def _is_readable(card: CardReading) -> bool:
    """Whether it can be given away, or its instances can: a divided card needs no memory."""
    return card.memory_bytes > 0 or bool(card.divided)


#: Seconds between openings of the library while a card is lost, which is only found again in this
#: way.
REOPEN_S = 60.0


class NvmlCards:
    """Reads with one session of the library as long as that works."""

    def __init__(
        self, reopen_s: float = REOPEN_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reopen_s = reopen_s
        self._clock = clock
        self._session: NvmlSession | None = None
        self._opened_at = 0.0
        self._happened: list[DriverError] = []
        self._unanswered: list[Unanswered] = []

    def read(self) -> NodeReading:
        """All cards. Raises NvmlFailed if nothing can be read."""
        began = self._clock()
        try:
            if self._session is None:
                self._session, self._opened_at = NvmlSession(), began
            found = self._session.read()
        except NoDriver as why:
            return NodeReading(no_driver=str(why), took_s=self._clock() - began)
        except NvmlFailed:
            self._close()
            raise
        happened, self._happened = tuple(self._happened), []
        unanswered = (*self._unanswered, *found.unanswered)
        self._unanswered = []
        if self._session.has_lost and began - self._opened_at >= self._reopen_s:
            self._close()
        took_s = self._clock() - began
        return replace(found, happened=happened, unanswered=unanswered, took_s=took_s)

    def wait(self, timeout_s: float) -> tuple[DriverError, ...] | None:
        """The errors of cards within `timeout_s`; the next reading has them too."""
        if self._session is None or self._session.events is None:
            return None
        try:
            found = self._session.events.wait(timeout_s)
        except NvmlFailed as error:
            # Tried again when the library is opened again.
            self._session.events = None
            self._unanswered.append(
                Unanswered(card="", question="nvmlEventSetWait_v2", error=str(error))
            )
            return None
        errors = () if found is None else self._session.of_instances(*found)
        self._happened += errors
        return errors

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
