"""Leadership among scheduler processes: `leader_election.leadership` performed on a Lease.

The Lease is not renewed while the event loop that decides hangs: then another process must lead.
"""

import asyncio
import concurrent.futures
import datetime
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import msgspec
import uvloop

from kubeshare_py.configuration.leader_election import JITTER
from kubeshare_py.domain.lease import LeaderFigures, Lease, LeaseClaim
from kubeshare_py.edges.kube.client import KubeClient, decode
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure, KubeUnreachable
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.liveness import Heartbeat, Stall, steady_s
from kubeshare_py.leader_election.leadership import Election
from kubeshare_py.manifests.api_paths import collection_path, path_segment
from kubeshare_py.manifests.lease import lease_body, read_lease

_RELEASE_ATTEMPTS = 3
#: The most characters of a holder's name in the log: an API server accepts any number.
_LONGEST_NAME = 253


class LeadershipLost(Exception):
    """Another process may lead: this one must end at once, and send nothing more."""


class LeaseMissing(KubeFailure):
    """There is no Lease, and this process may not create it; the text says what to do."""

    def __init__(self, namespace: str, name: str) -> None:
        metadata = {
            "name": name,
            "namespace": namespace,
            # Otherwise a Helm release that had one would delete this one.
            "annotations": {"helm.sh/resource-policy": "keep"},
        }
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        super().__init__(
            f"Lease {namespace}/{name} is missing, and this account may not create it: repeat the"
            " helm upgrade or kubectl apply that installed the scheduler, or make it with"
            f" echo '{msgspec.json.encode(lease).decode()}' | kubectl create -f -"
        )


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.UTC)


