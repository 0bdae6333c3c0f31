"""A program that uses a card as it is told: a line of JSON for each thing, and one as the answer.

It speaks to the CUDA driver itself, so that it needs no compiler and no toolkit. Functions and
numbers are those of cuda.h: https://docs.nvidia.com/cuda/cuda-driver-api/
"""

import ctypes
import json
import sys
import uuid
from time import monotonic  # noqa: TID251 - a program of its own
from typing import Any

#: Every thread multiplies and adds so many times, and writes the result to one place.
_KERNEL = b"""
.version 6.3
.target sm_75
.address_size 64

.visible .entry work(.param .u64 target, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .f32 %f<2>;
    .reg .u32 %r<3>;
    .reg .u64 %rd<2>;
    ld.param.u64 %rd1, [target];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, 0;
    mov.f32 %f1, 0f3F800000;
AGAIN:
    fma.rn.f32 %f1, %f1, 0f3F7FFFFF, 0f33800000;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra AGAIN;
    cvta.to.global.u64 %rd1, %rd1;
    st.global.f32 [%rd1], %f1;
    ret;
}
"""
_THREADS = 256
_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_UINT64 = ctypes.c_uint64


class CudaError(Exception):
    """A call failed; the number is the driver's."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Card:
    """The context of this process on the first card that it sees, made when it is first used."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._device = ctypes.c_int()
        self._kernel: ctypes.c_void_p | None = None
        self._target = _UINT64()
        self._taken: list[ctypes.c_uint64] = []
        self._is_open = False

    def cards(self) -> dict[str, Any]:
        """The uuids of the cards that this process sees."""
        self._call("cuInit", 0)
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        found = []
        for number in range(count.value):
            device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            self._call("cuDeviceGet", ctypes.byref(device), number)
            self._call("cuDeviceGetUuid_v2", raw, device)
            found.append(f"GPU-{uuid.UUID(bytes=bytes(raw))}")
        return {"uuids": found}

    def memory(self) -> dict[str, Any]:
        """Bytes that are free, and all of them, as this process is told."""
        self._open()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return {"free": free.value, "total": total.value}

    def processors(self) -> dict[str, Any]:
        """How many multiprocessors it may use."""
        self._open()
        found = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(found), _MULTIPROCESSORS, self._device)
        return {"processors": found.value}

    def take(self, bytes: int) -> dict[str, Any]:
        """Take memory and write to all of it."""
        self._open()
        address = _UINT64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(bytes))
        self._taken.append(address)
        self._call("cuMemsetD8_v2", address, ctypes.c_ubyte(1), ctypes.c_size_t(bytes))
        self._call("cuCtxSynchronize")
        return {}

    def give(self) -> dict[str, Any]:
        """Give back all that was taken."""
        while self._taken:
            self._call("cuMemFree_v2", self._taken.pop())
        return {}

    def work(self, blocks: int, rounds: int, seconds: float = 0.0) -> dict[str, Any]:
        """Compute again and again for so long, once at least; how often, and for how long."""
        self._open()
        began, times = monotonic(), 0
        while not times or monotonic() < began + seconds:
            self._launch(self._target, blocks, rounds)
            times += 1
        return {"times": times, "seconds": monotonic() - began}

    def fault(self) -> dict[str, Any]:
        """Write where there is no memory."""
        self._open()
        self._launch(_UINT64(1 << 48), 1, 1)
        return {}

    def _launch(self, target: ctypes.c_uint64, blocks: int, rounds: int) -> None:
        number = ctypes.c_uint32(rounds)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(target), ctypes.addressof(number))
        size = (blocks, 1, 1, _THREADS, 1, 1)
        self._call("cuLaunchKernel", self._kernel, *size, 0, None, arguments, None)
        self._call("cuCtxSynchronize")

    def _open(self) -> None:
        if self._is_open:
            return
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        kernel = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), _KERNEL)
        self._call("cuModuleGetFunction", ctypes.byref(kernel), module, b"work")
        self._call("cuMemAlloc_v2", ctypes.byref(self._target), ctypes.c_size_t(4096))
        self._kernel = kernel
        self._is_open = True

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self._cuda, function)(*arguments)
        if code:
            raise CudaError(code)


def main() -> None:
    """Do what each line says."""
    card = Card()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            found = {"code": 0, **getattr(card, asked.pop("op"))(**asked)}
        except CudaError as error:
            found = {"code": error.code}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
