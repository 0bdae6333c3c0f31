"""kubeshare-demo: parse arguments and start."""

import argparse
import sys
from functools import partial
from pathlib import Path

from kubeshare_cmd.ports import port
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.documents.yaml_text import DocumentProblem
from kubeshare_py.edges.process.plugin_entry_points import with_entry_points
from kubeshare_py.edges.scheduler import configuration_file, process

try:
    from kubeshare_py.embedded_cluster.programs import demo
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("kubeshare_py.embedded_cluster"):
        raise
    sys.exit(
        "kubeshare-demo: the embedded cluster is not installed (images leave it out): "
        "run pip install . in a checkout of kubeshare-py"
    )

_WARN = partial(print, "kubeshare-demo: warning:", file=sys.stderr)
EXAMPLES = """examples:
  kubeshare-demo
  kubeshare-demo --cluster my-cluster.yaml --no-workloads
  kubeshare-demo --config config/spread.yaml --plain --seconds 30
  (config/demo-cluster.yaml and config/demo-workloads.yaml are the demo's own)

exit codes: 0 ended in order, 1 the embedded cluster is not installed,
  2 the arguments or a file cannot be used
"""


def main() -> int:
    """Run until SIGINT or SIGTERM; the exit code."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-demo",
        description="A whole cluster in one process: API server, nodes, GPUs and the scheduler.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cluster", metavar="FILE", help="nodes and cards (default: the demo's)")
    parser.add_argument("--workloads", metavar="FILE", help="objects to create at the start")
    parser.add_argument("--no-workloads", action="store_true", help="start with an empty cluster")
    parser.add_argument("--config", metavar="FILE", help="the scheduler's configuration")
    parser.add_argument("--directory", metavar="DIR", help="of the kubeconfig (.demo, .demo-2 ...)")
    parser.add_argument("--port", type=port, default=0, help="API server's port (default: any)")
    parser.add_argument("--page-port", type=port, default=0, help="the dashboard's (default: any)")
    parser.add_argument("--plain", action="store_true", help="lines instead of the live view")
    parser.add_argument("--seconds", type=float, metavar="S", help="end after so long")
    arguments = parser.parse_args()
    options = demo.DemoOptions(
        directory=Path(arguments.directory).resolve() if arguments.directory else None,
        plugin=str(Path(sys.argv[0]).with_name("kubectl-kubeshare")),
        cluster=arguments.cluster,
        workloads=arguments.workloads,
        without_workloads=arguments.no_workloads,
        port=arguments.port,
        page_port=arguments.page_port,
        plain=arguments.plain,
        seconds=arguments.seconds,
    )
    try:
        factories = with_entry_points(IN_TREE)
        configuration = configuration_file.load(demo.chosen(arguments.config), _WARN, factories)
        work = demo.main(options, configuration, factories)
        return process.run(work, log_level="warning")
    except (ConfigurationError, DocumentProblem) as error:
        print(f"kubeshare-demo: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
