"""The endpoint for a kube-scheduler that asks this scheduler as its extender, over HTTPS.

POST /filter, /prioritize and /bind answer as k8s.io/kube-scheduler/extender/v1 defines. Questions
only read the machine; /bind hands it a request and waits for what becomes of the Binding. While
another process leads, these requests get 503, and /readyz says so. POST /webhook answers
AdmissionReviews of API servers that call HAMi's webhook, at any time.
"""

import asyncio
import ssl
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.admission.dialect_pods import taken_resources
from kubeshare_py.admission.review import Rules, answer
from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    Extender,
    SchedulerConfiguration,
)
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import AnswerBind, ReportWaiting
from kubeshare_py.domain.events import BindAsked, PodSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.kube.certificates import CertificateFiles, Pace, SelfSignedCa
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeFailure
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import Bounds, HeldBodies, listening
from kubeshare_py.edges.process.build import say_listening, url
from kubeshare_py.edges.process.question_turns import LARGE, QuestionTurns, TooManyQuestions, aside
from kubeshare_py.edges.scheduler.decision_loop import DecisionLoop
from kubeshare_py.manifests.api_paths import pod_path
from kubeshare_py.manifests.extender import (
    BadExtenderRequest,
    ExtenderQuestion,
    bind_result,
    filter_result,
    priorities,
    read_bind,
    read_pod,
    read_question,
)
from kubeshare_py.scheduling.explain.extender_answers import filtered, fitting_now, scored

# kube-scheduler's requests to its extender, handed to the machine, and the answers to them.


#: How long (s) a bind is waited for; kube-scheduler's httpTimeout should be longer.
BIND_S = 25.0
#: How long (s) a question waits for the bind of the pod that was asked about before it.
NEXT_S = 0.03
#: Seconds between looks for refused pods that fit now, and the most that are remembered.
WAKE_S, MAX_REFUSED = 1.0, 5000
#: Pods that are read for binds: at a time, in a second, and how long (s) one is waited for.
MAX_LOOKED_UP, LOOKED_UP_PER_S, LOOK_UP_S = 4, 50, 5.0
_CARDS_FREE = Diagnosis(sentence="GPUs that it asks for are free: kube-scheduler tries it again")
NO_LEADER = "another process leads, or this one does not lead yet"


