"""Runs a log's events through a machine of its own, and compares what comes out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    SchedulerConfiguration,
)
from kubeshare_py.domain.effects import Bind, Effect, Evict
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    PodGone,
    PodSeen,
    PodsListed,
    TimePassed,
)
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.records import (
    LoggedEvent,
    LogHeader,
    ProfilesConfigured,
    digest_of,
    placements_of,
)
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.machine import MAX_UNANSWERED, MachineEvent, configured_machine


@dataclass(frozen=True, slots=True)
class PlayedEvent:
    """An event that was run again, with its effects.

    `written` are the placements in the log, and `found` those of this run, if the effects differ.
    """

    event: MachineEvent
    now: float
    effects: Sequence[Effect]
    is_same: bool
    written: Sequence[str] = ()
    found: Sequence[str] = ()

    @property
    def difference(self) -> str:
        """What differs, in words."""
        missing = [one for one in self.written if one not in self.found]
        added = [one for one in self.found if one not in self.written]
        if missing or added:
            return f"log: {', '.join(missing) or 'nothing'}; here: {', '.join(added) or 'nothing'}"
        kinds = sorted({type(effect).__name__ for effect in self.effects})
        return f"reports or logged effects differ; here: {', '.join(kinds) or 'none'}"


class Replay:
    """One session of a log, run again from its beginning."""

    def __init__(self, header: LogHeader, factories: Mapping[str, PluginFactory]) -> None:
        """Raises ConfigurationError if a plugin of the profiles is not there."""
        self._factories = factories
        #: With the profiles in effect after the events so far.
        self.configuration = header.configuration
        self.machine = configured_machine(header.configuration, factories, header.name)

    def play(self, logged: LoggedEvent) -> PlayedEvent:
        """Run the next event. Raises ConfigurationError as the constructor does."""
        event = self.made(logged)
        effects = self.machine.handle(event, logged.now)
        if digest_of(effects) == logged.digest:
            return PlayedEvent(event, logged.now, effects, True)
        found = placements_of(effects)
        return PlayedEvent(event, logged.now, effects, False, logged.placements, found)

    def made(self, logged: LoggedEvent) -> MachineEvent:
        """The event as the machine takes it. Raises ConfigurationError as the constructor does."""
        event = logged.event
        if not isinstance(event, ProfilesConfigured):
            return event
        self.configuration = msgspec.structs.replace(self.configuration, profiles=event.configured)
        return profiles_replaced(event, self.configuration, self._factories)


def profiles_replaced(
    event: ProfilesConfigured,
    configuration: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
) -> ProfilesReplaced:
    """The event with its plugins. Raises ConfigurationError if one is not there."""
    replaced = msgspec.structs.replace(configuration, profiles=event.configured)
    return ProfilesReplaced(profiles(replaced, factories), event.configured)


# What another profile would have decided about the same pods, nodes and cards.
#
# The API server is simulated: every Binding succeeds at once, and a victim leaves at once. Pods are
# created, and end, when they did in the log; what was bound before the log began stays where it
# was.


#: The most iterations at one moment: the machine asks for another one as long as it has work.
_MAX_TURNS = 100_000


@dataclass(slots=True)
class PodOutcome:
    """Where a pod was bound, in the log and here, and how long it waited for that (s)."""

    key: PodKey
    since: float
    logged_node: NodeName | None = None
    logged_wait_s: float = 0.0
    node: NodeName | None = None
    wait_s: float = 0.0
    is_evicted: bool = False

    @property
    def is_same(self) -> bool:
        """Whether the pod has the same node."""
        return self.node == self.logged_node and not self.is_evicted


class OtherProfiles:
    """One session of a log under other profiles."""

    def __init__(
        self,
        header: LogHeader,
        other: SchedulerConfiguration,
        factories: Mapping[str, PluginFactory],
    ) -> None:
        """`other` has the profiles. Raises ConfigurationError if they cannot be used."""
        names = {one.scheduler_name for one in other.profiles}
        logged = {one.scheduler_name for one in header.configuration.profiles}
        if names != logged:
            said = f"{', '.join(sorted(names))}; the log has {', '.join(sorted(logged))}"
            raise ConfigurationError(f"profiles: their schedulerNames are {said}")
        used = msgspec.structs.replace(header.configuration, profiles=other.profiles)
        self.machine = configured_machine(used, factories, header.name)
        #: The pods that were not bound yet when they were first seen.
        self.pods: dict[PodUid, PodOutcome] = {}
        self._places: dict[PodUid, Bind] = {}
        self._shown: dict[PodUid, Pod] = {}
        self._gone: set[PodUid] = set()
        self._wake_at: float | None = None
        self._decides = False

    def play(self, logged: LoggedEvent) -> None:
        """Take the next event of the log."""
        event, now = logged.event, logged.now
        self._until(now)
        match event:
            case BindSlotsFree():
                self._decides = True
                self._turns(now)
            case BindAnswered() | TimePassed() | ProfilesConfigured():
                pass  # decided, and replaced, otherwise here
            case PodSeen(pod=pod):
                self._seen(pod, now)
            case PodsListed():
                there = [pod for pod in event.pods if pod.uid not in self._gone]
                pods = tuple(self._here(pod, now) for pod in there)
                self._tell(replace(event, pods=pods), now)
            case PodGone(uid=uid):
                self._ends(uid)
                self._tell(event, now)
            case _:
                self._tell(event, now)

    def _until(self, now: float) -> None:
        """What the machine does by itself before this moment."""
        while self._decides and self._wake_at is not None and self._wake_at < now:
            self._turns(self._wake_at)

    def _turns(self, now: float) -> None:
        for _ in range(_MAX_TURNS):
            self._tell(BindSlotsFree(MAX_UNANSWERED), now)
            self._wake_at = self.machine.wake_at(now)
            if self._wake_at is None or self._wake_at > now:
                return

    def _seen(self, pod: Pod, now: float) -> None:
        if pod.uid not in self._gone:
            self._tell(PodSeen(self._here(pod, now)), now)

    def _here(self, pod: Pod, now: float) -> Pod:
        """The pod as it is here: bound to where it was placed here, if at all."""
        outcome = self.pods.get(pod.uid)
        if pod.scheduler_name not in self.machine.profiles:
            return pod
        if outcome is None:
            if pod.node_name is not None:
                return pod  # it was bound before
            outcome = self.pods[pod.uid] = PodOutcome(pod.key, now)
        if pod.node_name is not None and outcome.logged_node is None:
            outcome.logged_node, outcome.logged_wait_s = pod.node_name, now - outcome.since
        self._shown[pod.uid] = pod
        return self._bound(pod)

    def _bound(self, pod: Pod) -> Pod:
        place = self._places.get(pod.uid)
        shown: dict[str, Any] = {"node_name": None, "allocation": None, "allocation_problem": ""}
        if place is not None:
            shown.update(node_name=place.node, allocation=place.allocation)
        return replace(pod, **shown, nominated=False, nominated_node=None)

    def _tell(self, event: Event, now: float) -> None:
        for effect in self.machine.handle(event, now):
            if isinstance(effect, Bind) and effect.uid in self.pods:
                outcome = self.pods[effect.uid]
                outcome.node, outcome.wait_s = effect.node, now - outcome.since
                self._places[effect.uid] = effect
                self._tell(BindAnswered(effect.uid, effect.allocation.token, Bound()), now)
                self._tell(PodSeen(self._bound(self._shown[effect.uid])), now)
            elif isinstance(effect, Evict) and effect.uid not in self._gone:
                if effect.uid in self.pods:
                    self.pods[effect.uid].is_evicted = True
                self._ends(effect.uid)
                self._tell(PodGone(effect.uid, stopped=True), now)

    def _ends(self, uid: PodUid) -> None:
        self._gone.add(uid)
        self._places.pop(uid, None)
        self._shown.pop(uid, None)


# What a replay found, as values and as text.


#: The most differences that are kept.
MAX_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSession:
    """One session of a folder. Without `damage`, the times (RFC 3339) of its first and last event.

    `lasted_s` are the seconds between them, `size_bytes` is what its files take.
    """

    session: str
    size_bytes: int
    began: str = ""
    ended: str = ""
    lasted_s: float = 0.0
    damage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDecision:
    """A placement, nomination or eviction of a log, in words: `Bind ml/a n1 GPU-…`.

    `number` is that of its event, counted from 1 in the session; `time` is RFC 3339, and
    `since_start_s` the same moment in seconds since the session began.
    """

    number: int
    time: str
    since_start_s: float
    decision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Effects that are not those of the log. `number` counts the session's events from 1.

    `since_start_s` is the `time` (RFC 3339) in seconds since the session began.
    """

    number: int
    time: str
    since_start_s: float
    event: str
    difference: str


