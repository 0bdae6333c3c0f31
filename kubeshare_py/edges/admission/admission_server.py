"""The webhook's endpoint over HTTPS: POST to its paths answers AdmissionReviews."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import say_listening, url
from kubeshare_py.edges.process.connection_abort import abort

PORT = 9443
#: The largest body: an AdmissionReview has the object twice, each of at most 1.5 MiB in etcd, and
#: some more.
MAX_BYTES = 7 * 2**19
#: The most bytes of all arriving bodies, which fits the chart's limit many times: a pod's body has
#: some kilobytes, and arrives within a few milliseconds.
MAX_HELD_BYTES = 8 * MAX_BYTES
#: Seconds for a body to arrive and be answered; the chart lets kube-apiserver wait for 10 s.
PATIENCE_S = 5.0

#: The answer's body to a review's; None if it is no review.
AdmissionResponder = Callable[[bytes], bytes | None]


@asynccontextmanager
async def serve(
    address: str,
    port: int,
    context: ssl.SSLContext,
    reviews: Mapping[str, AdmissionResponder],
    *,
    problem: Callable[[], str],
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL. `reviews` are the answers by path.

    `problem` says why it is not ready, "" if it is. Raises ConfigurationError if it cannot listen.
    """
    app = web.Application(client_max_size=MAX_BYTES)
    bodies = _Bodies(MAX_HELD_BYTES)
    app.add_routes(
        [web.post(path, _handler(one, bodies, patience_s)) for path, one in reviews.items()]
    )
    alive = probes.HealthCheck("ping", lambda: "")
    trusted = probes.HealthCheck("certificate", problem)
    app.add_routes(probes.routes(lambda: [alive], lambda: [alive, trusted]))
    async with AsyncExitStack() as stack:
        try:
            addresses = await stack.enter_async_context(
                listening(app, address, port, context=context)
            )
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {address}:{port}: {error}") from error
        say_listening("kubeshare-admission", addresses, "https")
        yield url("https", address or "127.0.0.1", addresses[0][1])


def _handler(answers: AdmissionResponder, bodies: "_Bodies", patience_s: float) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if (request.content_length or 0) > MAX_BYTES:
            raise web.HTTPRequestEntityTooLarge(MAX_BYTES, request.content_length or 0)
        try:
            async with asyncio.timeout(patience_s):
                answer = answers(await bodies.read(request))
        except TimeoutError:
            return web.Response(status=HTTPStatus.TOO_MANY_REQUESTS, text="too slow, or too many\n")
        if answer is None:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="not an AdmissionReview\n")
        return web.Response(body=answer, content_type="application/json")

    return handler


class _Bodies:
    """Arriving bodies. If all of them are too large together, the one that began first is dropped.

    No request waits for another: otherwise a few bodies that never end would keep pods from being
    created.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._arrived: dict[web.RequestHandler, int] = {}

    async def read(self, request: web.Request) -> bytes:
        """The whole body.

        Raises HTTPRequestEntityTooLarge, and ConnectionError if it was dropped.
        """
        body = bytearray()
        try:
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > MAX_BYTES:
                    raise web.HTTPRequestEntityTooLarge(MAX_BYTES, len(body))
                self._arrived[request.protocol] = len(body)
                self._make_room()
        finally:
            self._arrived.pop(request.protocol, None)
        return bytes(body)

    def _make_room(self) -> None:
        while sum(self._arrived.values()) > self._most_bytes:
            first = next(iter(self._arrived))
            del self._arrived[first]
            abort(first.transport)
