"""The schedulers of a chaos cluster: tasks of this process in fast time, or processes of their own.

Each is started again when it ends because it lost the Lease, as a container is; any other end
fails the test.
"""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.scheduler import configuration_file, process
from kubeshare_py.edges.scheduler.event_logging import LogSettings, RunOptions
from kubeshare_py.edges.scheduler.leader_lease import LeadershipLost
from kubeshare_py.edges.scheduler.leadership import connected
from kubeshare_py.programs import scheduler
from tests.controlplane.processes import dying_with_us

#: Turns of the loop in which a cancelled scheduler gets to the answers that it waits for.
TURNS = 20
_TAIL = 15

Line = dict[str, Any]


class Schedulers(Protocol):
    """Any number of them, by their numbers. `resigned`: how often one lost the Lease."""

    resigned: int

    def start(self, number: int = 0) -> None:
        """Start the one of this number, which does not run."""

    async def kill(self, number: int | None = None) -> None:
        """End one, or all, without letting them finish anything."""

    async def end(self) -> None:
        """End all; those in this process write the rest of their event logs."""

    def url(self) -> str:
        """Where the one that started last listens."""

    def said(self, event: str) -> list[Line]:
        """What they logged under this name, as a warning at least."""

    def last_words(self) -> list[str]:
        """The end of what they logged."""


class Tasks(logging.Handler):
    """Schedulers in this process, on its loop's clock. Enter `listening` to hear what they log."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        configuration: SchedulerConfiguration,
        kubeconfig: Path,
        event_log: Path,
    ) -> None:
        super().__init__()
        self._options = RunOptions(event_log=LogSettings(event_log))
        self.resigned = 0
        self._group = group
        self._configuration = configuration
        self._kubeconfig = kubeconfig
        self._running: dict[int, asyncio.Task[None]] = {}
        self._lines: list[Line] = []
        self._urls: list[str] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear what is logged while entered."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what a scheduler logs."""
        self._lines.append({"event": record.getMessage(), **getattr(record, "fields", {})})

    def start(self, number: int = 0) -> None:
        self._running[number] = self._group.create_task(self._schedule())

    async def kill(self, number: int | None = None) -> None:
        ended = _taken(self._running, number)
        for task in ended:
            task.cancel()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        for task in ended:
            task.cancel()
        if ended:
            await asyncio.wait(ended)

    async def end(self) -> None:
        ended = _taken(self._running, None)
        for task in ended:
            task.cancel()
        if ended:
            await asyncio.wait(ended)

    def url(self) -> str:
        return self._urls[-1]

    def said(self, event: str) -> list[Line]:
        return [line for line in self._lines if line["event"] == event]

    def last_words(self) -> list[str]:
        return [str(line) for line in self._lines[-_TAIL:]]

    async def _schedule(self) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                try:
                    await self._process()
                except* LeadershipLost:
                    self.resigned += 1

    async def _process(self) -> None:
        machine = scheduler.machine(self._configuration, IN_TREE)
        credentials = load(str(self._kubeconfig))
        clock = asyncio.get_running_loop().time
        async with connected(self._configuration, credentials, machine.name, clock=clock) as (
            client,
            leadership,
        ):
            await scheduler.run(
                self._configuration,
                client,
                machine,
                leadership,
                on_ready=self._urls.append,
                options=self._options,
            )


class Processes:
    """Each a kubeshare-scheduler; `folder` has their logs."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        configuration: SchedulerConfiguration,
        kubeconfig: Path,
        folder: Path,
    ) -> None:
        self.resigned = 0
        self._group = group
        self._folder = folder
        self._file = folder / "settings.yaml"
        self._hangs = folder / "hangs"
        self._file.write_text(configuration_file.text(configuration))
        self._kubeconfig = kubeconfig
        self._logs: list[Path] = []
        self._running: dict[int, asyncio.Task[None]] = {}
        self._processes: dict[int, asyncio.subprocess.Process] = {}

    def start(self, number: int = 0) -> None:
        self._running[number] = self._group.create_task(self._schedule(number))

    async def kill(self, number: int | None = None) -> None:
        """By SIGKILL."""
        ended = _taken(self._running, number)
        for task in ended:
            task.cancel()
        if ended:
            await asyncio.wait(ended)

    async def end(self) -> None:
        await self.kill()

    def pause(self, number: int) -> Callable[[], None]:
        """Let one stand still (SIGSTOP) until what is answered is called."""
        found = self._processes.get(number)
        if found is None or found.returncode is not None:
            return lambda: None
        found.send_signal(signal.SIGSTOP)
        return partial(_go_on, found)

    def url(self) -> str:
        return str(self.said("started")[-1]["addresses"][0])

    def hang(self, number: int, seconds: float) -> None:
        """Let one's event loop stand still for so long, while its other threads go on."""
        self._hangs.write_text(str(seconds))
        self._processes[number].send_signal(signal.SIGUSR1)

    def said(self, event: str) -> list[Line]:
        return [line for log in self._logs for line in _lines(log) if line["event"] == event]

    def last_words(self) -> list[str]:
        return [f"{log.name}: {line}" for log in self._logs for line in _lines(log)[-_TAIL:]]

    async def _schedule(self, number: int) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                log = self._folder / f"scheduler-{len(self._logs)}.log"
                self._logs.append(log)
                code = await self._process(number, log)
                # Whatever nobody caught ends with the same code.
                lost = any(line["event"] == "lost" for line in _lines(log))
                assert code == process.LOST, f"{log} ended with {code}"
                assert lost, log.read_text()[-4000:]
                self.resigned += 1

    async def _process(self, number: int, log: Path) -> int:
        command: list[str | Path] = [
            sys.executable, "-m", "tests.faults.hanging_scheduler", self._hangs,
            "--config", self._file, "--kubeconfig", self._kubeconfig,
        ]  # fmt: skip
        with log.open("wb") as file:
            running = await asyncio.create_subprocess_exec(*dying_with_us(command), stderr=file)
        self._processes[number] = running
        try:
            return await running.wait()
        finally:
            if running.returncode is None:
                running.kill()
                await running.wait()


def _taken(running: dict[int, asyncio.Task[None]], number: int | None) -> list[asyncio.Task[None]]:
    """Take one out of those that run, or all."""
    numbers = list(running) if number is None else [number]
    return [running.pop(one) for one in numbers]


def _go_on(paused: asyncio.subprocess.Process) -> None:
    if paused.returncode is None:
        paused.send_signal(signal.SIGCONT)


def _lines(log: Path) -> list[Line]:
    """What a process logged; the last line may be cut, and a traceback is no line."""
    found = []
    for text in log.read_text().splitlines():
        with suppress(json.JSONDecodeError):
            found.append(json.loads(text))
    return found
