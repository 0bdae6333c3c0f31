"""`kubectl kubeshare history`: what happened, from copies of event logs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.events import PodSeen
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.records import LoggedEvent, LogHeader
from tests.event_log.test_usage import a_session, bound, seen
from tests.making.busy_world import a_configuration
from tests.programs.test_kubectl_usage import write

Captured = pytest.CaptureFixture[str]
NAMES = ("20231114T221320Z-s-0001", "20231114T231330Z-s-0001", "20231115T001330Z-s-0001")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three processes, of which each saw another pod."""
    for number, name in enumerate(NAMES):
        began, pod = 3600.0 * number, bound(f"train-{number}", namespace="ml")
        session = a_session((began, seen()), (began + 1.0, PodSeen(pod)), began=began)
        configured(tmp_path, name, session, SchedulerConfiguration())
    return tmp_path


def configured(
    folder: Path,
    name: str,
    session: Sequence[LogHeader | LoggedEvent],
    configuration: SchedulerConfiguration,
) -> None:
    header, *events = session
    assert isinstance(header, LogHeader)
    write(folder, name, [replace(header, configuration=configuration), *events])


def pods(capsys: Captured, log: Path, *options: str, code: int = 0) -> tuple[list[str], str]:
    """The pods in the order in which they were seen first, and standard error."""
    words = ("history", "namespace/ml", "--log", str(log), "-o", "json", *options)
    assert main(words) == code
    out, err = capsys.readouterr()
    entries = json.loads(out)["entries"] if out else []
    return [one["pod"] for one in entries if one["what"] == "seen"], err


def test_all_sessions_are_one_history(log: Path, capsys: Captured) -> None:
    assert pods(capsys, log) == (["ml/train-0", "ml/train-1", "ml/train-2"], "")
    assert pods(capsys, log, "--session", NAMES[1]) == (["ml/train-1"], "")


def test_a_damaged_session_is_named_and_the_others_are_told(log: Path, capsys: Captured) -> None:
    file = log / NAMES[1] / "000000.events"
    file.write_bytes(b"?" + file.read_bytes())
    told, said = pods(capsys, log)
    assert told == ["ml/train-0", "ml/train-2"]
    assert said.startswith(f"Warning: {file}: ")
    told, said = pods(capsys, log, "--session", NAMES[1], code=2)
    assert said.startswith(f"Error: {file}: ")


def test_a_session_of_other_plugins_is_named_and_the_others_are_told(
    log: Path, capsys: Captured
) -> None:
    (log / NAMES[2] / "000000.events").unlink()
    (log / NAMES[2]).rmdir()
    configured(log, NAMES[2], a_session(), a_configuration(0))
    told, said = pods(capsys, log)
    assert told == ["ml/train-0", "ml/train-1"]
    assert said.startswith(f"Warning: {log / NAMES[2]}: ")
    assert "Fickle" in said


def test_without_one_session_that_can_be_read_there_is_no_answer(
    log: Path, capsys: Captured
) -> None:
    files = [log / name / "000000.events" for name in NAMES]
    for file in files:
        file.write_bytes(b"?")
    told, said = pods(capsys, log, code=2)
    assert told == []
    assert said.startswith("Error: ")
    assert all(str(file) in said for file in files)
    told, said = pods(capsys, log, "--session", "other", code=2)
    assert "no session other" in said


def test_pods_without_a_namespace_are_of_the_one_that_help_names(
    log: Path, capsys: Captured
) -> None:
    with pytest.raises(SystemExit):
        main(("history", "--help"))
    assert "--namespace NS   default: default\n" in capsys.readouterr().out
    assert main(("history", "train-0", "--log", str(log))) == 1
    assert main(("history", "train-0", "-n", "ml", "--log", str(log))) == 0
