"""kubeshare-scheduler: parse arguments and start."""

import sys

from kubeshare_cmd.overrides import with_election, with_url
from kubeshare_cmd.scheduler_parser import event_log_settings, parser
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
from kubeshare_py.edges.scheduler.run_options import RunOptions
from kubeshare_py.framework.profile_making import warnings
from kubeshare_py.programs import scheduler


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
            configured_files.check(configuration)
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
