"""Settings of the configuration that the command line of kubeshare-scheduler overrides."""

import msgspec

from kubeshare_py.configuration.scheduler import ConfigurationError, SchedulerConfiguration
from kubeshare_py.configuration.settings_rules import url_problem


def with_url(configuration: SchedulerConfiguration, url: str) -> SchedulerConfiguration:
    """The configuration with --prometheus-url. Raises ConfigurationError."""
    if problem := url_problem(url):
        raise ConfigurationError(f"--prometheus-url: {problem}")
    inventory = msgspec.structs.replace(configuration.inventory, source="prometheus", url=url)
    return msgspec.structs.replace(configuration, inventory=inventory)


def with_election(configuration: SchedulerConfiguration, elect: bool) -> SchedulerConfiguration:
    """The configuration with --leader-elect."""
    election = msgspec.structs.replace(configuration.leader_election, leader_elect=elect)
    return msgspec.structs.replace(configuration, leader_election=election)
