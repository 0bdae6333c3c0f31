"""The webhook's endpoint over HTTPS: POST /pods and /others answer AdmissionReviews."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.edges import probes
from kubeshare_py.edges.build import say_listening
from kubeshare_py.framework.configuration import ConfigurationError

PORT = 9443
#: An AdmissionReview has the object twice, each of at most 1.5 MiB in etcd, and room around it.
MOST_BYTES = 8 * 2**20

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
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL. `problem` is why it is not ready, "" if it is.

    Raises ConfigurationError where it cannot listen.
    """
    app = web.Application(client_max_size=MOST_BYTES)
    app.add_routes([web.post("/pods", _handler(pods)), web.post("/others", _handler(others))])
    alive = probes.Check("ping", lambda: "")
    trusted = probes.Check("certificate", problem)
    app.add_routes(probes.routes(lambda: [alive], lambda: [alive, trusted]))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address or None, port, ssl_context=context).start()
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {address}:{port}: {error}") from error
        say_listening("kubeshare-admission", runner, "https")
        yield f"https://{address or '127.0.0.1'}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _handler(answers: Answers) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = answers(await request.read())
        if answer is None:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="not an AdmissionReview\n")
        return web.Response(body=answer, content_type="application/json")

    return handler
