"""One machine among its watches: events go in, and effects are performed at once."""

import asyncio
import dataclasses
import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import assert_never

from kubeshare_py.domain.effects import (
    AnswerBind,
    Bind,
    CardChange,
    Effect,
    Evict,
    Lingers,
    LogPluginFailure,
    Nominate,
    Overuse,
    Preempt,
    ReportCardChange,
    ReportOvercommit,
    ReportPodWarning,
    ReportScheduled,
    ReportWaiting,
    WriteObject,
)
from kubeshare_py.domain.events import BindAsked, BindSlotsFree, Event
from kubeshare_py.domain.storage import ObjectWrite
from kubeshare_py.edges.event_log.event_log import EventLog
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow_reduced
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.backoff import Sleep
from kubeshare_py.edges.process.decision_log import LogLimit
from kubeshare_py.edges.scheduler.configuration_watch import Updates
from kubeshare_py.edges.scheduler.leader_lease import LeadershipLost
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.edges.scheduler.writes.kube_api import HAND_OVER_S, KubeApi
from kubeshare_py.framework.boundary import SLOW_TURN_S
from kubeshare_py.framework.profile_making import warnings
from kubeshare_py.framework.scheduler_profile import Profile, ProfilesReplaced
from kubeshare_py.manifests.events import (
    BUDGET_EVENTS,
    BadAllocation,
    BudgetFields,
    R,
    ReadPod,
    T,
    Translation,
)
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Changes, Codec, ListResult, Problem
from kubeshare_py.scheduling.machine import MAX_UNANSWERED, Machine, MachineEvent

_PerformedEffect = Coroutine[None, None, None]

PODS = "/api/v1/pods"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
#: The most events handled before other tasks run, and the time (s) after which they run in any
#: case: a pod as large as it may be takes up to 20 ms.
BATCH, BATCH_S = 200, 0.01
#: The longest wait (s) for answers: a bind and the read of its pod, with the waits before them.
DRAIN_S = 15.0


