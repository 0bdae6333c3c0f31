"""Runs an MPS daemon for each card: restarts it when it dies, ends it when the card is gone.

Locks of this process show which daemons run. The kernel reports the end of each daemon to this
process, and the daemons end with it. Locks held by the daemons would need them not to close unknown
files, nor to pass them to their servers, which outlive them.
"""

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node import mps_child
from kubeshare_py.edges.process import decision_log, liveness
from kubeshare_py.node_agent.daemons import Daemons

PROGRAM = "nvidia-cuda-mps-control"
#: The most seconds that a daemon may take to end.
END_S = 10.0
#: A daemon is ready for pods once it answers. Seconds for one answer, until the first repeated
#: question, and the longest pause between questions.
ANSWER_S, ASK_AGAIN_S, LATEST_S = 2.0, 0.2, 5.0
#: A question without side effects, by which NVIDIA's device plugin checks whether a daemon works.
_QUESTION = b"get_default_active_thread_percentage\n"
#: Modes as /dev/shm has: clients of all users create files in it, and cannot remove each other's.
_OPEN, _OWN = 0o1777, 0o755


def proofs_of(folder: Path) -> Path:
    """The folder that shows which daemons of a folder run."""
    return folder.with_name(f"{folder.name}-alive")


class MpsLauncher:
    """Daemons of `program` in folders named after their cards below `folder`.

    Running daemons are shown beside it. A daemon that is asked to end is killed after `end_s`.
    `clock` is any clock in seconds.
    """

    def __init__(
        self,
        folder: Path,
        program: str = PROGRAM,
        *,
        end_s: float = END_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._proofs = proofs_of(folder)
        self._program = program
        self._end_s = end_s
        self._clock = clock
        self._daemons = Daemons[GpuUuid]()
        self._changed = asyncio.Event()

    def listed(self, cards: Iterable[GpuUuid]) -> None:
        """Set all cards."""
        self._daemons.want(sorted(cards))
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled; then all daemons end."""
        tasks: dict[GpuUuid, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                for uuid in self._daemons.ends():
                    tasks.pop(uuid).cancel()
                for uuid in self._daemons.starts(self._clock()):
                    tasks[uuid] = group.create_task(self._tend(uuid))
                    tasks[uuid].add_done_callback(partial(self._ended, uuid))
                due_at = self._daemons.next_at
                with suppress(TimeoutError):
                    wait_s = None if due_at is None else max(due_at - self._clock(), 0.0)
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()

    async def _tend(self, uuid: GpuUuid) -> None:
        try:
            async with self._daemon(uuid) as process:
                decision_log.inform("mps-started", card=uuid, pid=process.pid)
                async with asyncio.TaskGroup() as group:
                    shown = group.create_task(self._show(uuid))
                    code = await process.wait()
                    shown.cancel()
                decision_log.warn("mps-died", card=uuid, code=code)
        except OSError as error:
            decision_log.warn("mps-not-started", card=uuid, message=str(error))

    async def _show(self, uuid: GpuUuid) -> None:
        """Show that a card's daemon is there, from its first answer until cancelled."""
        trouble, pause_s = "", ASK_AGAIN_S
        while True:
            try:
                async with asyncio.timeout(ANSWER_S):
                    answers = await self._send_command(uuid, self._folder / uuid, _QUESTION)
                if answers:
                    self._proofs.mkdir(_OWN, parents=True, exist_ok=True)
                    with liveness.shown(self._proofs / uuid):
                        decision_log.inform("mps-answers", card=uuid)
                        await asyncio.get_running_loop().create_future()
            except OSError as error:
                if repr(error) != trouble:
                    decision_log.warn("mps-not-shown", card=uuid, message=repr(error))
                trouble = repr(error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LATEST_S)

    def _ended(self, uuid: GpuUuid, _: asyncio.Task[None]) -> None:
        self._daemons.ended(uuid, self._clock())
        self._changed.set()

    @asynccontextmanager
    async def _daemon(self, uuid: GpuUuid) -> AsyncIterator[Process]:
        """A daemon while entered; on leaving it has ended. Raises OSError."""
        folder = self._folder / uuid
        for name, mode in ((mps_child.PIPE, _OWN), (mps_child.SHM, _OPEN), (mps_child.LOG, _OWN)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            _take_ownership(folder / name, mode)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kubeshare_py.edges.node.mps_child"),
            *(self._program, uuid, str(folder)),
            stdin=DEVNULL,
            stdout=DEVNULL,
            # Its own session: a terminal's signal is for the launcher, which then ends it.
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                await self._end(uuid, folder, process)

    async def _end(self, uuid: GpuUuid, folder: Path, process: Process) -> None:
        """Ask the daemon to end, as its manual says, and kill it if it does not."""
        try:
            async with asyncio.timeout(self._end_s):
                if await self._send_command(uuid, folder, b"quit\n"):
                    await process.wait()
        except (TimeoutError, OSError) as error:
            decision_log.warn("mps", card=uuid, message=f"asked to end: {error!r}")
        if process.returncode is None:
            process.kill()
            await process.wait()
        decision_log.inform("mps-ended", card=uuid, code=process.returncode)

    async def _send_command(self, uuid: GpuUuid, folder: Path, command: bytes) -> bool:
        """Send a command to a card's daemon; whether it received it, which a new one may not."""
        sender = await asyncio.create_subprocess_exec(
            self._program,
            stdin=PIPE,
            stdout=DEVNULL,
            env=mps_child.environment(uuid, folder),
            start_new_session=True,
        )
        try:
            await sender.communicate(command)
            return sender.returncode == 0
        finally:
            if sender.returncode is None:
                sender.kill()
                await sender.wait()


def _take_ownership(folder: Path, mode: int) -> None:
    """Make a folder ours again, with this mode. Raises OSError.

    It is mounted into containers, and one as root can give it to another user; then its mode would
    be that user's to change, and no daemon would start again (the chart gives CHOWN, not FOWNER).
    """
    if folder.stat().st_uid != os.geteuid():
        os.chown(folder, os.geteuid(), os.getegid())
    folder.chmod(mode)
