"""What people write by mistake in the demo's cluster is answered: in an event, by why, by check.

`misspelt_pods.yaml` has a pod in each line, and a phrase that each answer contains.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.scheduler import configuration_file
from kubeshare_py.embedded_cluster.programs.demo_cluster import demo_cluster
from kubeshare_py.embedded_cluster.serving.demo_files import find, read_nodes
from tests.each import each
from tests.stories.command import kubectl_kubeshare
from tests.stories.conftest import EVENTS, PODS, Json, Stage

TABLE = Path(__file__).parent / "misspelt_pods.yaml"


class Mistake(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One line of the table."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    limits: dict[str, Any] = {}
    scheduler: str | None = None
    node: dict[str, str] = {}
    event: str = ""
    why: str = ""
    check: str = ""
    fits: str = ""
    refused: str = ""

    def pod(self, name: str) -> Json:
        """The pod as its owner wrote it."""
        ours = "" if self.limits and not self.labels else "kubeshare-scheduler"
        limits = {key: str(amount) for key, amount in self.limits.items()}
        container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": self.labels, "annotations": self.annotations},
            "spec": {
                "schedulerName": ours if self.scheduler is None else self.scheduler,
                "nodeSelector": self.node,
                "containers": [container],
            },
        }


def mistakes() -> dict[str, Mistake]:
    return msgspec.convert(yaml.safe_load(TABLE.read_text()), dict[str, Mistake])


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[Stage]:
    """The demo without its sample workloads."""
    nodes = read_nodes(None)
    configuration = configuration_file.load(str(find("demo-scheduler.yaml")))
    async with demo_cluster(tmp_path, nodes, configuration, IN_TREE) as (cluster, _):
        yield Stage(cluster, nodes, tmp_path)


@pytest.mark.slow
async def test_events_and_why_answer_each_of_them(
    demo: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    table = mistakes()
    refused: dict[str, str] = {}
    for name, mistake in table.items():
        try:
            await demo.client.create(PODS, mistake.pod(name))
        except KubeError as error:
            refused[name] = error.message
    expected = {name: mistake.refused for name, mistake in table.items() if mistake.refused}
    assert refused.keys() == expected.keys()
    assert missing(expected, refused) == {}
    path = demo.folder / "refused.yaml"
    path.write_text(yaml.safe_dump_all(table[name].pod(name) for name in refused))
    command = ["check", "-f", str(path), "--kubeconfig", str(demo.cluster.kubeconfig)]
    assert await asyncio.to_thread(main, command) == 1
    said = dict.fromkeys(refused, "the API server refuses it: ")
    assert missing(said, by_pod(capsys.readouterr().out)) == {}
    silent = {name: mistake.event for name, mistake in table.items() if mistake.event}
    try:
        await demo.expect_all(lambda found: not missing(silent, notes(found)), EVENTS)
    except AssertionError:
        said = notes(await demo.client.list_all(EVENTS))
        assert missing(silent, said) == {}
    await demo.cluster.state_served()
    answers = {
        name: " ".join(await why(demo, name)) for name, mistake in table.items() if mistake.why
    }
    expected = {name: mistake.why for name, mistake in table.items() if mistake.why}
    assert missing(expected, answers) == {}


def test_check_answers_them_before_they_are_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = mistakes()
    path = tmp_path / "pods.yaml"
    path.write_text(yaml.safe_dump_all(one.pod(name) for name, one in table.items()))
    config = str(find("demo-scheduler.yaml"))
    assert main(["check", "-f", str(path), "--config", config, "--offline"]) == 1
    answers = by_pod(capsys.readouterr().out)
    expected = {name: one.check or one.fits for name, one in table.items()}
    assert missing(expected, answers) == {}
    # What depends on the cluster, check does not judge.
    assert [name for name, one in table.items() if one.fits and "refused" in answers[name]] == []


def test_every_line_has_the_answers_that_its_owner_can_ask_for() -> None:
    for name, one in each(mistakes().items()):
        assert bool(one.check) != bool(one.fits), name
        assert bool(one.refused) != bool(one.why), name


def by_pod(checked: str) -> dict[str, str]:
    """What check says of each pod."""
    answers: dict[str, str] = {}
    name = ""
    for line in checked.splitlines():
        if not line.startswith(" "):
            name = line.split()[0].removeprefix("pod/")
        answers[name] = f"{answers.get(name, '')} {line.strip()}"
    return answers


async def why(demo: Stage, name: str) -> tuple[str, str]:
    _, out, err = await kubectl_kubeshare(demo.cluster.kubeconfig, "why", name)
    return " ".join(out.split()), " ".join(err.split())


def notes(events: list[Json]) -> dict[str, str]:
    """What events say of each pod."""
    found: dict[str, str] = {}
    for event in events:
        name = event["regarding"]["name"]
        found[name] = f"{found.get(name, '')} {event['note']}"
    return found


def missing(expected: Mapping[str, str], said: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The phrases that the answers lack, each with the answer."""
    return {
        name: (phrase, said.get(name, "nothing"))
        for name, phrase in expected.items()
        if phrase not in said.get(name, "")
    }
