"""NVIDIA's management library through pynvml: one open session, and its answers.

Functions are named as strings, which go into metrics and the log if there is no answer.
https://docs.nvidia.com/deploy/nvml-api/
"""

import ctypes
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pynvml

from kubeshare_py.domain.card_reading import (
    CardProcess,
    DriverError,
    Fabric,
    FarEnd,
    MemoryErrors,
    OwnLink,
    Repair,
    Unanswered,
)
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent import nvidia
from kubeshare_py.node_agent.history import APPLICATION_XIDS, xid_code

#: The driver lacks this for such a card, or is too old for it.
_SAYS_NOTHING = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
_NO_DRIVER = frozenset({pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED})
#: gpuInstanceId of an error that is not of one MIG instance.
WHOLE_CARD = 0xFFFFFFFF


class NvmlFailed(OSError):
    """The library cannot be used. The text is its error."""


class NoDriver(NvmlFailed):
    """This node has no driver."""


class Nvml:
    """An open session. `ask` fills `unanswered` and `lost`, and the caller empties them."""

    def __init__(self) -> None:
        """Raises NvmlFailed."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            kind = NoDriver if error.value in _NO_DRIVER else NvmlFailed
            raise kind(_name(error)) from error
        self.unanswered: list[Unanswered] = []
        #: Cards (as given to `ask`) that the driver reported as lost.
        self.lost: set[str] = set()

    def close(self) -> None:
        """End the session; errors of the library are ignored."""
        self.ask("", "nvmlShutdown")

    def ask(self, card: str, function: str, *given: object, silent: Collection[int] = ()) -> Any:
        """The answer of a pynvml function; None if the driver does not say.

        Errors other than those in `silent` are kept in `unanswered`, under this card.
        """
        return self.attempt(card, function, *given, silent=silent)[0]

    def attempt(
        self, card: str, function: str, *given: object, silent: Collection[int] = ()
    ) -> tuple[Any, bool]:
        """As `ask`, and whether the driver refused: there is an answer, but it is not given.

        An unsupported question is not refused: the driver has no answer for such a card.
        """
        before = len(self.unanswered)
        answer = self._answer(card, function, *given, silent=silent)
        return answer, len(self.unanswered) > before

    def _answer(self, card: str, function: str, *given: object, silent: Collection[int]) -> Any:
        try:
            return getattr(pynvml, function)(*given)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                self.lost.add(card)
            if error.value not in _SAYS_NOTHING and error.value not in silent:
                self.unanswered.append(Unanswered(card=card, question=function, error=_name(error)))
        except ValueError as error:
            # pynvml decodes texts, and these bytes are none.
            error_text = f"not an answer: {error}"
            self.unanswered.append(Unanswered(card=card, question=function, error=error_text))
        return None

    def field(self, card: str, handle: object, number: int, scope: int = 0) -> int | None:
        """A field value that is a whole number; None if the driver does not say."""
        values = self.ask(card, "nvmlDeviceGetFieldValues", handle, [(number, scope)])
        if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
            return None
        member = _MEMBERS.get(values[0].valueType)
        return None if member is None else int(getattr(values[0].value, member))


class ErrorEvents:
    """The XIDs of some cards; `are_told` is whether the driver reports those of any."""

    def __init__(self, nvml: Nvml, handles: Mapping[GpuUuid, object]) -> None:
        self._nvml = nvml
        self._uuids = {_address(handle): uuid for uuid, handle in handles.items()}
        self._events = nvml.ask("", "nvmlEventSetCreate")
        registered = [self._register(uuid, handle) for uuid, handle in handles.items()]
        self.are_told = any(registered)

    def _register(self, uuid: GpuUuid, handle: object) -> bool:
        supported = self._nvml.ask(uuid, "nvmlDeviceGetSupportedEventTypes", handle) or 0
        kind = supported & pynvml.nvmlEventTypeXidCriticalError
        if self._events is None or not kind:
            return False
        function = "nvmlDeviceRegisterEvents"
        return not self._nvml.attempt(uuid, function, handle, kind, self._events)[1]

    def wait(self, timeout_s: float) -> tuple[DriverError, int] | None:
        """One error and its MIG instance, or WHOLE_CARD; None if there was none within `timeout_s`.

        Raises NvmlFailed: then no further errors are reported.
        """
        try:
            data = pynvml.nvmlEventSetWait_v2(self._events, int(timeout_s * 1000))
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError as error:
            raise NvmlFailed(_name(error)) from error
        uuid = self._uuids.get(_address(data.device))
        if uuid is None or data.eventType != pynvml.nvmlEventTypeXidCriticalError:
            return None
        xid = int(data.eventData)
        is_application = xid in APPLICATION_XIDS
        found = DriverError(uuid=uuid, code=xid_code(xid), is_application=is_application)
        return found, int(data.gpuInstanceId)

    def close(self) -> None:
        """Stop receiving errors."""
        if self._events is not None:
            self._nvml.ask("", "nvmlEventSetFree", self._events)


#: Members of nvmlValue_t by nvmlValueType_t.
_MEMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


def _name(error: pynvml.NVMLError) -> str:
    name = type(error).__name__
    return name.removeprefix("NVMLError_") if "_" in name else f"error {error.value}"


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


# NVML's answers about one card, as parts of a reading.


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