@dataclass(slots=True)
class DecisionLoop:
    """One machine, which gets the watches' events; its effects are performed once it `leads`.

    `log` writes down what the machine handles. `group` is where binds and evictions run; nothing
    else does, so that they can outlive the rest.
    """

    machine: Machine
    api: KubeApi
    group: asyncio.TaskGroup
    wakeup: asyncio.Event
    health: ProcessHealth
    leads: bool = False
    log: EventLog | None = None
    #: Where answers for kube-scheduler go.
    answer_bind: Callable[[AnswerBind], None] = lambda answer: None
    sleep: Sleep = asyncio.sleep
    batch_s: float = BATCH_S
    _requests: set[asyncio.Task[None]] = field(default_factory=set)
    _slow_logged: LogLimit = field(default_factory=LogLimit)

    def __post_init__(self) -> None:
        self.machine.time_plugins(perf_counter)

    async def deliver(self, events: Iterable[Event | Problem | BadAllocation]) -> None:
        """Hand events to the machine in order; other tasks run between batches.

        Objects that cannot be read are logged.
        """
        handled, began_s = 0, perf_counter()
        for event in events:
            if isinstance(event, Problem):
                where = f"{event.namespace}/{event.name}"
                decision_log.warn("unreadable", object=where, uid=event.uid, message=event.text)
            elif isinstance(event, BadAllocation):
                decision_log.warn("allocation", pod=str(event.key), message=event.text)
            elif not self.machine.is_known(event):
                self._handle(event)
            handled += 1
            if handled >= BATCH or perf_counter() - began_s >= self.batch_s:
                self.wakeup.set()
                await asyncio.sleep(0)
                handled, began_s = 0, perf_counter()
        self.wakeup.set()

    def ask(self, event: BindAsked) -> None:
        """Hand a request of kube-scheduler to the machine; `answer_bind` gets the answer."""
        self._handle(event)
        self.wakeup.set()

    def lead(self) -> None:
        """Perform effects from now on, and report what was not reported while standing by."""
        self.leads = True
        self.health.held.begin(self.health.clock())
        self._warn_of([*self.machine.profiles.values()])
        for report in self.machine.waiting_reports():
            self.api.report(report)
        self._perform(self.machine.standing_warnings(), 0.0)

    async def follow_election(self, campaign: Awaitable[None]) -> None:
        """Take part in an election, and perform no effect from the moment that it is lost.

        Other tasks learn of a failed task only some iterations of the event loop later.
        """
        try:
            await campaign
        except LeadershipLost:
            self.leads = False
            raise

    async def decide(self) -> None:
        """Decide whenever an event came or the machine's wake-up time is reached."""
        now = asyncio.get_running_loop().time
        while True:
            self.wakeup.clear()
            self._handle(BindSlotsFree(MAX_UNANSWERED))
            wake_at = self.machine.wake_at(now())
            if wake_at is not None and wake_at <= now():
                await asyncio.sleep(0)
                continue
            if wake_at is None:
                await self.wakeup.wait()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout_at(wake_at):
                    await self.wakeup.wait()

    async def watch(
        self,
        client: KubeClient,
        path: str,
        codec: Codec[T],
        translation: Translation[T, R],
        *,
        reduce: Callable[[T], R] | None = None,
        on_update: Callable[[ListResult[R] | Changes[T]], None] = lambda update: None,
    ) -> None:
        """Follow one resource for ever.

        `reduce` replaces the translation's for listed objects; `on_update` is called with each list
        or batch of changes after the machine has handled its events.
        """
        connected = self.health.watching(path.rpartition("/")[2])
        reduce = reduce or translation.reduce
        watched = follow_reduced(client, path, codec, reduce, connected=connected)
        async with aclosing(watched) as stream:
            async for update in stream:
                await self.deliver(translation.events(update))
                if isinstance(update, ListResult):
                    # Objects of a list stay: no garbage collection needs to look at them again.
                    gc.freeze()
                on_update(update)
                del update  # not kept while nothing comes

    async def watch_pods(
        self,
        client: KubeClient,
        pod_events: Translation[PodFields, ReadPod],
        on_update: Callable[[ListResult[ReadPod] | Changes[PodFields]], None] = lambda _: None,
    ) -> None:
        """Follow the pods for ever; see `watch`."""
        await self.watch(client, PODS, Codec(PodFields), pod_events, on_update=on_update)

    async def watch_budgets(self, client: KubeClient) -> None:
        """Follow the disruption budgets for ever."""
        await self.watch(client, BUDGETS, Codec(BudgetFields), BUDGET_EVENTS)

    async def follow_configuration(self, updates: Updates) -> None:
        """Apply new profiles, while there may be updates; log unusable ones."""
        async with aclosing(updates) as stream:
            async for update in stream:
                self.health.tallies.reload(applied=not update.problem)
                if update.problem:
                    decision_log.warn("configuration", message=update.problem)
                    continue
                decision_log.inform("configuration", waits_for_restart=update.for_restart)
                self._warn_of(update.profiles)
                self._handle(ProfilesReplaced(update.profiles, update.configured))
                self.health.configured = update.configured
                self.wakeup.set()

    @staticmethod
    def _warn_of(profiles: Sequence[Profile]) -> None:
        for warning in warnings(profiles):
            decision_log.warn("configuration", message=warning)

    async def drain(self) -> bool:
        """Wait until no Binding can be stored any more, at most as long as that may take.

        That is once all are answered, and after an answer that leaves one open, once the API server
        has given it up. False if an answer did not come: that Binding may be stored after a
        successor has listed the pods, which would give the same cards away again.
        """
        if self._requests:
            decision_log.inform("drain", binds=len(self._requests))
            await asyncio.wait(self._requests, timeout=DRAIN_S)
        if self._requests:
            return False
        since = self.machine.in_doubt_since
        left_s = 0.0 if since is None else since + HAND_OVER_S - asyncio.get_running_loop().time()
        if left_s > 0:
            decision_log.inform("drain", in_doubt_s=round(left_s, 1))
            await self.sleep(left_s)
        return True

    def _handle(self, event: MachineEvent) -> None:
        began_s = perf_counter()
        now = asyncio.get_running_loop().time()
        effects = self.machine.handle(event, now)
        took_s = perf_counter() - began_s
        if self.log is not None:
            self.log.handled(event, now, effects)
        self.health.handled(event, effects, took_s)
        for plugin, plugin_s in self.machine.slow_plugins():
            self._is_slow(plugin, plugin_s, took_s)
        self._perform(effects, took_s)

    def _is_slow(self, plugin: str, plugin_s: float, took_s: float) -> None:
        """A plugin took more than SLOW_TURN_S of a turn: count it, and log it once a minute."""
        self.health.tallies.slow_plugin(plugin)
        if self._slow_logged.is_due(plugin):
            spent = {"ms": round(plugin_s * 1000, 3), "turn_ms": round(took_s * 1000, 3)}
            decision_log.warn("plugin slow", plugin=plugin, limit_ms=SLOW_TURN_S * 1000, **spent)

    def _perform(self, effects: Iterable[Effect], took_s: float) -> None:
        for effect in effects:
            if not self.leads:
                continue  # the leader reports
            decided(effect, **self.health.about(effect, took_s))
            if isinstance(effect, ReportPodWarning):
                self.health.tallies.warning(effect.warning)
            match effect:
                case Bind() | WriteObject() | Evict() | Nominate():
                    self._begin(self._request(effect))
                case AnswerBind():
                    self.answer_bind(effect)
                case Preempt():
                    self.health.tallies.preempted(len(effect.plan.victims))
                    self.api.preempting(effect)
                case LogPluginFailure() | Lingers():
                    pass  # it is in the log
                case _:
                    self.api.report(effect)

    def _request(self, effect: Bind | WriteObject | Evict | Nominate) -> _PerformedEffect:
        match effect:
            case Bind():
                return self._bind(effect)
            case WriteObject():
                return self._write(effect)
            case Evict():
                return self._evict(effect)
            case Nominate():
                return self.api.nominate(effect)

    def _begin(self, request: _PerformedEffect) -> None:
        task = self.group.create_task(request)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _write(self, effect: WriteObject) -> None:
        self._handle(await self.api.write(effect))
        self.wakeup.set()

    async def _evict(self, effect: Evict) -> None:
        failed = await self.api.evict(effect, partial(self.machine.is_evicted, effect.uid))
        if failed is not None:
            self._handle(failed)

    async def _bind(self, effect: Bind) -> None:
        self._handle(await self.api.bind(effect))
        self.wakeup.set()


