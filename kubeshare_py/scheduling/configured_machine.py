"""A machine as a configuration describes it: for the scheduler's process, and for a replay."""

from collections.abc import Mapping

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.pod_groups.gang_repair import repair_rules
from kubeshare_py.scheduling.preemption.rules import preemption_rules
from kubeshare_py.scheduling.queue.queue_rules import queue_rules
from kubeshare_py.scheduling.reservations.reservation_patience import reservation_rules


def configured_machine(
    configuration: SchedulerConfiguration, factories: Mapping[str, PluginFactory], name: str
) -> Machine:
    """A machine with the configured profiles; `name` begins its decision tokens.

    Raises ConfigurationError if a profile is unusable.
    """
    return Machine(
        profiles(configuration, factories),
        name,
        repair_rules(configuration),
        reservation_rules(configuration),
        preemption_rules(configuration),
        configuration.forced_delete_hold_seconds,
        waiting=queue_rules(configuration),
    )
