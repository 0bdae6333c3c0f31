"""HTTP servers for tests of the Kubernetes edges: one handler, good or misbehaving."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from kubeshare_py.edges.process.backoff import Sleep

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve every request by `handler`; gives the URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(application) as server:
        yield str(server.make_url("")).rstrip("/")


def plain(url: str) -> Credentials:
    """Credentials of nobody for a server without TLS."""
    return Credentials("test", lambda: KubeReading(server=url))


@asynccontextmanager
async def client_of(
    handler: Handler, *, concurrency: int = 32, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[KubeClient]:
    """A client of a server with this handler."""
    async with (
        serving(handler) as url,
        KubeClient(plain(url), concurrency=concurrency, sleep=sleep) as client,
    ):
        yield client


def status(code: int, reason: str = "", message: str = "", kind: str = "") -> web.Response:
    """An error answer as the API server gives it."""
    body = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": {"kind": kind},
    }
    return web.json_response(body, status=code)


class NoSleep:
    """Sleeps for no time and remembers for how long it was asked to."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)


async def send_lines(response: web.StreamResponse, *events: object) -> None:
    """Write watch events, one a line."""
    for event in events:
        await response.write(json.dumps(event).encode() + b"\n")
