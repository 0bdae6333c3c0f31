"""Runs an MPS daemon for each card: starts it again when it dies, ends it when the card is gone.

Which of them run is shown by locks of this process. It is told of the end of each daemon by the
kernel, and should it end itself, the daemons do too: a daemon that holds its lock would have to be
trusted not to close files that it does not know, nor to hand them to its servers, which outlive it.
"""

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node import mps_child
from kubeshare_py.edges.process import decision_log, proof_of_life
from kubeshare_py.node_agent.mps_daemons import MpsDaemons

PROGRAM = "nvidia-cuda-mps-control"
#: How long (s) a daemon that is told to end may take.
END_S = 10.0
#: A daemon is there for pods once it answers. It may take so long (s), and is asked again so soon,
#: each time later up to the last one of these.
ANSWER_S, ASK_AGAIN_S, LATEST_S = 2.0, 0.2, 5.0
#: What changes nothing, and what NVIDIA's device plugin asks to see whether a daemon works.
_QUESTION = b"get_default_active_thread_percentage\n"
#: As /dev/shm is everywhere: clients of all users make files in it, and nobody removes another's.
_OPEN, _OWN = 0o1777, 0o755


def proofs_of(folder: Path) -> Path:
    """Where it is shown which of the daemons in a folder run."""
    return folder.with_name(f"{folder.name}-alive")


class MpsLauncher:
    """Daemons of `program` in folders named after their cards below `folder`.

    Those that run are shown beside it. One that is told to end is killed after `end_s`. `clock` is
    any clock in seconds.
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
        self._daemons = MpsDaemons()
        self._news = asyncio.Event()

    def listed(self, cards: Iterable[GpuUuid]) -> None:
        """These are all cards now."""
        self._daemons.listed(cards)
        self._news.set()

    async def run(self) -> None:
        """Until cancelled; then all daemons end."""
        tasks: dict[GpuUuid, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._news.clear()
                for uuid in self._daemons.ends():
                    tasks.pop(uuid).cancel()
                for uuid in self._daemons.starts(self._clock()):
                    tasks[uuid] = group.create_task(self._tend(uuid))
                    tasks[uuid].add_done_callback(partial(self._ended, uuid))
                due_at = self._daemons.next_at
                with suppress(TimeoutError):
                    wait_s = None if due_at is None else max(due_at - self._clock(), 0.0)
                    async with asyncio.timeout(wait_s):
                        await self._news.wait()

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
        """From its first answer on, until cancelled, show that the daemon of a card is there."""
        trouble, pause_s = "", ASK_AGAIN_S
        while True:
            try:
                async with asyncio.timeout(ANSWER_S):
                    answers = await self._tell(uuid, self._folder / uuid, _QUESTION)
                if answers:
                    self._proofs.mkdir(_OWN, parents=True, exist_ok=True)
                    with proof_of_life.shown(self._proofs / uuid):
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
        self._news.set()

    @asynccontextmanager
    async def _daemon(self, uuid: GpuUuid) -> AsyncIterator[Process]:
        """It has ended in the end. Raises OSError."""
        folder = self._folder / uuid
        for name, mode in ((mps_child.PIPE, _OWN), (mps_child.SHM, _OPEN), (mps_child.LOG, _OWN)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name).chmod(mode)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kubeshare_py.edges.node.mps_child"),
            *(self._program, uuid, str(folder)),
            stdin=DEVNULL,
            stdout=DEVNULL,
            # Its own session: a signal at a terminal is for the launcher, which then ends it.
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                await self._end(uuid, folder, process)

    async def _end(self, uuid: GpuUuid, folder: Path, process: Process) -> None:
        """Tell it to end, as its manual says, and kill it if it does not."""
        try:
            async with asyncio.timeout(self._end_s):
                if await self._tell(uuid, folder, b"quit\n"):
                    await process.wait()
        except (TimeoutError, OSError) as error:
            decision_log.warn("mps", card=uuid, message=f"told to end: {error!r}")
        if process.returncode is None:
            process.kill()
            await process.wait()
        decision_log.inform("mps-ended", card=uuid, code=process.returncode)

    async def _tell(self, uuid: GpuUuid, folder: Path, words: bytes) -> bool:
        """Whether the daemon of a card heard it; one that was only just started may not."""
        teller = await asyncio.create_subprocess_exec(
            self._program,
            stdin=PIPE,
            stdout=DEVNULL,
            env=mps_child.environment(uuid, folder),
            start_new_session=True,
        )
        try:
            await teller.communicate(words)
            return teller.returncode == 0
        finally:
            if teller.returncode is None:
                teller.kill()
                await teller.wait()
