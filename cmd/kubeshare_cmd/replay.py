"""kubeshare-replay: parse arguments and print what the program found."""

import argparse
import sys
from collections.abc import Sequence

import msgspec

from kubeshare_cmd.replay_parser import parser
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.event_log.log_folder import UnusableLog, sessions
from kubeshare_py.edges.event_log.logged_session import LoggedSession, ReplaySettings
from kubeshare_py.edges.process.plugin_entry_points import with_entry_points
from kubeshare_py.edges.scheduler import configuration_file
from kubeshare_py.programs.replay import (
    Exit,
    ReplayAnswer,
    replayed,
    replayed_for_pod,
    replayed_with,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay once; the exit code. argparse exits with 2."""
    given = parser().parse_args(arguments)
    try:
        if given.list:
            for one in sessions(given.folder):
                print(f"{one.name} {one.size} bytes")
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
    if given.output == "json":
        print(msgspec.json.format(msgspec.json.encode(answer.value)).decode())
    else:
        for line in answer.lines:
            print(line)
    if session.report.damage:
        print(f"kubeshare-replay: {session.report.damage}", file=sys.stderr)
        return Exit.UNUSABLE
    return Exit.DIFFERS if answer.differs else Exit.SAME


def _answer(given: argparse.Namespace, session: LoggedSession) -> ReplayAnswer:
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
