"""Sessions are found and read; what is damaged or missing is named with its place."""

from pathlib import Path

import pytest

from kubeshare_py.edges.event_log.log_folder import (
    DamagedFile,
    LoggedSession,
    ReplaySettings,
    UnusableLog,
    listed,
    sessions,
)
from kubeshare_py.event_log.records import LoggedEvent, moment_of
from kubeshare_py.programs.replay import replayed
from tests.event_log.histories import a_file, a_log
from tests.making.busy_world import FACTORIES

NAME = "20260101T000000Z-test"


def a_session(folder: Path, *files: bytes, name: str = NAME) -> Path:
    place = folder / name
    place.mkdir()
    for number, file in enumerate(files):
        (place / f"{number:06}.events").write_bytes(file)
    return place


def logged(folder: Path, session: str = "", until: str = "") -> LoggedSession:
    return LoggedSession(ReplaySettings(folder=folder, session=session, until=until))


@pytest.mark.slow
def test_the_last_session_is_read_unless_another_is_named(tmp_path: Path) -> None:
    a_session(tmp_path, a_file(a_log(1)), name="20260102T000000Z-b")
    a_session(tmp_path, a_file(a_log(0)[:10]))
    assert len([*logged(tmp_path).events()]) == len(a_log(1)) - 1
    assert len([*logged(tmp_path, session=NAME).events()]) == 9
    assert len([*logged(tmp_path / NAME).events()]) == 9
    with pytest.raises(UnusableLog, match="no session other; there are 20260101T000000Z-test, 2"):
        logged(tmp_path, session="other")


def test_it_is_read_until_a_time(tmp_path: Path) -> None:
    records = a_log(0)
    a_session(tmp_path, a_file(records))
    events = [one for one in logged(tmp_path).events() if one.now <= 7.5]
    assert 0 < len(events) < len(records) - 1
    assert [*logged(tmp_path, until="7.5").events()] == events
    assert [*logged(tmp_path, until="2023-11-14T22:13:27.5Z").events()] == events
    with pytest.raises(ValueError, match="soon"):
        logged(tmp_path, until="soon")


def test_all_before_the_damage_is_used_and_the_damage_is_located(tmp_path: Path) -> None:
    file = a_file(a_log(0), 20)
    a_session(tmp_path, file[: len(file) // 2])
    session = logged(tmp_path)
    answer = replayed(session, FACTORIES)
    assert not answer.differs
    assert session.report.events > 20
    assert f"{tmp_path / NAME}/000000.events: at byte " in session.report.damage
    assert "ends within a block" in session.report.damage


@pytest.mark.slow
def test_a_missing_file_ends_the_session(tmp_path: Path) -> None:
    place = a_session(tmp_path, a_file(a_log(0)[:10]), a_file(a_log(0)[:10]))
    records = sessions(tmp_path)[0].records()
    with pytest.raises(DamagedFile, match=f"{place}/000001.events: .*file 1 .* is missing"):
        assert len([*records]) == 0


def test_a_file_without_a_header_is_of_no_use(tmp_path: Path) -> None:
    a_session(tmp_path, a_file(a_log(0)[1:5]))
    with pytest.raises(UnusableLog, match="does not begin with a header"):
        logged(tmp_path)


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_without_a_log_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnusableLog, match=name):
        sessions(tmp_path / name)


def test_a_record_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    a_session(tmp_path, a_file([*a_log(0)[:5], b"\x93\xa7Unknown\x00\x80"]))
    session = logged(tmp_path)
    assert all(isinstance(one, LoggedEvent) for one in session.events())
    assert "this version knows no event 'Unknown'" in session.report.damage


def test_a_session_is_listed_until_its_last_event_that_can_be_read(tmp_path: Path) -> None:
    records = a_log(0)[:41]
    file = a_file(records, portion=20)
    place = a_session(tmp_path, file)
    [whole] = listed(tmp_path)
    assert whole.lasted_s == moment_of(records[-1]) > 0.0
    (place / "000000.events").write_bytes(file[:-1])
    [cut] = listed(tmp_path)
    assert (cut.damage, cut.lasted_s) == ("", moment_of(records[39]))
    a_session(tmp_path, b"no log", name=f"{NAME}-2")
    _, other = listed(tmp_path)
    assert "this is no file of an event log" in other.damage
