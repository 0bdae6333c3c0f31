"""All cards of a node through one open session of NVIDIA's library."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import pynvml

from kubeshare_py.domain.bounds import CARDS_OF_NODE
from kubeshare_py.domain.card_reading import (
    BusPath,
    CardReading,
    DriverError,
    NodeReading,
)
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.nvml import WHOLE_CARD, ErrorEvents, Nvml, NvmlFailed
from kubeshare_py.edges.node.nvml_answers import NvmlAnswers
from kubeshare_py.node_agent import nvidia

#: The most instances of one card; NVIDIA's have seven at most.
_MAX_INSTANCES = 64


class NvmlSession:
    """The open library. Constant properties are asked once."""

    def __init__(self) -> None:
        """Raises NvmlFailed."""
        #: Whether the last reading missed a card that the driver still counts.
        self.has_lost = False
        self.events: ErrorEvents | None = None
        self._nvml = Nvml()
        self._fixed: dict[GpuUuid, CardReading] = {}
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
            cards += [found, *(self._parts(found, handle) if found.divided else ())]
        self._join(handles)
        driver = nvml.ask("", "nvmlSystemGetDriverVersion") or ""
        unanswered, nvml.unanswered = tuple(nvml.unanswered), []
        return NodeReading(
            cards=tuple(self._with_paths(card, handles) for card in cards if card.memory_bytes),
            unreadable=tuple(card for card in cards if not card.memory_bytes),
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
        """One card; its memory is 0 if it cannot be read."""
        answers = NvmlAnswers(self._nvml, uuid, handle)
        fixed = self._fixed.get(uuid) or self._first(index, answers, uuid)
        memory = answers.memory()
        if not fixed.model or memory is None:
            return replace(fixed, index=index)
        self._fixed[uuid] = fixed
        mode = answers.ask("nvmlDeviceGetMigMode")
        given: dict[str, Any] = {**memory, **answers.usage()}
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
        return CardReading(
            uuid=uuid,
            index=index,
            model=answers.ask("nvmlDeviceGetName") or "",
            memory_bytes=0,
            bus=answers.bus(),
            bus_speed=answers.bus_speed(),
            numa_node=answers.numa_node(),
        )

    def _parts(self, card: CardReading, handle: object) -> Iterator[CardReading]:
        """Its MIG instances."""
        holes = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT)
        whole = NvmlAnswers(self._nvml, card.uuid, handle)
        most = whole.ask("nvmlDeviceGetMaxMigDeviceCount") or 0
        for number in range(min(most, _MAX_INSTANCES)):
            part = whole.ask("nvmlDeviceGetMigDeviceHandleByIndex", number, silent=holes)
            uuid = None if part is None else whole.ask_of(part, "nvmlDeviceGetUUID")
            if uuid is not None:
                yield self._part(card, part, uuid)

    def _part(self, card: CardReading, handle: object, uuid: GpuUuid) -> CardReading:
        """One MIG instance; its memory is 0 if it cannot be read."""
        answers = NvmlAnswers(self._nvml, uuid, handle)
        name, memory = answers.ask("nvmlDeviceGetName"), answers.memory()
        instance = answers.ask("nvmlDeviceGetGpuInstanceId")
        if instance is not None:
            self._instances.setdefault((card.uuid, instance), []).append(uuid)
        size = answers.ask("nvmlDeviceGetAttributes")
        slices = size.gpuInstanceSliceCount if size is not None else 0
        megabytes = size.memorySizeMB if size is not None else 0
        given: dict[str, Any] = memory if name and memory else {"memory_bytes": 0}
        return CardReading(
            uuid=uuid,
            index=card.index,
            model=name or "",
            parent=card.uuid,
            profile=nvidia.profile(name or "", slices, megabytes),
            bus=card.bus,
            numa_node=card.numa_node,
            processes=answers.processes(),
            **given,
        )

    def _join(self, handles: dict[GpuUuid, object]) -> None:
        for one, other in combinations(handles, 2):
            pair = frozenset((one, other))
            if pair not in self._paths:
                function = "nvmlDeviceGetTopologyCommonAncestor"
                level = self._nvml.ask(one, function, handles[one], handles[other])
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
