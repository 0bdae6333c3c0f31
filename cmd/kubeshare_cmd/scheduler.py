"""kubeshare-scheduler: parse arguments and start."""

import argparse
import sys
from pathlib import Path

import msgspec

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.fields import url_problem
from kubeshare_py.configuration.scheduler import ConfigurationError, SchedulerConfiguration
from kubeshare_py.domain.quantity import BadQuantity, whole
from kubeshare_py.edges.event_log.event_log import LogLimits
from kubeshare_py.edges.process.plugin_entry_points import configured, with_entry_points
from kubeshare_py.edges.scheduler import configuration_file, configuration_watch, process
from kubeshare_py.edges.scheduler.event_logging import LogSettings, RunOptions
from kubeshare_py.framework.profile_making import warnings
from kubeshare_py.programs import scheduler

# The arguments of kubeshare-scheduler.


_MIN = 1 << 20

EXAMPLES = """examples:
  kubeshare-scheduler --check-config
  kubeshare-scheduler --config config/scheduler.yaml
  kubeshare-scheduler --kubeconfig ~/.kube/config --prometheus-url http://prometheus:9090

exit codes: 0 ended in order, 1 another scheduler may lead now, 2 the configuration or the
arguments cannot be used, 3 the cluster cannot be reached with these credentials
"""


def parser() -> argparse.ArgumentParser:
    """The parser."""
    made = argparse.ArgumentParser(
        prog="kubeshare-scheduler",
        description="Schedules pods with schedulerName kubeshare-scheduler onto shared GPUs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--config", metavar="FILE", help="configuration (default: built in)")
    made.add_argument("--kubeconfig", metavar="FILE", help="default: in-cluster, or kubectl's")
    made.add_argument("--prometheus-url", metavar="URL", help="overrides inventory.url")
    made.add_argument(
        "--leader-elect", choices=("true", "false"), help="overrides leaderElection.leaderElect"
    )
    made.add_argument("--check-config", action="store_true", help="print what is in effect")
    _add_event_log(made)
    made.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    return made


def _add_event_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--event-log", metavar="DIR", help="write every event there, for kubeshare-replay"
    )
    parser.add_argument(
        "--event-log-size",
        metavar="SIZE",
        type=_size,
        default=LogLimits().total_bytes,
        help="the most that DIR may take, such as 2Gi (default: 8Gi)",
    )


def event_log_settings(arguments: argparse.Namespace) -> LogSettings | None:
    """What the arguments ask for; None without a log."""
    if not arguments.event_log:
        return None
    total = arguments.event_log_size
    limits = LogLimits(file_bytes=min(LogLimits().file_bytes, total // 4), total_bytes=total)
    return LogSettings(Path(arguments.event_log), limits)


def _size(text: str) -> int:
    try:
        size = whole(text)
    except BadQuantity as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if size < _MIN:
        raise argparse.ArgumentTypeError("must be at least 1Mi")
    return size


# Settings of the configuration that the command line of kubeshare-scheduler overrides.


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


def main() -> int:
    """Run until SIGINT or SIGTERM; the exit code."""
    arguments = parser().parse_args()
    try:
        factories = with_entry_points(IN_TREE)
        ignored: list[str] = []
        configuration = written = configuration_file.load(
            arguments.config, ignored.append, factories
        )
        if arguments.prometheus_url:
            configuration = with_url(configuration, arguments.prometheus_url)
        if arguments.leader_elect:
            configuration = with_election(configuration, arguments.leader_elect == "true")
        with configuration_file.naming(arguments.config):
            machine = scheduler.machine(configuration, factories)
            dialects = configured(configuration)
            configuration_file.check(configuration)
        if arguments.check_config:
            for warning in [*ignored, *warnings([*machine.profiles.values()])]:
                print(f"kubeshare-scheduler: warning: {warning}", file=sys.stderr)
            print(configuration_file.text(configuration), end="")
            return 0
        path, log = arguments.config, event_log_settings(arguments)
        updates = configuration_watch.updates(path, written, factories) if path else None
        kubeconfig = arguments.kubeconfig or configuration.client_connection.kubeconfig or None
        options = RunOptions(updates, dialects, log)
        return process.run(
            scheduler.main(configuration, machine, kubeconfig, options),
            arguments.log_level,
        )
    except ConfigurationError as error:
        print(f"kubeshare-scheduler: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
