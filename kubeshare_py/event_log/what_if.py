"""What another profile would have decided about the same pods, nodes and cards.

The API server is simulated: every Binding succeeds at once, and a victim leaves at once. Pods are
created, and end, when they did in the log; what was bound before the log began stays where it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    SchedulerConfiguration,
)
from kubeshare_py.domain.effects import Bind, Evict
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
from kubeshare_py.event_log.records import LoggedEvent, LogHeader, ProfilesConfigured
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.scheduling.configured_machine import configured_machine
from kubeshare_py.scheduling.machine import MAX_UNANSWERED

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