class LeaderLease:
    """Leads while the Lease is renewed. It has a client of its own: nothing may delay a renewal.

    Its clock is read anew each time, because the event loop's stands still while an iteration, or
    the whole process, hangs. `may_send`, `fence` and `figures` may be called from any thread.
    """

    def __init__(
        self,
        client: KubeClient,
        election: Election,
        place: tuple[str, str],
        *,
        clock: Callable[[], float] = steady_s,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        stalled: Callable[[], Stall | None] = lambda: None,
    ) -> None:
        """`place` is the Lease's namespace and name.

        `stalled` returns a Stall while the event loop that decides has not turned for the renew
        deadline.
        """
        namespace, self._name = self._place = place
        self._client = client
        self._election = election
        self._path = leases_path(namespace)
        self._lease_path = f"{self._path}/{path_segment(self._name)}"
        self._lease = f"{namespace}/{self._name}"
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._elected = asyncio.Event()
        self._object: dict[str, Any] | None = None
        self._last_problem = ""
        self._slow_renewals = 0
        self._stalled = stalled
        self._stall: Stall | None = None
        self._problems: tuple[str, ...] = ()

    async def campaign(self) -> None:
        """Stand by until the Lease is acquired, then renew it; raises LeadershipLost.

        It is lost at the deadline, and when another holder is seen on it.
        """
        await self._acquire()
        self._elected.set()
        await self._keep()

    async def led(self) -> None:
        """Return when elected, and the last requests of a predecessor have landed."""
        await self._elected.wait()
        # Timers may be early by this clock.
        while (wait_s := self._election.binds_from - self._clock()) > 0:
            await self._sleep(wait_s)

    async def _acquire(self) -> None:
        election, terms = self._election, self._election.terms
        holder = ""
        while True:
            if not self._hangs():
                await self._attempt(terms.renew_deadline_s / 2)
            if election.leads:
                break
            if election.holder != holder:
                holder = election.holder
                decision_log.inform("stands by", lease=self._lease, holder=holder[:_LONGEST_NAME])
            pause = terms.retry_period_s * (1 + JITTER * self._rng.random())
            until_free = election.free_at - self._clock()
            # At the moment when it expires, and not before, as other candidates do.
            await self._sleep(until_free if 0 < until_free < pause else pause)
        wait_s = max(election.binds_from - self._clock(), 0.0)
        decision_log.inform("leads", lease=self._lease, fence=election.fence, wait_s=wait_s)

    async def _keep(self) -> None:
        election, terms = self._election, self._election.terms
        while True:
            await self._sleep(min(terms.retry_period_s, max(self._left_s(), 0.0)))
            if self._left_s() > 0 and not self._hangs():
                await self._attempt(min(terms.renew_deadline_s / 2, self._left_s()))
            if election.lost(self._clock()):
                raise LeadershipLost(f"Lease {self._lease} is lost: {self._why_lost()}")

    def _hangs(self) -> bool:
        """Whether the loop that decides hangs; logged when that begins and ends."""
        before, self._stall = self._stall, self._stalled()
        if self._stall is not None and before is None:
            about = {"lease": self._lease, "for_s": round(self._stall.for_s, 1)}
            decision_log.warn("hangs", **about, where=self._stall.where)
        elif self._stall is None and before is not None:
            decision_log.inform("runs again", lease=self._lease)
        return self._stall is not None

    def _why_lost(self) -> str:
        """The other holder, if one was seen; else what kept the Lease from being renewed."""
        election = self._election
        if election.leads:
            late = f"not renewed within {election.terms.renew_deadline_s:g} s"
            if self._stall is not None:
                return f"{late}: the event loop hangs, in {self._stall.where}"
            return f"{late}: {self._last_problem}" if self._last_problem else late
        holder = election.holder[:_LONGEST_NAME]
        return f"taken over by {holder}" if holder else "released by another"

    async def release(self) -> None:
        """Release the Lease. If that fails, it expires: a successor waits longer."""
        claim = self._election.release(self._clock())
        if claim is None:
            return
        try:
            async with asyncio.timeout(self._election.terms.renew_deadline_s / 2):
                await self._release(claim)
        except TimeoutError as error:
            self._complain(error)

    async def _release(self, claim: LeaseClaim) -> None:
        for _ in range(_RELEASE_ATTEMPTS):
            try:
                await self._write(claim)
                decision_log.inform("released", lease=self._lease)
                return
            except KubeFailure as error:
                self._complain(error)
            try:
                found = await self._read()
            except KubeFailure:
                continue
            if found is None or found.holder != self._election.name:
                return
            claim = replace(claim, version=found.version)

    def may_send(self) -> bool:
        """Whether anything may be written at this moment."""
        return self._election.may_send(self._clock())

    def fence(self) -> str:
        """`holder/transitions` of this term."""
        return self._election.fence

    def figures(self) -> LeaderFigures:
        """The state of the election for this process."""
        return LeaderFigures(
            name=self._name, leads=self._election.leads, slow_renewals=self._slow_renewals
        )

    def _left_s(self) -> float:
        return self._election.deadline - self._clock()

    async def _attempt(self, timeout_s: float) -> None:
        """Renew, or read and acquire the Lease if it is free.

        Failures are left to the next attempt.
        """
        try:
            async with asyncio.timeout(timeout_s):
                claim = self._election.renewal()
                if claim is None:
                    found = await self._read()
                    claim = self._election.look(found, self._clock())
                    self._slow_renewals += self._election.leads and claim is not None
                if claim is not None:
                    asked_at = self._clock()
                    stored = await self._write(claim)
                    self._election.written(stored, asked_at, self._clock())
                self._last_problem = ""
        except (KubeFailure, TimeoutError) as error:
            self._election.not_written()
            self._complain(error)

    async def _read(self) -> Lease | None:
        try:
            answer = await self._client.request("GET", self._lease_path, patient=False)
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self._object = None
            return None
        found = decode(answer.body)
        lease = _understood(found)
        self._object = found
        self._log_problems(lease)
        return lease

    async def _write(self, claim: LeaseClaim) -> Lease:
        body = lease_body(self._object if claim.version else None, self._name, claim, _utc_now())
        if claim.version:
            stored = await self._client.replace(self._lease_path, body)
        else:
            stored = await self._create(body)
        lease = _understood(stored)
        self._object = stored
        return lease

    async def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._client.create(self._path, body)
        except KubeError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise LeaseMissing(*self._place) from error
            raise

    def _log_problems(self, found: Lease) -> None:
        """Log implausible fields of the Lease, once while they are the same."""
        if found.problems and found.problems != self._problems:
            message = f"Lease {self._lease}: {'; '.join(found.problems)}. The next leader mends it"
            if found.holder and found.holder != self._election.name:
                namespace, name = self._place
                release = '{"spec":{"holderIdentity":""}}'
                message += (
                    ". If no scheduler of the holder's name runs, it need not be waited for:"
                    f" kubectl -n {namespace} patch lease {name} --type merge -p '{release}'"
                )
            holder = found.holder[:_LONGEST_NAME]
            decision_log.warn("lease", lease=self._lease, holder=holder, message=message)
        self._problems = found.problems

    def _complain(self, error: Exception) -> None:
        """Log a failure, once while it is the same. Losing a race is not logged."""
        text = str(error) or "no answer in time"
        if isinstance(error, TimeoutError):
            self._client.contact.missed(f"Lease {self._lease}: {text}")
        is_new, self._last_problem = text != self._last_problem, text
        if is_new and not self._client.contact.is_away:
            raced = isinstance(error, KubeError) and error.status == HTTPStatus.CONFLICT
            log = decision_log.inform if raced else decision_log.warn
            log("lease", lease=self._lease, message=text)


def _understood(found: dict[str, Any]) -> Lease:
    """Read a Lease; raises KubeUnreachable if it is none, because a write may have happened."""
    try:
        return read_lease(found)
    except msgspec.ValidationError as error:
        raise KubeUnreachable(f"not a Lease: {error}") from error


def leases_path(namespace: str) -> str:
    """The path of a namespace's Leases."""
    return collection_path("/apis/coordination.k8s.io/v1", "leases", namespace)


# A Lease that is renewed on a thread of its own, while the event loop that decides is busy.
#
# Why a thread: docs/decisions/0019-lease-on-a-thread.md.


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
