"""What schedulers did among faults is run again from their event logs."""

from pathlib import Path

from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.event_log.log_folder import LoggedSession, ReplaySettings, sessions
from kubeshare_py.programs.replay import replayed


def expect_same_effects_again(folder: Path) -> None:
    """Every session has the same effects again, bit by bit."""
    events = 0
    for one in sessions(folder):
        if not one.size:
            continue  # the scheduler ended at once, before anything was written
        session = LoggedSession(ReplaySettings(folder=folder, session=one.name))
        replayed(session, IN_TREE)
        report = session.report
        assert not report.damage, report.damage
        assert not report.differing, report.differences
        assert not report.is_snapshot
        events += report.events
    print(f"{events} events of {len(sessions(folder))} sessions had the same effects again")