# What the log says of each effect: one line, as fields.


_OVERUSE = {
    Overuse.AMOUNT: "overcommit",
    Overuse.EXCLUSIVITY: "broken exclusivity",
    Overuse.PORT: "shared port",
    Overuse.CLAIM: "disputed cards",
    Overuse.AGENT: "unusable node agent",
}


def decided(effect: Effect, **about: object) -> None:
    """Log a decision about a pod; `about` are further fields (profile, cycle, duration)."""
    match effect:
        case Bind():
            _line("bind", effect, {**_placement(effect), **about})
        case Evict():
            pod = {"pod": str(effect.key), "uid": effect.uid}
            decision_log.warn("evict", **pod, reason=effect.reason, message=effect.message, **about)
        case Nominate():
            _line("nominate", effect, {"node": effect.node, "cards": effect.cards, **about})
        case Preempt():
            _preempt(effect, about)
        case ReportWaiting():
            _line("waiting", effect, {"reason": effect.diagnosis.message, **about})
        case ReportScheduled():
            # Not a decision: the API server stored the one that was logged.
            _line("bound", effect, {"node": effect.node, **about}, logging.DEBUG)
        case ReportPodWarning():
            pod = {"pod": str(effect.key), "uid": effect.uid}
            decision_log.warn(
                "pod warning", **pod, reason=effect.warning, message=effect.note, **about
            )
        case ReportOvercommit() | ReportCardChange():
            _of_node(effect, **about)
        case WriteObject() | AnswerBind() | Lingers() | LogPluginFailure():
            _for_the_log(effect, **about)
        case _:
            assert_never(effect)


def _fields_of(write: ObjectWrite) -> dict[str, str]:
    """The kind of a write, and its fields."""
    named = {one.name: getattr(write, one.name) for one in dataclasses.fields(write)}
    return {"write": type(write).__name__, **named}


def _placement(bind: Bind) -> dict[str, object]:
    """Node, cards and token; the cards of each container where they differ."""
    held = bind.allocation
    fields: dict[str, object] = {
        "node": bind.node,
        "cards": [card.uuid for card in held.cards],
        "token": held.token,
    }
    if held.claims:
        fields["containers"] = {
            str(part.container): [card.uuid for card in part.cards] for part in held.containers
        }
    return fields


def _for_the_log(
    effect: WriteObject | AnswerBind | Lingers | LogPluginFailure, **about: object
) -> None:
    if isinstance(effect, AnswerBind):
        answer = {"node": effect.node, "reason": effect.problem, **about}
        _line("extender", effect, answer, logging.INFO if effect.problem else logging.DEBUG)
        return
    if isinstance(effect, WriteObject):
        _line("write", effect, {"object": _fields_of(effect.write), **about})
        return
    if isinstance(effect, Lingers):
        held = {"node": effect.node, "cards": effect.cards, "for_s": round(effect.for_s, 3)}
        decision_log.warn("forced deletion", pod=str(effect.key), uid=effect.uid, **held, **about)
        return
    decision_log.warn(
        "plugin failed",
        plugin=effect.plugin,
        extension_point=effect.extension_point,
        message=effect.message,
        times=effect.times,
        traceback=effect.traceback,
        **about,
    )


def _of_node(effect: ReportOvercommit | ReportCardChange, **about: object) -> None:
    if isinstance(effect, ReportCardChange):
        is_bad = effect.change in (CardChange.FAILED, CardChange.VANISHED)
        pods = [str(key) for key, _ in effect.pods]
        held = {"change": effect.change, "card": effect.uuid, "message": effect.card, "pods": pods}
        (decision_log.warn if is_bad else decision_log.inform)(
            "card", node=effect.node, **held, **about
        )
        return
    event, log = _OVERUSE[effect.kind], decision_log.warn
    if not effect.is_over:
        event, log = f"{event} ended", decision_log.inform
    which = {"card": effect.uuid} if effect.port is None else {"port": effect.port}
    log(event, node=effect.node, **which, message=effect.note, **about)


def _preempt(effect: Preempt, about: dict[str, object]) -> None:
    plan = effect.plan
    fields: dict[str, object] = {
        "victims": [str(victim.key) for victim in plan.victims],
        "victim_uids": [victim.uid for victim in plan.victims],
        "violations": plan.violations,
        **about,
    }
    if plan.victims:
        decision_log.warn("preempt", pod=str(effect.key), uid=effect.uid, **fields)
    else:
        _line("preempt", effect, fields)


def _line(
    event: str,
    effect: (
        Bind | WriteObject | Nominate | Preempt | AnswerBind | ReportWaiting | ReportScheduled
    ),
    fields: dict[str, object],
    level: int = logging.INFO,
) -> None:
    decision_log.decision(event, effect.key, effect.uid, fields, level)
