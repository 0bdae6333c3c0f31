"""The log of a running scheduler: complete, bounded, and never in the way."""

import os
from pathlib import Path

import pytest

from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindSlotsFree, Event, PodGone, PodSeen, TimePassed
from kubeshare_py.edges.event_log.event_log import IDLE_S, RETRY_S, EventLog, LogLimits
from kubeshare_py.edges.event_log.log_folder import (
    LoggedSession,
    ReplaySettings,
    Session,
    UnusableLog,
    sessions,
)
from kubeshare_py.event_log.records import LoggedEvent, LogHeader
from kubeshare_py.programs.replay import replayed
from kubeshare_py.scheduling.machine import known_events
from tests.making import a_claim, a_cluster, a_pod, a_shape, a_share, of
from tests.making.busy_world import FACTORIES, BusyWorld, a_busy_machine, a_configuration, run


class Written:
    """A machine whose events are logged; `now` is the test's to set."""

    def __init__(self, folder: Path, limits: LogLimits | None = None, name: str = "test-0") -> None:
        self.folder, self.now = folder, 0.0
        self.machine = a_busy_machine(name)
        self.log = EventLog(
            folder=folder,
            machine_name=self.machine.name,
            version="0.1",
            configuration=a_configuration(0),
            known=lambda: known_events(self.machine, self.now),
            clock=lambda: self.now,
            limits=limits or LogLimits(),
        )

    def follow(self, world: BusyWorld) -> None:
        """Log the last event of a world."""
        self.machine = world.machine
        event, self.now, effects = world.log[-1]
        self.log.handled(event, self.now, effects)

    def tell(self, *events: Event) -> list[Bind]:
        """Handle events; the Binds among the effects."""
        found = []
        for event in events:
            effects = self.machine.handle(event, self.now)
            self.log.handled(event, self.now, effects)
            found += of(Bind, effects)
        return found

    async def end(self) -> None:
        """The process stops."""
        self.log.stop()
        await self.log.run()

    def start(self) -> None:
        """Two nodes with two cards each."""
        for event in a_cluster({"n1": 2, "n2": 2}):
            self.log.handled(event, self.now, self.machine.handle(event, self.now))


def differing(folder: Path) -> tuple[int, int]:
    """How many events the last session has, and how many of them differ when run again."""
    session = LoggedSession(ReplaySettings(folder=folder))
    answer = replayed(session, FACTORIES)
    assert session.report.damage == ""
    return session.report.events, session.report.differing if answer.differs else 0


def headers(session: Session) -> list[LogHeader]:
    found = [next(Session(session.folder, (file,)).records()) for file in session.files[:1]]
    return [one for one in found if isinstance(one, LogHeader)]


@pytest.mark.slow
async def test_a_history_is_written_and_is_the_same_when_it_is_run_again(tmp_path: Path) -> None:
    written = Written(tmp_path)
    world = run(3, written.follow)
    await written.end()
    assert differing(tmp_path) == (len(world.log), 0)
    assert written.log.figures.is_writing
    assert written.log.figures.events == len(world.log)
    assert written.log.figures.size > 1000


async def test_files_end_by_size_and_by_age_and_belong_together(tmp_path: Path) -> None:
    written = Written(tmp_path, LogLimits(file_bytes=4000, file_s=100.0))
    flushed: list[int] = []
    world = run(4, written.follow)
    for number, (event, now, effects) in enumerate([*world.log]):
        written.log.handled(event, now + 1000.0, effects)
        if number % 40 == 0:
            flushed.append(number)
            await written.log.flush()
    written.now += 200.0
    written.log.handled(TimePassed(), written.now, ())
    await written.end()
    (session,) = sessions(tmp_path)
    assert len(session.files) > 2
    assert max(file.stat().st_size for file in session.files[1:]) < 20_000
    found = [*session.records()]
    assert len(found) == 1 + 2 * len(world.log) + 1


