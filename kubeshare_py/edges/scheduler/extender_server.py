"""The endpoint for a kube-scheduler that asks this scheduler as its extender, over HTTPS.

POST /filter, /prioritize and /bind answer as k8s.io/kube-scheduler/extender/v1 defines. Questions
only read the machine; /bind hands it a request and waits for what becomes of the Binding. While
another process leads, these requests get 503, and /readyz says so. POST /webhook answers
AdmissionReviews of API servers that call HAMi's webhook, at any time.
"""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    Extender,
    SchedulerConfiguration,
)
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.edges.kube.certificate_files import CertificateFiles
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.self_signed_ca import Pace, SelfSignedCa
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import Bounds, listening
from kubeshare_py.edges.process.build import say_listening, url
from kubeshare_py.edges.process.held_bodies import HeldBodies
from kubeshare_py.edges.process.question_turns import TooManyQuestions
from kubeshare_py.edges.scheduler.decision_loop import DecisionLoop
from kubeshare_py.edges.scheduler.extender_calls import MAX_LOOKED_UP, ExtenderCalls
from kubeshare_py.manifests.calls.extender import BadExtenderRequest

#: Where HAMi's MutatingWebhookConfiguration finds its webhook.
WEBHOOK = "/webhook"
TOO_MANY = "too many ask; try again"
#: The largest body: the names of some 60,000 nodes, or some 400 Node objects; of a review, two pods
#: as large as etcd takes them.
MAX_BYTES = 4 * 2**20
#: The most bytes of all bodies that arrive or are answered.
MAX_HELD_BYTES = 8 * MAX_BYTES
#: kube-scheduler binds up to some dozens of pods at a time, each on a connection.
BOUNDS = Bounds(connections=64)

_Answer = Callable[[bytes, str], Awaitable[bytes]]


class ExtenderAnswers(Protocol):
    """Answers bodies of requests of clients, which are named by their addresses.

    Each raises BadExtenderRequest if the body is none, and TooManyQuestions.
    """

    @property
    def problem(self) -> str:
        """Why no request can be answered now, "" if they can."""

    async def filter(self, body: bytes, client: str) -> bytes:
        """Answer /filter."""

    async def score(self, body: bytes, client: str) -> bytes:
        """Answer /prioritize."""

    async def bind(self, body: bytes, client: str) -> bytes:
        """Answer /bind."""

    async def review(self, body: bytes, client: str) -> bytes | None:
        """Answer /webhook; None if the body is no AdmissionReview."""


async def extend(
    configuration: SchedulerConfiguration,
    loop: DecisionLoop,
    client: KubeClient,
    dialects: Dialects,
) -> None:
    """Serve until cancelled; return at once if no profile has `extender: true`.

    Raises ConfigurationError for files or an address that cannot be used.
    """
    if not configuration.extends:
        return
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(client.another(concurrency=1))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubeshare-")))
        certificate = _certificate(configuration, own, folder)
        ask_for_certificates(certificate.context, configuration.extender)
        looking_up = await stack.enter_async_context(client.another(concurrency=MAX_LOOKED_UP))
        calls = ExtenderCalls(loop, looking_up, dialects)
        server = serve_extender(configuration.extender, certificate.context, calls)
        await stack.enter_async_context(server)
        async with asyncio.TaskGroup() as group:
            group.create_task(certificate.keep())
            group.create_task(calls.wake_refused())


def ask_for_certificates(context: ssl.SSLContext, settings: Extender) -> None:
    """Answer only clients with a certificate of `clientCaFile`, if there is one.

    Raises ConfigurationError.
    """
    if not settings.client_ca_file:
        return
    try:
        context.load_verify_locations(cafile=settings.client_ca_file)
    except (OSError, ssl.SSLError) as error:
        where = f"extender.clientCaFile: {settings.client_ca_file}"
        raise ConfigurationError(f"{where}: {error}") from error
    context.verify_mode = ssl.CERT_REQUIRED


@asynccontextmanager
async def serve_extender(
    settings: Extender, context: ssl.SSLContext, calls: ExtenderAnswers
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL. Raises ConfigurationError if it cannot listen."""
    app = web.Application(client_max_size=MAX_BYTES)
    answers: dict[str, _Answer] = {
        "/filter": calls.filter,
        "/prioritize": calls.score,
        "/bind": calls.bind,
    }
    bodies = HeldBodies(each=MAX_BYTES, total=MAX_HELD_BYTES)
    app.add_routes([web.post(path, _handler(calls, one, bodies)) for path, one in answers.items()])
    app.add_routes([web.post(WEBHOOK, _reviewer(calls, bodies))])
    alive = probes.HealthCheck("ping", lambda: "")
    leads = probes.HealthCheck("leader", lambda: calls.problem)
    app.add_routes(probes.routes(lambda: [alive], lambda: [alive, leads]))
    host, port = settings.bind_address, settings.port
    async with AsyncExitStack() as stack:
        try:
            server = listening(app, host, port, context=context, bounds=BOUNDS)
            addresses = await stack.enter_async_context(server)
        except OSError as error:
            raise ConfigurationError(
                f"extender: cannot listen on {host}:{port}: {error}"
            ) from error
        say_listening("kubeshare-scheduler (extender)", addresses, "https")
        yield url("https", *addresses[0])


def _handler(calls: ExtenderAnswers, answer: _Answer, bodies: HeldBodies) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if calls.problem:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, calls.problem)
        try:
            async with bodies.body_of(request) as body:
                answered = await answer(body, request.remote or "")
        except BadExtenderRequest as error:
            return _text(HTTPStatus.BAD_REQUEST, str(error))
        except TooManyQuestions:
            return _text(HTTPStatus.TOO_MANY_REQUESTS, TOO_MANY)
        return web.Response(body=answered, content_type="application/json")

    return handler


def _reviewer(calls: ExtenderAnswers, bodies: HeldBodies) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            async with bodies.body_of(request) as body:
                answered = await calls.review(body, request.remote or "")
        except TooManyQuestions:
            return _text(HTTPStatus.TOO_MANY_REQUESTS, TOO_MANY)
        if answered is None:
            return _text(HTTPStatus.BAD_REQUEST, "not an AdmissionReview")
        return web.Response(body=answered, content_type="application/json")

    return handler


def _text(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")


def _certificate(
    configuration: SchedulerConfiguration, client: KubeClient, folder: Path
) -> CertificateFiles | SelfSignedCa:
    """The certificate of the files, or a self-made one, which kube-scheduler cannot verify."""
    own, server = configuration.extender, configuration.server
    if own.certificate_file:
        return CertificateFiles(own.certificate_file, own.key_file, "extender.certificateFile:")
    if server.certificate_file:
        return CertificateFiles(server.certificate_file, server.key_file, "server.certificateFile:")
    host = f"{server.service}.{configuration.leader_election.resource_namespace}"
    return SelfSignedCa(client, None, (f"{host}.svc", host, "localhost"), folder, Pace())
