"""What is counted while the scheduler runs; the edge adds to it, and the metrics render it."""

from dataclasses import dataclass, field

from kubeshare_py.exporters.distribution import Distribution, doubling

#: Seconds: kube-scheduler's for one attempt and for a pod's whole way; and its numbers of attempts.
ATTEMPT_BOUNDS = doubling(0.001, 15)
SLI_BOUNDS = doubling(0.01, 20)
POD_ATTEMPTS_BOUNDS = doubling(1, 5)
#: Seconds of one call of the machine: from 10 us to about 0.3 s.
TURN_BOUNDS = doubling(0.00001, 16)
#: Pods evicted for one pod or gang.
VICTIM_BOUNDS = doubling(1, 7)
#: From so many attempts on a pod is counted with all others, as kube-scheduler does.
MANY_ATTEMPTS = 15


@dataclass(slots=True)
class Tallies:
    """What is counted while the scheduler runs; the edge adds to it."""

    attempt_seconds: dict[tuple[str, ...], Distribution] = field(default_factory=dict)
    sli_seconds: dict[str, Distribution] = field(default_factory=dict)
    algorithm_seconds: Distribution = field(default_factory=lambda: Distribution(ATTEMPT_BOUNDS))
    pod_attempts: Distribution = field(default_factory=lambda: Distribution(POD_ATTEMPTS_BOUNDS))
    turn_seconds: Distribution = field(default_factory=lambda: Distribution(TURN_BOUNDS))
    preemption_victims: Distribution = field(default_factory=lambda: Distribution(VICTIM_BOUNDS))
    troubles: dict[str, int] = field(default_factory=dict)
    reloads: dict[str, int] = field(default_factory=lambda: {"applied": 0, "refused": 0})
    reloaded: bool = True

    def attempt(self, result: str, profile: str, seconds: float, times: int = 1) -> None:
        """So many tries ended like this, each after `seconds`."""
        found = self.attempt_seconds.get((result, profile))
        if found is None:
            found = self.attempt_seconds[result, profile] = Distribution(ATTEMPT_BOUNDS)
        found.observe(seconds, times)

    def bound(self, attempts: int, seconds: float) -> None:
        """A pod is bound, so long after it joined the queue."""
        self.pod_attempts.observe(attempts)
        label = f"{MANY_ATTEMPTS}+" if attempts >= MANY_ATTEMPTS else str(attempts)
        found = self.sli_seconds.get(label)
        if found is None:
            found = self.sli_seconds[label] = Distribution(SLI_BOUNDS)
        found.observe(seconds)

    def preempted(self, victims: int) -> None:
        """So many pods are evicted for one pod or gang; none where enough leave anyhow."""
        self.preemption_victims.observe(victims)

    def trouble(self, reason: str) -> None:
        """Somebody did this to a bound pod past the scheduler."""
        self.troubles[reason] = self.troubles.get(reason, 0) + 1

    def reload(self, *, applied: bool) -> None:
        """The configuration file changed."""
        self.reloads["applied" if applied else "refused"] += 1
        self.reloaded = applied
