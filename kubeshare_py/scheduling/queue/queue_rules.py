"""How many pods of a namespace wait in the queue, and how long refused ones stay out of it."""

from dataclasses import dataclass

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.scheduling.queue.timers import BACKOFF, QueueBackoff


@dataclass(frozen=True, slots=True)
class QueueRules:
    """`max_waiting`: the most pods of one namespace in the queue; 0 is no limit.

    `backoff`: of pods and gangs whose placement failed. `flush_after_s`: after so long (s) without
    an attempt, pods and gangs that fit nowhere are tried again in any case.
    """

    max_waiting: int = 0
    backoff: QueueBackoff = BACKOFF
    flush_after_s: float = 300.0


def queue_rules(configuration: SchedulerConfiguration) -> QueueRules:
    """The rules of a configuration."""
    return QueueRules(
        configuration.max_waiting_pods_per_namespace,
        QueueBackoff(
            configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
        ),
        configuration.pod_max_in_unschedulable_pods_seconds,
    )
