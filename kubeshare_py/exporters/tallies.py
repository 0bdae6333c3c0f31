"""Counts kept while the scheduler runs; the edge adds to them, and the metrics render them."""

from dataclasses import dataclass, field

from kubeshare_py.exporters.distribution import Distribution, doubling

#: kube-scheduler's bounds: seconds of one attempt and of a pod's whole way, and numbers of
#: attempts.
ATTEMPT_BOUNDS = doubling(0.001, 15)
SLI_BOUNDS = doubling(0.01, 20)
POD_ATTEMPTS_BOUNDS = doubling(1, 5)
#: Seconds of one call of the machine: from 10 µs to about 0.3 s.
EVENT_BOUNDS = doubling(0.00001, 16)
#: Pods evicted for one pod or gang.
VICTIM_BOUNDS = doubling(1, 7)
#: From this many attempts on, pods are counted together, as in kube-scheduler.
MANY_ATTEMPTS = 15


@dataclass(slots=True)
class EventLogTallies:
    """What was written of the event log: events, bytes, and how often writing failed."""

    is_writing: bool = False
    events: int = 0
    size: int = 0
    failures: int = 0


@dataclass(slots=True)
class Tallies:
    """Counts kept while the scheduler runs; the edge adds to them."""

    attempt_seconds: dict[tuple[str, ...], Distribution] = field(default_factory=dict)
    sli_seconds: dict[str, Distribution] = field(default_factory=dict)
    algorithm_seconds: Distribution = field(default_factory=lambda: Distribution(ATTEMPT_BOUNDS))
    pod_attempts: Distribution = field(default_factory=lambda: Distribution(POD_ATTEMPTS_BOUNDS))
    event_seconds: Distribution = field(default_factory=lambda: Distribution(EVENT_BOUNDS))
    preemption_victims: Distribution = field(default_factory=lambda: Distribution(VICTIM_BOUNDS))
    warnings: dict[str, int] = field(default_factory=dict)
    slow_turns: dict[str, int] = field(default_factory=dict)
    reloads: dict[str, int] = field(default_factory=lambda: {"applied": 0, "refused": 0})
    reloaded: bool = True

    def attempt(self, result: str, profile: str, seconds: float, times: int = 1) -> None:
        """`times` attempts ended with this result, each after `seconds`."""
        found = self.attempt_seconds.get((result, profile))
        if found is None:
            found = self.attempt_seconds[result, profile] = Distribution(ATTEMPT_BOUNDS)
        found.observe(seconds, times)

    def bound(self, attempts: int, seconds: float) -> None:
        """A pod was bound, `seconds` after it joined the queue."""
        self.pod_attempts.observe(attempts)
        label = f"{MANY_ATTEMPTS}+" if attempts >= MANY_ATTEMPTS else str(attempts)
        found = self.sli_seconds.get(label)
        if found is None:
            found = self.sli_seconds[label] = Distribution(SLI_BOUNDS)
        found.observe(seconds)

    def preempted(self, victims: int) -> None:
        """`victims` pods are evicted for one pod or gang; 0 if enough others leave anyhow."""
        self.preemption_victims.observe(victims)

    def warning(self, reason: str) -> None:
        """Another client did this to a bound pod."""
        self.warnings[reason] = self.warnings.get(reason, 0) + 1

    def slow_plugin(self, plugin: str) -> None:
        """A plugin took too long in one turn."""
        self.slow_turns[plugin] = self.slow_turns.get(plugin, 0) + 1

    def reload(self, *, applied: bool) -> None:
        """The configuration file changed."""
        self.reloads["applied" if applied else "refused"] += 1
        self.reloaded = applied