@dataclass(slots=True)
class ExtenderCalls:
    """The requests of one kube-scheduler; see `extender_server`. `client` reads single pods.

    kube-scheduler decides about one pod after the other, and sends the bind of one while it already
    asks about the next. So a question waits a moment for the bind of the pod before, whose cards
    would otherwise seem free, and the next pod would be sent where it is refused.
    """

    loop: DecisionLoop
    client: KubeClient
    dialects: Dialects
    _waiting: dict[PodUid, list[asyncio.Future[str]]] = field(default_factory=dict)
    #: Pods that fitted nowhere when they were last asked about, the oldest first.
    _refused: dict[PodUid, None] = field(default_factory=dict)
    _expected: PodUid | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _turns: QuestionTurns = field(default_factory=QuestionTurns)
    _reviews: QuestionTurns = field(default_factory=QuestionTurns)
    #: When lookups began lately (s, the loop's clock).
    _looked_up: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.loop.answer_bind = self.answered

    @property
    def problem(self) -> str:
        """Why no request can be answered now, "" if they can."""
        return "" if self.loop.leads else NO_LEADER

    async def filter(self, body: bytes, client: str) -> bytes:
        """Answer /filter. Raises BadExtenderRequest, and TooManyQuestions."""
        async with self._turns.turn(client, len(body)):
            question = await self._read(body)
        await self._before_comes(question.pod.uid)
        async with self._turns.turn(client, len(body)):
            return self._filtered(question)

    async def score(self, body: bytes, client: str) -> bytes:
        """Answer /prioritize. Raises BadExtenderRequest, and TooManyQuestions."""
        async with self._turns.turn(client, len(body)):
            question = await self._read(body)
            return priorities(scored(self.loop.machine, question.pod, question.names))

    async def bind(self, body: bytes, client: str) -> bytes:
        """Answer /bind once the Binding is answered.

        Raises BadExtenderRequest, and TooManyQuestions before the machine has the request.

        If that takes too long, kube-scheduler is told so, and asks again about the pod later; the
        Binding is sent on until it is answered.
        """
        asked = read_bind(body)
        if self.loop.machine.progress_of(asked.uid) is None and self._may_look_up():
            await self._look_up(asked)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with self._turns.turn(client, len(body)):
            self._waiting.setdefault(asked.uid, []).append(answer)
            self.loop.ask(asked)
        if asked.uid == self._expected:
            self._arrived.set()
        try:
            async with asyncio.timeout(BIND_S):
                return bind_result(await answer)
        except TimeoutError:
            return bind_result(f"it is not known after {BIND_S:.0f} s whether the pod is bound")

    async def review(self, body: bytes, client: str) -> bytes | None:
        """Answer /webhook; None if the body is no AdmissionReview. Raises TooManyQuestions.

        Pods that name no scheduler become kube-scheduler's, as by HAMi's webhook: its registration
        says in which namespaces. One review after the other is answered on another thread: a pod
        with a thousand containers takes a tenth of a second.
        """
        profiles = self.loop.machine.profiles
        extended = [name for name, one in profiles.items() if one.extender]
        rules = Rules(
            choices={name: one.isolation for name, one in profiles.items()},
            dialects=self.dialects,
            taken=taken_resources(self.dialects, extended, contested=True),
        )
        async with self._reviews.turn(client, len(body)):
            return await aside(answer, body, rules)

    async def wake_refused(self) -> None:
        """Have kube-scheduler try pods again for which cards became free, for ever.

        It tries refused pods after events, of which it may hear before this scheduler does; then
        nothing fits yet, and without another event it would try them after five minutes. An update
        of the pod is an event, so the condition says that there are cards.
        """
        seen = -1
        while True:
            await asyncio.sleep(WAKE_S)
            machine = self.loop.machine
            if not self.loop.leads or machine.changes == seen or not self._refused:
                continue
            seen = machine.changes
            for uid, key in fitting_now(machine, self._refused):
                del self._refused[uid]
                self.loop.api.write_condition_only(ReportWaiting(uid, key, _CARDS_FREE))

    def answered(self, effect: AnswerBind) -> None:
        """Pass the machine's answer on to all requests about the pod."""
        for one in self._waiting.pop(effect.uid, ()):
            if not one.done():
                one.set_result(effect.problem)

    async def _read(self, body: bytes) -> ExtenderQuestion:
        """The question of a body. Raises BadExtenderRequest."""
        if len(body) < LARGE:
            return read_question(body, self.dialects)
        return await aside(read_question, body, self.dialects)

    async def _before_comes(self, uid: PodUid) -> None:
        """Wait a moment for the bind of the pod before, if it is to come."""
        if self._expected in (None, uid):
            return
        try:
            async with asyncio.timeout(NEXT_S):
                await self._arrived.wait()
        except TimeoutError:
            pass
        self._expected = None

    def _filtered(self, question: ExtenderQuestion) -> bytes:
        pod = question.pod
        answer = filtered(self.loop.machine, pod, question.names)
        self._refused.pop(pod.uid, None)
        if answer.fitting and pod.shape.claims:
            self._expected = pod.uid
            self._arrived.clear()
        elif not answer.fitting and not answer.problem:
            self._refused[pod.uid] = None
            if len(self._refused) > MAX_REFUSED:
                del self._refused[next(iter(self._refused))]
        return filter_result(question, answer.fitting, answer.failed, answer.problem)

    def _may_look_up(self) -> bool:
        """Whether one more pod may be read in this second.

        kube-scheduler rarely asks for a pod that the watch has not shown, but others can name any.
        """
        now = asyncio.get_running_loop().time()
        while self._looked_up and self._looked_up[0] <= now - 1.0:
            self._looked_up.popleft()
        if len(self._looked_up) >= LOOKED_UP_PER_S:
            return False
        self._looked_up.append(now)
        return True

    async def _look_up(self, asked: BindAsked) -> None:
        """Read a pod that the watch has not shown yet, and hand it to the machine."""
        path = pod_path(asked.key)
        try:
            answer = await self.client.request("GET", path, timeout_s=LOOK_UP_S, patient=False)
        except KubeFailure:
            return  # the machine answers that it has not seen the pod
        pod = read_pod(answer.body, self.dialects)
        if pod is not None and pod.uid == asked.uid:
            await self.loop.deliver([PodSeen(pod)])


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
