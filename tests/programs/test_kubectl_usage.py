"""`kubectl kubeshare usage`: bills from copies of event logs."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from kubeshare_cmd import kubectl_parser
from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_py.domain.events import BindSlotsFree, PodSeen
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.records import LoggedEvent, LogHeader, event_record, header_record
from kubeshare_py.event_log.usage import COLUMNS
from kubeshare_py.programs import kubectl_completion
from tests.event_log.histories import a_file
from tests.event_log.test_usage import a_session, bound, gone, seen

Captured = pytest.CaptureFixture[str]
#: 1,700,000,000 s since 1970.
BEGAN = "2023-11-14T22:13:20"


def write(folder: Path, name: str, session: Sequence[LogHeader | LoggedEvent]) -> Path:
    """A session of one file."""
    header, *events = session
    assert isinstance(header, LogHeader)
    records = [header_record(header)]
    for one in events:
        assert isinstance(one, LoggedEvent)
        records.append(event_record(one.event, one.now, ()))  # type: ignore[arg-type]
    file = folder / name / "000000.events"
    file.parent.mkdir(parents=True)
    file.write_bytes(a_file(records))
    return file


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two processes; the second one begins 20 s after the last word of the first one."""
    train = bound("train", 500, namespace="ml", owner="job lstm")
    web = bound("web", 250, card=1, namespace="web")
    write(
        tmp_path,
        "20231114T221320Z-s-0001",
        a_session((0.0, seen(train)), (60.0, PodSeen(web)), (3600.0, BindSlotsFree(1))),
    )
    write(
        tmp_path,
        "20231114T231330Z-s-0001",
        a_session((3620.0, seen(train)), (7200.0, gone("train")), began=3610.0),
    )
    return tmp_path


def shown(capsys: Captured, log: Path, *options: str, code: int = 0) -> tuple[str, list[str]]:
    """Standard output, and the lines of standard error."""
    assert main(("usage", "--log", str(log), *options)) == code
    out, err = capsys.readouterr()
    return out, err.splitlines()


def test_a_table_has_hours_by_namespace_and_a_total(log: Path, capsys: Captured) -> None:
    out, err = shown(capsys, log)
    assert [line.split() for line in out.splitlines()] == [
        ["NAMESPACE", "CARD-HOURS", "GIB-HOURS", "PODS"],
        ["ml", "1.000", "1000.0", "1"],
        ["web", "0.246", "245.8", "1"],
        ["TOTAL", "1.246", "1245.8", "2"],
    ]
    assert err == [
        "Note: no log from 2023-11-14T23:13:20.000Z to 2023-11-14T23:13:40.000Z: 1 pods ended in "
        "it and 0 began, which held up to 5 card-seconds more than is counted"
    ]


def test_csv_and_json_are_exact(log: Path, capsys: Captured) -> None:
    until = f"{BEGAN[:-2]}50.125"
    out, _ = shown(capsys, log, "--by", "owner,model", "--until", until, "-o", "csv")
    assert list(csv.reader(out.splitlines())) == [
        ["namespace", "owner", "model", "card_seconds", "byte_seconds", "pods"],
        ["ml", "job lstm", "A100", "15.0625", str(30125 * 500 * 2**30 // 1000), "1"],
    ]
    out, _ = shown(capsys, log, "--by", "pod", "-n", "web", "-o", "json")
    found = json.loads(out)
    (row,) = found["usage"]
    assert row == {
        "namespace": "web",
        "pod": "web",
        "card_seconds": 885,
        "byte_seconds": 3540 * 250 * 2**30,
        "pods": 1,
    }
    assert found["total"] == {key: row[key] for key in ("card_seconds", "byte_seconds", "pods")}
    (gap,) = found["gaps"]
    assert (gap["pods_ended"], gap["pods_began"]) == (1, 0)
    assert gap["at_most"]["card_seconds"] == 5


def test_queues_are_those_of_the_labels(tmp_path: Path, capsys: Captured) -> None:
    pods = [
        replace(bound(f"p{number}", 500, card=number), labels=labels)
        for number, labels in enumerate(
            (
                (("app", "x"), ("kueue.x-k8s.io/queue-name", "speech")),
                (("kai.scheduler/queue", "vision"), ("kueue.x-k8s.io/queue-name", "speech")),
                (("scheduling.volcano.sh/queue-name", "vision"),),
                (("app", "x"),),
            )
        )
    ]
    session = a_session((0.0, seen(*pods)), (10.0, BindSlotsFree(1)))
    write(tmp_path, "20231114T221320Z-s-0001", session)
    out, _ = shown(capsys, tmp_path, "--by", "queue", "-o", "csv")
    assert [row[:2] + row[3:] for row in csv.reader(out.splitlines())] == [
        ["queue", "card_seconds", "pods"],
        ["", "5", "1"],
        ["speech", "10", "2"],
        ["vision", "5", "1"],
    ]


@pytest.mark.parametrize(
    ("since", "seconds"),
    [
        ("30m", 900),
        ("1800s", 900),
        ("0.5h", 900),
        ("2023-11-15T00:08:20Z", 150),
        ("2023-11-15T01:08:20+01:00", 150),
        ("2023-11-15T00:08:20", 150),
        ("7d", 3600),
    ],
)
def test_a_time_before_the_end_of_the_log(
    log: Path, capsys: Captured, since: str, seconds: int
) -> None:
    out, err = shown(capsys, log, "--since", since, "-n", "ml", "-o", "csv", "--no-headers")
    assert out.split(",")[1] == str(seconds)
    is_before = any("the log begins at" in line for line in err)
    assert is_before is (since == "7d")


def test_what_a_session_knew_at_its_end_goes_on_in_the_gap_behind_it(
    log: Path, capsys: Captured
) -> None:
    out, _ = shown(capsys, log, "--since", "2023-11-14T23:13:25Z", "--by", "pod", "-o", "csv")
    assert [line.split(",")[:3] for line in out.splitlines()[1:]] == [["ml", "train", "1797.5"]]


def test_a_damaged_file_is_named_and_the_rest_counts(log: Path, capsys: Captured) -> None:
    file = log / "20231114T221320Z-s-0001/000000.events"
    file.write_bytes(file.read_bytes()[:-1])
    out, err = shown(capsys, log, "-o", "csv")
    assert [line.split(",")[:2] for line in out.splitlines()[1:]] == [["ml", "1790"]]
    assert f"{file}: at byte " in " ".join(err)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--until", "soon"), "--until: Invalid isoformat string: 'soon'"),
        (("--since", "yesterday"), "--since: Invalid isoformat string: 'yesterday'"),
        (("--log", "nowhere"), "nowhere: No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_said(
    log: Path, capsys: Captured, options: Sequence[str], said: str
) -> None:
    out, err = shown(capsys, log, *options, code=2)
    assert (out, err) == ("", [f"Error: {said}"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "usage reads an event log: --log DIR"),
        ("--by team", "--by: 'team' is not one of namespace, pod, owner, queue, model, node, card"),
        ("-o yaml", '-o/--output: "yaml" is none of its values: table, json, csv'),
        ("--context x", "unknown option --context"),
        ("x", 'unexpected word "x"'),
    ],
)
def test_wrong_usage_is_one_sentence(line: str, said: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as left:
        main(("usage", *line.split()))
    assert left.value.code == 2
    assert re.sub("; did you mean.*", "", capsys.readouterr().err.splitlines()[0]) == (
        f"Error: {said}"
    )


def test_the_words_of_by_are_those_of_the_log() -> None:
    assert kubectl_parser.USAGE_COLUMNS == kubectl_completion.USAGE_COLUMNS == tuple(COLUMNS)
