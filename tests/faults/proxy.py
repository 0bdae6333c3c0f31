"""A proxy in front of an API server, on which the network and the server are bad by turns.

It ends TLS on both sides, streams watches, and misbehaves as `FaultPlan` says. It neither repeats
nor reorders anything: TCP would not.
"""

import asyncio
import re
import ssl
from collections import Counter, deque
from pathlib import Path
from typing import Self

import aiohttp
import msgspec
import yarl
from aiohttp import web

from kubeshare_py.edges.kube.certificates import make_certificates, write_private
from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.embedded_cluster.protocol.status import failure
from kubeshare_py.embedded_cluster.serving.credentials import kubeconfig_text
from tests.faults.durations import Durations
from tests.faults.fault_plan import FORWARDED, Fault, FaultPlan, Kind, status_of
from tests.faults.held_request import Hold
from tests.faults.watch_stream import WatchStream, cut_off

RETRY_AFTER_S = 1
_PASSED_ON = ("Authorization", "Accept", "Content-Type", "User-Agent")
_GONE = {"type": "ERROR", "object": failure(410, "Expired", "too old resource version")}
_FAR = aiohttp.ClientTimeout(total=None)


class FaultProxy:
    """`async with FaultProxy(...) as proxy:` runs it; `counts` says what it did so far."""

    def __init__(
        self,
        upstream: str,
        trust: ssl.SSLContext,
        folder: Path,
        *,
        durations: Durations,
        late: bool = False,
    ) -> None:
        """`upstream` is the API server's URL, `trust` verifies it, certificates go to `folder`.

        late: what is delayed or held is delivered even when its sender is gone.
        """
        self.counts: Counter[Kind] = Counter()
        self.last: deque[str] = deque(maxlen=60)
        self.fault_plan: FaultPlan | None = None
        #: Requests whose path it finds are dropped, whatever the fault plan.
        self.blocked: re.Pattern[str] | None = None
        self._upstream = upstream
        self._trust = trust
        self._certificates = make_certificates(folder)
        self._port = 0
        self._pace = durations
        self._late = late
        self._holds: list[Hold] = []
        self._under_way: set[asyncio.Task[aiohttp.ClientResponse]] = set()
        self._transports: set[asyncio.BaseTransport] = set()
        self._site: web.TCPSite | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._trust, limit=0), auto_decompress=False
        )
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )
        await self._runner.setup()
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        for hold in self._holds:
            hold.release.set()
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._runner.cleanup()
        await self._session.close()

    def write_kubeconfig(self, path: Path, user: str, token: str) -> Path:
        """A kubeconfig of this user that leads through the proxy."""
        url = f"https://127.0.0.1:{self._port}"
        authority = self._certificates.ca_file.read_bytes()
        return write_private(path, kubeconfig_text(url, authority, user, token))

    def hold(self, method: str, where: str) -> Hold:
        """Keep back the next such request, its path found by the pattern `where`."""
        hold = Hold(method, where)
        self._holds.append(hold)
        return hold

    def end_faults(self) -> None:
        """Do nothing bad to new requests; what is broken stays broken."""
        self.fault_plan, self.blocked = None, None

    def cut(self) -> None:
        """Break every connection."""
        for transport in list(self._transports):
            if isinstance(transport, asyncio.Transport):
                abort(transport)

    async def refuse(self) -> None:
        """Refuse connections from now on; break those there are."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        self.cut()

    async def accept(self) -> None:
        """Accept connections (again), on the same port."""
        if self._site is None:
            context = self._certificates.server_context()
            self._site = web.TCPSite(
                self._runner, "127.0.0.1", self._port, ssl_context=context, reuse_address=True
            )
            await self._site.start()
            self._port = int(self._runner.addresses[0][1])

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._transports.add(request.transport)
        is_watch = "watch" in request.query
        fault = None
        if self.blocked is not None and self.blocked.search(request.path):
            fault = Fault(kind=Kind.DROPPED, amount=0.0)
        elif self.fault_plan is not None:
            fault = self.fault_plan.next(request.method, request.path, is_watch=is_watch)
        if fault is not None:
            self.counts[fault.kind] += 1
            self.last.append(f"{request.method} {request.path_qs}: {fault.kind}")
        try:
            return await self._answer(request, fault, is_watch=is_watch)
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return cut_off(request)
        finally:
            if request.transport is None or request.transport.is_closing():
                self._transports.discard(request.transport)

    async def _answer(
        self, request: web.Request, fault: Fault | None, *, is_watch: bool
    ) -> web.StreamResponse:
        body = await request.read()
        kind = fault.kind if fault else None
        amount = fault.amount if fault else 0.0
        if kind is Kind.HANGS:
            await asyncio.sleep(self._pace.hangs_s)
            return cut_off(request)
        elif kind is not None and not is_watch and kind not in FORWARDED:
            return _refused(request, kind)
        elif kind is Kind.GONE:
            return await _told_gone(request)
        elif kind is not None and is_watch and (status_of(kind) or kind is Kind.DROPPED):
            return _refused(request, kind)
        longest_s = self._pace.latest_s if self._late else self._pace.longest_delay_s
        delay_s = amount * longest_s if kind is Kind.DELAYED else 0.0
        answer = await self._forwarded(request, body, delay_s)
        async with answer:
            if is_watch and answer.status == 200:
                return await WatchStream(request, fault, self._pace.longest_watch_s).pump(answer)
            if kind is Kind.SLOW:
                await asyncio.sleep(amount * self._pace.longest_delay_s)
            return await _pass_on(request, answer, fault)

    async def _forwarded(
        self, request: web.Request, body: bytes, delay_s: float
    ) -> aiohttp.ClientResponse:
        if not self._late or request.method != "POST":
            return await self._forward(request, body, delay_s)
        task = asyncio.ensure_future(self._forward(request, body, delay_s))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _forward(
        self, request: web.Request, body: bytes, delay_s: float
    ) -> aiohttp.ClientResponse:
        await asyncio.sleep(delay_s)
        hold = next((hold for hold in self._holds if hold.is_for(request)), None)
        if hold is not None:
            hold.arrived.set()
            await hold.release.wait()
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        answer = await self._session.request(
            request.method, yarl.URL(self._upstream + request.raw_path, encoded=True),
            data=body or None, headers=headers, timeout=_FAR, allow_redirects=False,
        )  # fmt: skip
        if hold is not None:
            hold.answered.set_result(answer.status)
        return answer


async def _pass_on(
    request: web.Request, answer: aiohttp.ClientResponse, fault: Fault | None
) -> web.StreamResponse:
    body = await answer.read()
    kind = fault.kind if fault else None
    if kind is Kind.LOST:
        return cut_off(request)
    if kind is not None and status_of(kind):
        return _refused(request, kind)
    headers = {
        name: answer.headers[name]
        for name in ("Content-Type", "Retry-After")
        if name in answer.headers
    }
    if fault is not None and kind is Kind.HALF:
        headers["Content-Length"] = str(len(body))
        broken = web.StreamResponse(status=answer.status, headers=headers)
        await broken.prepare(request)
        await broken.write(body[: int(fault.amount * len(body))])
        return cut_off(request)
    return web.Response(status=answer.status, body=body, headers=headers)


async def _told_gone(request: web.Request) -> web.StreamResponse:
    """Answer as the server does when it has compacted: 200, one ERROR event, the end."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(msgspec.json.encode(_GONE) + b"\n")
    await response.write_eof()
    return response


def _refused(request: web.Request, kind: Kind) -> web.Response:
    status = status_of(kind)
    if not status:
        return cut_off(request)
    body = msgspec.json.encode(failure(status, "", f"injected: {kind}"))
    response = web.Response(status=status, body=body, content_type="application/json")
    if kind is Kind.THROTTLED:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