@dataclass(slots=True, kw_only=True)
class ReplayReport:
    """A session that was run again, up to its end, to `--until`, or to where it is damaged."""

    session: str
    version: str
    is_snapshot: bool
    began: str = ""
    ended: str = ""
    events: int = 0
    differing: int = 0
    differences: list[Difference] = field(default_factory=list)
    #: Where the log is damaged; "" if it is not.
    damage: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PodReport:
    """What the log says about one pod, and how the replay of all went."""

    lines: tuple[str, ...]
    replay: ReplayReport


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfReport:
    """What other profiles would have done, in numbers, and the pods for which they differ."""

    pods: int
    placed: tuple[int, int]
    never_placed: tuple[int, int]
    nodes: tuple[int, int]
    mean_wait_s: tuple[float, float]
    evicted: int
    moved: int
    examples: tuple[PodOutcome, ...]


def what_if_report(outcomes: Sequence[PodOutcome]) -> WhatIfReport:
    """Pairs are (in the log, here)."""
    logged = [one for one in outcomes if one.logged_node]
    here = [one for one in outcomes if one.node]
    moved = [one for one in outcomes if not one.is_same]
    return WhatIfReport(
        pods=len(outcomes),
        placed=(len(logged), len(here)),
        never_placed=(len(outcomes) - len(logged), len(outcomes) - len(here)),
        nodes=(len({one.logged_node for one in logged}), len({one.node for one in here})),
        mean_wait_s=(
            _mean([one.logged_wait_s for one in logged]),
            _mean([one.wait_s for one in here]),
        ),
        evicted=sum(one.is_evicted for one in outcomes),
        moved=len(moved),
        examples=tuple(moved[:MAX_SHOWN]),
    )


