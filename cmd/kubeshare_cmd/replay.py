"""kubeshare-replay: parse arguments and print what the program found."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.event_log.log_folder import (
    LoggedSession,
    ReplaySettings,
    UnusableLog,
)
from kubeshare_py.edges.process.plugin_entry_points import with_entry_points
from kubeshare_py.edges.scheduler import configuration_file
from kubeshare_py.programs.replay import (
    Exit,
    ReplayAnswer,
    listed_decisions,
    listed_sessions,
    replayed,
    replayed_for_pod,
    replayed_with,
)

# The arguments of kubeshare-replay.


EXAMPLES = """examples:
  kubeshare-replay /var/log/kubeshare/events              is all decided as it was?
  kubeshare-replay DIR --pod ml/train-0                   what happened to this pod, and why
  kubeshare-replay DIR --until 2026-11-23T12:00:00Z       only until then
  kubeshare-replay DIR --profile config/spread.yaml       what these profiles would have done
  kubeshare-replay DIR --list                             the sessions in DIR, and from when to when
  kubeshare-replay DIR --list --session NAME              what it decided, with times for --until

exit codes: 0 the same as in the log, 1 it differs, 2 wrong usage, or a log that cannot be read
"""


_LIST = "list the sessions, or the decisions of --session, with their times, and end"


def parser() -> argparse.ArgumentParser:
    """The parser."""
    made = argparse.ArgumentParser(
        prog="kubeshare-replay",
        description="Runs an event log of kubeshare-scheduler through the same scheduler again.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("folder", metavar="DIR", type=Path, help="the folder of --event-log, or one session in it")
    add("--session", metavar="NAME", default="", help="default: the last one")
    add("--until", metavar="T", default="", help="a time (RFC 3339), or seconds from the beginning")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--pod", metavar="NS/NAME", type=_key, help="only what concerns this pod")
    what.add_argument("--profile", metavar="FILE", help="decide by the profiles of this file")
    what.add_argument("--list", action="store_true", help=_LIST)
    add("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    return made


def _key(text: str) -> PodKey:
    namespace, slash, name = text.partition("/")
    if not (slash and namespace and name):
        raise argparse.ArgumentTypeError("must be NAMESPACE/NAME")
    return PodKey(namespace, name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay once; the exit code. argparse exits with 2."""
    given = parser().parse_args(arguments)
    try:
        if given.list and not given.session:
            _print(listed_sessions(given.folder), given.output)
            return Exit.SAME
        return _replay(given)
    except (UnusableLog, ConfigurationError, ValueError) as error:
        print(f"kubeshare-replay: {error}", file=sys.stderr)
        return Exit.UNUSABLE


def _replay(given: argparse.Namespace) -> int:
    settings = ReplaySettings(
        folder=given.folder, session=given.session, until=given.until, progress=_progress
    )
    session = LoggedSession(settings)
    answer = _answer(given, session)
    _print(answer, given.output)
    if session.report.damage:
        print(f"kubeshare-replay: {session.report.damage}", file=sys.stderr)
        return Exit.UNUSABLE
    return Exit.DIFFERS if answer.differs else Exit.SAME


def _print(answer: ReplayAnswer, output: str) -> None:
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(answer.value)).decode())
    else:
        for line in answer.lines:
            print(line)


def _answer(given: argparse.Namespace, session: LoggedSession) -> ReplayAnswer:
    if given.list:
        return listed_decisions(session)
    factories = with_entry_points(IN_TREE)
    if given.profile:
        configuration = configuration_file.load(given.profile, _progress, factories)
        with configuration_file.naming(given.profile):
            return replayed_with(session, factories, configuration)
    if given.pod:
        return replayed_for_pod(session, factories, given.pod)
    return replayed(session, factories)


def _progress(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
