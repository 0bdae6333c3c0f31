"""kubeshare-replay: run a session of an event log again, and say what came of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.event_log.log_folder import LoggedSession, listed
from kubeshare_py.event_log.event_words import PodLines
from kubeshare_py.event_log.replay import (
    ListedDecision,
    ListedSession,
    OtherProfiles,
    PodReport,
    Replay,
    ReplayReport,
    WhatIfReport,
    decision_lines,
    replay_lines,
    session_lines,
    what_if_lines,
    what_if_report,
)
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.scheduling.explain.explanation import why


class Exit(IntEnum):
    """Exit codes."""

    SAME = 0
    DIFFERS = 1
    UNUSABLE = 2


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """What was found, as a value and as text, and whether it differs from the log."""

    value: ReplayReport | PodReport | WhatIfReport | Sequence[ListedSession | ListedDecision]
    lines: Iterable[str]
    differs: bool


def replayed(session: LoggedSession, factories: Mapping[str, PluginFactory]) -> ReplayAnswer:
    """Run the session again. Raises ConfigurationError if a plugin is not there."""
    again = Replay(session.header, factories)
    for logged in session.events():
        session.compare(again.play(logged))
    report = session.report
    return ReplayAnswer(report, replay_lines(report), bool(report.differing))


def listed_sessions(folder: Path) -> ReplayAnswer:
    """The sessions in a folder, with their times. Raises UnusableLog."""
    found = list(listed(folder))
    return ReplayAnswer(found, session_lines(found), differs=False)


def listed_decisions(session: LoggedSession) -> ReplayAnswer:
    """The decisions of one session, as they stand in the log: nothing is run again."""
    clock = session.clock
    found = [
        ListedDecision(
            number=session.report.events,
            time=clock.text(logged.now),
            since_start_s=clock.since_s(logged.now),
            decision=decision,
        )
        for logged in session.events()
        for decision in logged.placements
    ]
    return ReplayAnswer(found, decision_lines(found), differs=False)


def replayed_for_pod(
    session: LoggedSession, factories: Mapping[str, PluginFactory], key: PodKey
) -> ReplayAnswer:
    """What concerns one pod, and why it is where it is at the end. Raises as `replayed`."""
    again, about = Replay(session.header, factories), PodLines(key)
    lines: list[str] = []
    for logged in session.events():
        played = again.play(logged)
        session.compare(played)
        said = about.lines(played.event, played.effects)
        lines += (f"{session.clock.stamp(played.now)} {line}" for line in said)
    found = why(again.machine, key)
    if found is not None:
        where = f" on {found.pod.node}" if found.pod.node else ""
        told = [line for line in (found.message, *found.advice) if line]
        lines += [f"at the end: {found.pod.state}{where}", *told]
    if not lines:
        lines.append(f"the log does not show a pod {key}")
    report = session.report
    return ReplayAnswer(PodReport(tuple(lines), report), lines, bool(report.differing))


def replayed_with(
    session: LoggedSession, factories: Mapping[str, PluginFactory], other: SchedulerConfiguration
) -> ReplayAnswer:
    """Run the session under the profiles of `other`. Raises ConfigurationError."""
    world = OtherProfiles(session.header, other, factories)
    for logged in session.events():
        world.play(logged)
    report = what_if_report([*world.pods.values()])
    return ReplayAnswer(report, what_if_lines(report), bool(report.moved))
