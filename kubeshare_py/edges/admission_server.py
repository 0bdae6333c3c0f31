"""The webhook's endpoint over HTTPS: POST /pods and /others answer AdmissionReviews."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.edges import probes
from kubeshare_py.edges.bounded_server import listening
from kubeshare_py.edges.build import say_listening, url
from kubeshare_py.framework.configuration import ConfigurationError

PORT = 9443
#: An AdmissionReview has the object twice, each of at most 1.5 MiB in etcd, and room around it.
MOST_BYTES = 7 * 2**19
#: So many bodies are read and answered at a time, whose memory fits the chart's limit many times:
#: a pod's is read and answered within a few milliseconds.
MOST_AT_ONCE = 8
#: In which a body has to arrive and be answered; the chart lets kube-apiserver wait for 10 s.
PATIENCE_S = 5.0

#: The answer's body to a review's; None if it is no review.
Answers = Callable[[bytes], bytes | None]


@asynccontextmanager
async def serve(
    address: str,
    port: int,
    context: ssl.SSLContext,
    *,
    pods: Answers,
    others: Answers,
    problem: Callable[[], str],
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL. `problem` is why it is not ready, "" if it is.

    Raises ConfigurationError where it cannot listen.
    """
    app = web.Application(client_max_size=MOST_BYTES)
    slots = asyncio.Semaphore(MOST_AT_ONCE)
    reviews = {
        "/pods": _handler(pods, slots, patience_s),
        "/others": _handler(others, slots, patience_s),
    }
    app.add_routes([web.post(path, handler) for path, handler in reviews.items()])
    alive = probes.Check("ping", lambda: "")
    trusted = probes.Check("certificate", problem)
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


def _handler(answers: Answers, slots: asyncio.Semaphore, patience_s: float) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if (request.content_length or 0) > MOST_BYTES:
            raise web.HTTPRequestEntityTooLarge(MOST_BYTES, request.content_length or 0)
        try:
            async with asyncio.timeout(patience_s), slots:
                answer = answers(await request.read())
        except TimeoutError:
            return web.Response(status=HTTPStatus.TOO_MANY_REQUESTS, text="too slow, or too many\n")
        if answer is None:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="not an AdmissionReview\n")
        return web.Response(body=answer, content_type="application/json")

    return handler
