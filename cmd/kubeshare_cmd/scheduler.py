"""kubeshare-scheduler: parse arguments and start."""

import argparse
import sys

from kubeshare_cmd.overrides import with_election, with_url
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.process.configured_dialects import configured
from kubeshare_py.edges.process.plugin_entry_points import with_entry_points
from kubeshare_py.edges.scheduler import (
    configuration_file,
    configuration_watch,
    configured_files,
    process,
)
from kubeshare_py.framework.profile_making import warnings
from kubeshare_py.programs import scheduler

EXAMPLES = """examples:
  kubeshare-scheduler --check-config
  kubeshare-scheduler --config config/scheduler.yaml
  kubeshare-scheduler --kubeconfig ~/.kube/config --prometheus-url http://prometheus:9090

exit codes: 0 ended in order, 1 another scheduler may lead now, 2 the configuration or the
arguments cannot be used, 3 the cluster cannot be reached with these credentials
"""


def main() -> int:
    """Run until SIGINT or SIGTERM; the exit code."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-scheduler",
        description="Schedules pods with schedulerName kubeshare-scheduler onto shared GPUs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="configuration (default: built in)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: in-cluster, or kubectl's")
    parser.add_argument("--prometheus-url", metavar="URL", help="overrides inventory.url")
    parser.add_argument(
        "--leader-elect", choices=("true", "false"), help="overrides leaderElection.leaderElect"
    )
    parser.add_argument("--check-config", action="store_true", help="print what is in effect")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    arguments = parser.parse_args()
    try:
        factories = with_entry_points(IN_TREE)
        former: list[str] = []
        configuration = written = configuration_file.load(arguments.config, former.append)
        if arguments.prometheus_url:
            configuration = with_url(configuration, arguments.prometheus_url)
        if arguments.leader_elect:
            configuration = with_election(configuration, arguments.leader_elect == "true")
        machine = scheduler.machine(configuration, factories)
        dialects = configured(configuration)
        configured_files.check(configuration)
        if arguments.check_config:
            for warning in [*former, *warnings([*machine.profiles.values()])]:
                print(f"kubeshare-scheduler: warning: {warning}", file=sys.stderr)
            print(configuration_file.text(configuration), end="")
            return 0
        path = arguments.config
        updates = configuration_watch.updates(path, written, factories) if path else None
        return process.run(
            scheduler.main(configuration, machine, arguments.kubeconfig, updates, dialects),
            arguments.log_level,
        )
    except ConfigurationError as error:
        print(f"kubeshare-scheduler: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
