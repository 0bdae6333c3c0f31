"""The oracle: a program of Go on kube-scheduler's own framework and plugins, and its build."""

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.build import ORACLE, build, kept

Json = dict[str, Any]

#: Of every configuration.
CONFIGURATION: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
#: Cases that are sent before the answer to the first of them is read.
_AHEAD = 32


class OracleError(Exception):
    """The oracle could not answer: the case is no valid one, or kube-scheduler failed."""


def built() -> Path:
    """The program, built if need be. Raises NoGo, CalledProcessError."""
    build([ORACLE])
    return kept(ORACLE)


class KubeScheduler:
    """The running program. Use it as a context manager; not for several threads."""

    def __init__(self, program: Path, workers: int = 1) -> None:
        self._program, self._workers = program, workers

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self._program, f"-workers={self._workers}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(timeout=10)

    def answer(self, case: Json) -> Json:
        """What kube-scheduler says of one case. Raises OracleError."""
        self._send([case])
        return self._read()

    def answers(self, cases: Sequence[Json]) -> Iterator[Json | OracleError]:
        """The same for many, in their order; an error in place of what has no answer."""
        sent = 0
        for read in range(len(cases)):
            upto = min(len(cases), read + _AHEAD)
            self._send(cases[sent:upto])
            sent = upto
            try:
                yield self._read()
            except OracleError as error:
                yield error

    def _send(self, cases: Iterable[Json]) -> None:
        assert self._process.stdin is not None
        for case in cases:
            self._process.stdin.write(json.dumps(_question(case)).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> Json:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OracleError(f"the oracle ended with {self._process.wait(timeout=10)}")
        found: Json = json.loads(line)
        if "error" in found:
            raise OracleError(found["error"])
        return found


def _question(case: Json) -> Json:
    """The case in the program's words: arguments of plugins are a configuration's."""
    asked = {"objects": case["objects"], "pod": case["pod"]}
    if case.get("pluginConfig"):
        profile = {"pluginConfig": case["pluginConfig"]}
        asked["config"] = {**CONFIGURATION, "profiles": [profile]}
    return asked
