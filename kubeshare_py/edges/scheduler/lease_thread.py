"""A Lease that is renewed on a thread of its own, while the event loop that decides is busy.

Why a thread: docs/decisions/0019-lease-on-a-thread.md.
"""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import uvloop

from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.edges.process.heartbeat import Heartbeat
from kubeshare_py.edges.scheduler.leader_lease import LeaderLease, LeadershipLost

#: Opens a LeaderLease, and its client, on the event loop on which it is entered.
Opens = Callable[[], AbstractAsyncContextManager[LeaderLease]]


class LeaseThread:
    """A LeaderLease whose work is done on another thread's event loop.

    Its methods are called on the loop that decides, which learns at once of changes of the Lease.
    """

    def __init__(self, opens: Opens) -> None:
        self._opens = opens
        self._begun: concurrent.futures.Future[None] = concurrent.futures.Future()
        #: The thread ends when this is done, also if it was done before the Lease was open.
        self._asked_to_end: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._running: asyncio.Future[None]
        self._loop: asyncio.AbstractEventLoop
        self._lease: LeaderLease

    async def begin(self, pool: ThreadPoolExecutor) -> None:
        """Return when a thread of the pool does the work. Raises what opening the Lease raised."""
        self._running = asyncio.get_running_loop().run_in_executor(pool, self._run)
        begun = asyncio.wrap_future(self._begun)
        await asyncio.wait((begun, self._running), return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            self._running.result()

    async def end(self) -> None:
        """Stop renewing; return when the thread has ended, also if `begin` was cancelled."""
        with suppress(concurrent.futures.InvalidStateError):  # it ended by itself
            self._asked_to_end.set_result(None)
        await self._running

    async def campaign(self) -> None:
        """As LeaderLease's; raises LeadershipLost also if the thread ended."""
        try:
            await self._there(self._lease.campaign())
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LeadershipLost("the thread that renews the Lease has ended") from None

    async def led(self) -> None:
        """As LeaderLease's."""
        await self._there(self._lease.led())

    async def release(self) -> None:
        """As LeaderLease's."""
        await self._there(self._lease.release())

    def may_send(self) -> bool:
        """Whether anything may be written at this moment."""
        return self._lease.may_send()

    def fence(self) -> str:
        """`holder/transitions` of this term."""
        return self._lease.fence()

    def figures(self) -> LeaderFigures:
        """The state of the election for this process."""
        return self._lease.figures()

    async def _there(self, work: Coroutine[None, None, None]) -> None:
        """Run it on the thread's loop; a cancellation here cancels it there."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with self._opens() as self._lease:
            self._loop = asyncio.get_running_loop()
            self._begun.set_result(None)
            await asyncio.wrap_future(self._asked_to_end)


@asynccontextmanager
async def on_a_thread(opens: Opens, heartbeat: Heartbeat) -> AsyncIterator[LeaseThread]:
    """The Lease is renewed while entered. `heartbeat` is the running loop's."""
    thread = LeaseThread(opens)
    heartbeat.begin()
    try:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="lease") as pool:
            try:
                await thread.begin(pool)
                yield thread
            finally:
                await thread.end()
    finally:
        heartbeat.end()
