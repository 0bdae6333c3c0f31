"""kube-scheduler's requests to its extender, handed to the machine, and the answers to them."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from kubeshare_py.admission.dialect_pods import taken_resources
from kubeshare_py.admission.review import Rules, answer
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.effects import AnswerBind, ReportWaiting
from kubeshare_py.domain.events import BindAsked, PodSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeFailure
from kubeshare_py.edges.process.question_turns import LARGE, QuestionTurns, aside
from kubeshare_py.edges.scheduler.decision_loop import DecisionLoop
from kubeshare_py.manifests.api_paths import pod_path
from kubeshare_py.manifests.calls.extender import (
    ExtenderQuestion,
    bind_result,
    filter_result,
    priorities,
    read_bind,
    read_pod,
    read_question,
)
from kubeshare_py.scheduling.explain.extender_answers import filtered, fitting_now, scored

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
                self.loop.api.wake(ReportWaiting(uid, key, _CARDS_FREE))

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
