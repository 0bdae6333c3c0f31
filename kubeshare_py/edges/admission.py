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
from kubeshare_py.edges.process.bounded_server import Bounds, HeldBodies, listening
from kubeshare_py.edges.process.build import say_listening, url
from kubeshare_py.edges.process.question_turns import (
    LARGE,
    QuestionTurns,
    TooManyQuestions,
    aside,
)

PORT = 9443
#: The largest body: an AdmissionReview has the object twice, each of at most 1.5 MiB in etcd, and
#: some more.
MAX_BYTES = 7 * 2**19
#: The most bytes of all bodies that arrive or are answered, and of all answers that are not read,
#: so that all fits the chart's limit of 256 MiB: a pod's body has some kilobytes, and arrives and
#: is answered within a few milliseconds.
MAX_HELD_BYTES = 4 * MAX_BYTES
BOUNDS = Bounds(unread_bytes=8 * 2**20)
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
    bodies = HeldBodies(each=MAX_BYTES, total=MAX_HELD_BYTES)
    turns = _Turns()
    app.add_routes(
        [web.post(path, _handler(one, bodies, turns, patience_s)) for path, one in reviews.items()]
    )
    alive = probes.HealthCheck("ping", lambda: "")
    trusted = probes.HealthCheck("certificate", problem)
    app.add_routes(probes.routes(lambda: [alive], lambda: [alive, trusted]))
    async with AsyncExitStack() as stack:
        try:
            addresses = await stack.enter_async_context(
                listening(app, address, port, context=context, bounds=BOUNDS)
            )
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {address}:{port}: {error}") from error
        say_listening("kubeshare-admission", addresses, "https")
        yield url("https", address or "127.0.0.1", addresses[0][1])


class _Turns:
    """Reviews are answered one at a time, and one large one beside them."""

    def __init__(self) -> None:
        # This process does nothing else. As many wait as there may be connections.
        self._small = QuestionTurns(share=1.0, most_waiting=BOUNDS.connections)
        self._large = QuestionTurns(most_waiting=BOUNDS.connections)

    async def answer(self, body: bytes, client: str, answers: AdmissionResponder) -> bytes | None:
        """The answer, None if the body is no review. Raises TooManyQuestions."""
        if len(body) < LARGE:
            async with self._small.turn(client, len(body)):
                return answers(body)
        async with self._large.turn(client, len(body)):
            return await aside(answers, body)


def _handler(
    answers: AdmissionResponder, bodies: HeldBodies, turns: _Turns, patience_s: float
) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            async with asyncio.timeout(patience_s), bodies.body_of(request) as body:
                answer = await turns.answer(body, request.remote or "", answers)
        except (TimeoutError, TooManyQuestions):
            return web.Response(status=HTTPStatus.TOO_MANY_REQUESTS, text="too slow, or too many\n")
        if answer is None:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="not an AdmissionReview\n")
        return web.Response(body=answer, content_type="application/json")

    return handler
