"""NVML's answers about one card, as parts of a reading."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pynvml

from kubeshare_py.domain.card_reading import (
    CardProcess,
    Fabric,
    FarEnd,
    MemoryErrors,
    OwnLink,
    Repair,
)
from kubeshare_py.edges.node.nvml import Nvml
from kubeshare_py.node_agent import nvidia

#: Enough 64-bit words for 1024 NUMA nodes, Linux's most.
_NUMA_WORDS = 16


class NvmlAnswers:
    """Questions about one card or MIG instance, whose uuid is `card`."""

    def __init__(self, nvml: Nvml, card: str, handle: object) -> None:
        self._nvml = nvml
        self._card = card
        self._handle = handle

    def ask(self, function: str, *given: object, silent: tuple[int, ...] = ()) -> Any:
        """The answer of a function for this card."""
        return self._nvml.ask(self._card, function, self._handle, *given, silent=silent)

    def attempt(
        self, function: str, *given: object, silent: tuple[int, ...] = ()
    ) -> tuple[Any, bool]:
        """As `ask`, and whether the driver refused an answer that there is."""
        return self._nvml.attempt(self._card, function, self._handle, *given, silent=silent)

    def attempt_of(self, part: object, function: str) -> tuple[Any, bool]:
        """The same of a part of this card."""
        return self._nvml.attempt(self._card, function, part)

    def memory(self) -> dict[str, Any]:
        """Fields of a reading: total, used and reserved bytes, as far as they can be read.

        `shares_memory` is set if the driver knows neither way of asking for this card: GB10 (DGX
        Spark) and Jetsons use the node's memory, and NVML has none of theirs to report.
        """
        found, is_refused = self.attempt("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)
        if found is not None:
            return {
                "memory_bytes": found.total,
                "used_bytes": found.used,
                "reserved_bytes": found.reserved,
            }
        found, is_refused_too = self.attempt("nvmlDeviceGetMemoryInfo")
        if found is not None:
            return {"memory_bytes": found.total, "used_bytes": found.used}
        return {"memory_bytes": 0, "shares_memory": not is_refused and not is_refused_too}

    def bus(self) -> str:
        """Its bus address."""
        found = self.ask("nvmlDeviceGetPciInfo")
        return "" if found is None else nvidia.bus_address(_text(found.busId))

    def bus_speed(self) -> int | None:
        """The bandwidth of its bus in MB/s."""
        generation = self.ask("nvmlDeviceGetMaxPcieLinkGeneration")
        lanes = self.ask("nvmlDeviceGetMaxPcieLinkWidth")
        return nvidia.bus_speed(generation, lanes) if generation and lanes else None

    def numa_node(self) -> int | None:
        """The first NUMA node near it."""
        scope = pynvml.NVML_AFFINITY_SCOPE_NODE
        found = self.ask("nvmlDeviceGetMemoryAffinity", _NUMA_WORDS, scope)
        for at, word in enumerate(found or ()):
            if word:
                return 64 * at + int(word & -word).bit_length() - 1
        return None

    def links(self) -> tuple[OwnLink, ...]:
        """Its active NVLinks."""
        return tuple(self._links())

    def _links(self) -> Iterator[OwnLink]:
        reported: int | None = None
        for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
            # Older drivers do not report the number of links; asking for one more is an error.
            beyond = (pynvml.NVML_ERROR_INVALID_ARGUMENT,)
            function = "nvmlDeviceGetNvLinkState"
            state, is_refused = self.attempt(function, number, silent=beyond)
            if state is None and not is_refused:
                return
            if not state:
                continue
            reported = reported or self._reported_speed(number)
            version = self.ask("nvmlDeviceGetNvLinkVersion", number) or 0
            kind = self.ask("nvmlDeviceGetNvLinkRemoteDeviceType", number)
            end = FarEnd.OTHER if kind is None else nvidia.far_end(kind)
            remote = None
            if end is FarEnd.CARD:
                remote = self.ask("nvmlDeviceGetNvLinkRemotePciInfo", number)
            bus = "" if remote is None else nvidia.bus_address(_text(remote.busId))
            yield OwnLink(far_end=end, bus=bus, speed=nvidia.link_speed(version, reported))

    def _reported_speed(self, link: int) -> int | None:
        for field in (
            pynvml.NVML_FI_DEV_NVLINK_GET_SPEED,
            pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON,
        ):
            if reported := self._nvml.field(self._card, self._handle, field, link):
                return reported
        return None

    def fabric(self) -> Fabric | None:
        """The network of switches that its links belong to, if the driver knows one."""
        found = pynvml.c_nvmlGpuFabricInfo_v2_t()
        if self.ask("nvmlDeviceGetGpuFabricInfoV", ctypes.byref(found)) is None:
            return None
        if found.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
            return None
        cluster = bytes(found.clusterUuid)
        return Fabric(
            cluster=nvidia.cluster_name(cluster),
            clique=found.cliqueId,
            is_ready=found.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and not found.status,
        )

    def errors(self) -> MemoryErrors:
        """The errors of its memory."""
        rows = self.ask("nvmlDeviceGetRemappedRows") or (None,) * 4
        pages = self.ask("nvmlDeviceGetRetiredPagesPendingStatus")
        return MemoryErrors(
            corrected=self._ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            uncorrected=self._ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            remapped_corrected=rows[0],
            remapped_uncorrected=rows[1],
            remap_waits=None if rows[2] is None else bool(rows[2]),
            remap_failed=None if rows[3] is None else bool(rows[3]),
            retirement_waits=None if pages is None else bool(pages),
        )

    def _ecc(self, kind: int) -> int | None:
        found: int | None = self.ask("nvmlDeviceGetTotalEccErrors", kind, pynvml.NVML_VOLATILE_ECC)
        return found

    def repair(self) -> Repair | None:
        """The repair that the driver asks for."""
        field = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        found = self._nvml.field(self._card, self._handle, field)
        return None if found is None else nvidia.repair(found)

    def usage(self) -> dict[str, int | None]:
        """Its load, temperature and power."""
        rates = self.ask("nvmlDeviceGetUtilizationRates")
        sensor = pynvml.NVML_TEMPERATURE_GPU
        warmth = self.ask("nvmlDeviceGetTemperatureV", sensor)
        if warmth is None:
            warmth = self.ask("nvmlDeviceGetTemperature", sensor)
        return {
            "busy_percent": None if rates is None else rates.gpu,
            "copying_percent": None if rates is None else rates.memory,
            "temperature_celsius": warmth,
            "power_milliwatts": self.ask("nvmlDeviceGetPowerUsage"),
        }

    def processes(self) -> tuple[CardProcess, ...] | None:
        """The processes that use it, by pid; None if the driver does not say, or not all."""
        found: dict[int, CardProcess] = {}
        said = False
        for kind in ("Compute", "Graphics", "MPSCompute"):
            listed, is_refused = self.attempt(f"nvmlDeviceGet{kind}RunningProcesses")
            if is_refused:
                return None
            said = said or listed is not None
            for one in listed or ():
                found[one.pid] = CardProcess(pid=one.pid, memory_bytes=one.usedGpuMemory)
        return tuple(found[pid] for pid in sorted(found)) if said else None


def _text(raw: bytes | str) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw
