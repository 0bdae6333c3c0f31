"""How long a plan of preemption waits for its victims, and how many plans one preemptor gets."""

from dataclasses import dataclass

from kubeshare_py.configuration.scheduler import SchedulerConfiguration


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """Victims that are there after `patience_s` (s) are not waited for any longer.

    `most_plans`: so many times one pod or gang may evict others before it is bound.
    """

    patience_s: float = 120.0
    most_plans: int = 5


def preemption_rules(configuration: SchedulerConfiguration) -> PreemptionRules:
    """As configured."""
    return PreemptionRules(
        configuration.preemption_patience_seconds, configuration.preemptions_per_pod
    )
