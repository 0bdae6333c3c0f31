"""The card of this machine, and processes that use it."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pynvml

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.isolation.backends import Backend
from tests.patience import PATIENCE_S

Json = dict[str, Any]
#: cuda.h: what a call gives that worked, and one for which there is too little memory.
SUCCESS, OUT_OF_MEMORY = 0, 2
_PROGRAM = Path(__file__).with_name("cuda_program.py")


@cache
def why_no_card() -> str:
    """Why this machine has no card to try things on, "" if it has one."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"there is no card here: {error}"
    try:
        return "" if pynvml.nvmlDeviceGetCount() else "there is no card here: the driver has none"
    finally:
        pynvml.nvmlShutdown()


class CudaProcess:
    """A process with a CUDA context on the first card that it sees."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its id on this machine."""
        return self._process.pid

    def ask(self, op: str, **about: Any) -> Json:
        """Its answer; `code` is what the CUDA driver said."""
        self.send(op, **about)
        return self.answer()

    def send(self, op: str, **about: Any) -> None:
        """Ask, and let others ask theirs before the answer comes."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, **about}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Json:
        """The next answer."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        assert ready, "the CUDA process does not answer"
        line = self._process.stdout.readline()
        assert line, f"the CUDA process ended with {self._process.wait()}"
        found: Json = json.loads(line)
        return found

    def do(self, op: str, **about: Any) -> Json:
        """As `ask`, for what must work."""
        found = self.ask(op, **about)
        assert found["code"] == SUCCESS, found
        return found

    def most_bytes(self, step_bytes: int) -> int:
        """Take memory in steps until there is no more; how much it was. It is given back."""
        taken = 0
        while self.ask("take", bytes=step_bytes)["code"] == SUCCESS:
            taken += step_bytes
        self.do("give")
        return taken


@contextmanager
def cuda_process(
    environment: Mapping[str, str] | None = None, before: Sequence[str] = ()
) -> Iterator[CudaProcess]:
    """One that has these variables beside this process's; `before` is a command that runs it."""
    with subprocess.Popen(
        [*before, sys.executable, str(_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        text=True,
    ) as process:
        try:
            yield CudaProcess(process)
        finally:
            process.kill()


def variables(backend: Backend, uuid: GpuUuid, *, milli: int, memory_bytes: int) -> dict[str, str]:
    """What a container of a pod with this share and limit of one card gets of a back-end."""
    results = backend.results((CardCharge(uuid, milli, memory_bytes),), milli)
    found = {}
    for one in backend.variables:
        key = one.field_path.removeprefix("metadata.annotations['").removesuffix("']")
        found[one.name] = results[key] if one.field_path else one.value
    return found
