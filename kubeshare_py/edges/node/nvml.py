"""NVIDIA's management library through pynvml: one open session, and its answers.

Functions are named as strings, which go into metrics and the log if there is no answer.
https://docs.nvidia.com/deploy/nvml-api/
"""

import ctypes
from collections.abc import Collection, Mapping
from typing import Any

import pynvml

from kubeshare_py.domain.card_reading import DriverError, Unanswered
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.xids import APPLICATION_XIDS, xid_code

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
