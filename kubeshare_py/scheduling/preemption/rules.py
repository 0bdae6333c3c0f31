"""How long a plan waits for its victims, and how many plans one preemptor gets."""

from dataclasses import dataclass

from kubeshare_py.configuration.scheduler import SchedulerConfiguration


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """`patience_s`: how long (s) a plan waits for victims that do not leave.

    `most_plans`: how many times one pod or gang may evict others before it is bound.
    """

    patience_s: float = 120.0
    most_plans: int = 5


def preemption_rules(configuration: SchedulerConfiguration) -> PreemptionRules:
    """The rules of a configuration."""
    return PreemptionRules(
        configuration.preemption_patience_seconds, configuration.preemptions_per_pod
    )
