"""`kubectl kubeshare what-if` and `capacity` by an event log: no cluster is asked."""

import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import yaml

from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.events import PodsListed
from kubeshare_py.domain.values import replace
from kubeshare_py.event_log.records import LogHeader
from tests.event_log.test_usage import a_session
from tests.programs.test_kubectl_check import HALF, an_object, template
from tests.programs.test_kubectl_usage import write

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One process that knew a node with four cards."""
    header, *events = a_session((0.0, PodsListed((), 0.0)))
    assert isinstance(header, LogHeader)
    header = replace(header, configuration=SchedulerConfiguration())
    write(tmp_path / "log", "20231114T221320Z-s-0001", [header, *events])
    return tmp_path / "log"


def deployment(name: str, replicas: int, **labels: str) -> dict[str, object]:
    ours = template({**HALF, **labels}, schedulerName="kubeshare-scheduler")
    return an_object("Deployment", name, {"replicas": replicas, "template": ours})


def asked(command: str, log: Path, *documents: object, code: int) -> None:
    file = log.parent / "asked.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    assert main([command, "-f", str(file), "--log", str(log), "-o", "json"]) == code


def answered(capsys: Captured) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_pods_of_a_deployment_are_placed_by_what_a_log_knows(
    log: Path, capsys: Captured
) -> None:
    asked("what-if", log, deployment("web", 2), code=0)
    pods = answered(capsys)["pods"]
    assert [(one["outcome"], one["node"]) for one in pods] == [("placed", "n1")] * 2


@pytest.mark.parametrize("command", ["what-if", "capacity"])
def test_too_many_pods_are_refused_before_one_is_made(
    command: str, log: Path, capsys: Captured
) -> None:
    began = process_time()
    many = deployment("web", 10_000_000), deployment("other", 1)
    asked(command, log, *many, code=1)
    assert process_time() - began < 5
    said = capsys.readouterr().err
    assert said == "Error: these are 10000001 pods, and 100000 are the most\n"


def test_pods_that_are_alike_are_counted_one_by_one_however_many_there_are(
    log: Path, capsys: Captured
) -> None:
    asked("capacity", log, deployment("web", 10_000_000), code=0)
    found = answered(capsys)
    assert (found["more"], found["podsEach"]) == (8, 1)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("no object", "it is no Kubernetes object: it has no kind"),
        ({"kind": "PersistentVolumeClaim", "spec": "none"}, "persistentvolumeclaim cannot be read"),
    ],
)
def test_a_document_that_cannot_be_read_is_named_with_its_file(
    log: Path, capsys: Captured, document: object, said: str
) -> None:
    asked("what-if", log, deployment("web", 1), document, code=2)
    assert capsys.readouterr().err.startswith(
        f"Error: {log.parent / 'asked.yaml'}: document 2: {said}"
    )