def replay_lines(report: ReplayReport) -> Iterator[str]:
    """The report as text."""
    yield f"session {report.session}: {report.events} events, {report.began} to {report.ended}"
    yield from report.notes
    for one in report.differences:
        stamp = f"{one.time} +{one.since_start_s:.3f} s"
        yield f"{stamp} event {one.number}, {one.event}: {one.difference}"
    if report.differing > len(report.differences):
        yield f"… and {report.differing - len(report.differences)} more"
    same = "the effects of all events are those of the log"
    yield f"the effects of {report.differing} events differ" if report.differing else same


def session_lines(found: Iterable[ListedSession]) -> Iterator[str]:
    """A line for each session: its name, from when to when it is, and its size."""
    for one in found:
        times = one.damage or f"{one.began} to {one.ended} ({one.lasted_s:.3f} s)"
        yield f"{one.session}  {times}  {one.size_bytes} bytes"


def decision_lines(found: Iterable[ListedDecision]) -> Iterator[str]:
    """A line for each decision, with its time and the seconds since the session began."""
    for one in found:
        yield f"{one.time} +{one.since_start_s:.3f} s event {one.number}: {one.decision}"


def what_if_lines(report: WhatIfReport) -> Iterator[str]:
    """The report as text."""
    yield f"{report.pods} pods were not bound when the log first shows them"
    yield f"{'':<24}{'in the log':>12}{'here':>12}"
    for name, (logged, here) in (
        ("placed", report.placed),
        ("never placed", report.never_placed),
        ("nodes used", report.nodes),
        ("mean wait (s)", report.mean_wait_s),
    ):
        yield f"{name:<24}{logged:>12}{here:>12}"
    yield f"{'evicted':<24}{'':>12}{report.evicted:>12}"
    for one in report.examples:
        logged_place = _place(one.logged_node, one.logged_wait_s)
        here_place = _place(one.node, one.wait_s)
        evicted = ", then evicted" if one.is_evicted else ""
        yield f"{one.key}: {logged_place} in the log, {here_place}{evicted} here"
    if report.moved > len(report.examples):
        yield f"… and {report.moved - len(report.examples)} more pods"
    if not report.moved:
        yield "every pod has the same node"


def _place(node: str | None, wait_s: float) -> str:
    return f"{node} after {wait_s:.1f} s" if node else "not placed"


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 3) if values else 0.0
