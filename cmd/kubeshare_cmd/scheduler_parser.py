"""The arguments of kubeshare-scheduler."""

import argparse
from pathlib import Path

from kubeshare_py.domain.quantity import BadQuantity, whole
from kubeshare_py.edges.event_log.session_writer import LogLimits
from kubeshare_py.edges.scheduler.event_logging import LogSettings

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