async def test_old_sessions_go_when_there_is_too_much_and_other_files_stay(tmp_path: Path) -> None:
    limits = LogLimits(file_bytes=1000, total_bytes=8_000)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "20260101T000000Z-mine").mkdir()
    (tmp_path / "20260101T000000Z-mine" / "letter.txt").write_text("mine too")
    written = Written(tmp_path, limits)
    written.start()
    await written.log.flush()
    (first,) = sessions(tmp_path)
    for number in range(400):
        pod = a_pod(os.urandom(20).hex(), a_shape(a_claim(100), cpu=number))
        written.tell(PodSeen(pod), PodGone(pod.uid))
        if number % 5 == 0:
            await written.log.flush()
    await written.end()
    found = sessions(tmp_path)
    assert found[0].name > first.name, "the first session is gone"
    held = sum(session.size for session in found)
    assert limits.total_bytes / 4 < held < 1.2 * limits.total_bytes
    (header,) = headers(found[-1])
    assert header.is_snapshot
    assert (tmp_path / "notes.txt").exists()
    assert (tmp_path / "20260101T000000Z-mine" / "letter.txt").exists()
    events, _ = differing(tmp_path)
    assert events > 4, "the snapshot, and what came after it"


@pytest.mark.parametrize(("idle_s", "stays"), [(0.0, True), (IDLE_S + 60.0, False)])
async def test_a_session_of_another_process_goes_once_it_is_idle(
    tmp_path: Path, idle_s: float, stays: bool
) -> None:
    other = Written(tmp_path, LogLimits(total_bytes=1000), name="other")
    other.start()
    await other.end()
    (session,) = sessions(tmp_path)
    (file,) = session.files
    written_at = file.stat().st_mtime - idle_s
    os.utime(file, (written_at, written_at))
    written = Written(tmp_path, LogLimits(total_bytes=1000))
    written.start()
    await written.end()
    assert (session.name in {one.name for one in sessions(tmp_path)}) == stays


async def test_what_cannot_be_written_ends_the_session_and_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "log"
    folder.write_text("this is no folder")
    written = Written(folder)
    written.start()
    await written.log.flush()
    assert (written.log.figures.is_writing, written.log.figures.failures) == (False, 1)
    assert "event log" in caplog.text
    (bind,) = written.tell(PodSeen(a_share("a", 500)), BindSlotsFree(9))
    await written.log.flush()
    assert written.log.figures.failures == 1, "not before a while has passed"
    folder.unlink()
    written.now += RETRY_S
    await written.log.flush()
    assert written.log.figures.is_writing
    written.tell(PodSeen(a_share("b", 500)), BindSlotsFree(9))
    await written.end()
    session = LoggedSession(ReplaySettings(folder=folder))
    assert session.header.is_snapshot
    assert [line for line in session.report.notes if "known then" in line]
    (b,) = [
        one.event.pod
        for one in session.events()
        if isinstance(one, LoggedEvent) and isinstance(one.event, PodSeen)
    ]
    assert b.key.name == "b"
    assert bind.key.name == "a"


async def test_a_session_that_cannot_go_on_holds_up_nothing(tmp_path: Path) -> None:
    written = Written(tmp_path, LogLimits(file_bytes=1))
    written.start()
    await written.log.flush()
    (session,) = sessions(tmp_path)
    session.drop()
    session.folder.write_text("in the way of the next file")
    assert written.tell(PodSeen(a_share("a", 500)), BindSlotsFree(9))
    await written.log.flush()
    assert (written.log.figures.is_writing, written.log.figures.failures) == (False, 1)
    assert written.tell(PodSeen(a_share("b", 500)), BindSlotsFree(9))


async def test_events_that_come_faster_than_they_are_written_take_no_more_memory(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path, LogLimits(waiting_bytes=10_000))
    written.start()
    for number in range(50):
        written.tell(PodSeen(a_share(f"p{number}", 100)))
    assert written.log.figures.failures == 1
    await written.log.flush()
    with pytest.raises(UnusableLog):
        sessions(tmp_path)


async def test_the_last_events_are_written_when_it_stops(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.start()
    await written.end()
    assert differing(tmp_path) == (3, 0)


async def test_a_session_begins_before_its_first_event_whenever_that_is_written(
    tmp_path: Path,
) -> None:
    """Else a session that is shorter than FLUSH_S would end before it begins."""
    written = Written(tmp_path)
    written.now = 0.25
    written.start()
    written.now = 1.5
    await written.end()
    (session,) = sessions(tmp_path)
    header, last = session.span()
    assert (header.now, last) == (0.0, 0.25)
