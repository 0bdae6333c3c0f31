"""`kubectl kubeshare what-if`, `capacity` and `when` say what then happens, and change nothing."""

import asyncio
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from rich.console import Console

from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.cli.state_client import ApiAccess
from kubeshare_py.edges.scheduler.event_logging import LogSettings
from kubeshare_py.programs.kubectl_what_if import ForesightQuestion, answer
from kubeshare_py.views.foresight import CapacityView, WhatIfView, WhenView
from tests.controlplane.running import ControlPlane
from tests.patience import PATIENCE_S
from tests.stories.conftest import JOBS, Json, Stage, annotations, gpu
from tests.stories.people import ROOT, People

pytestmark = [pytest.mark.tls, pytest.mark.slow]

Place = tuple[str, tuple[str, ...]]


class Foresees:
    """Asks with an administrator's kubeconfig, or another one."""

    def __init__(self, stage: Stage, kubeconfig: Path | None = None) -> None:
        self.folder = stage.folder
        own = stage.cluster.server.write_kubeconfig(stage.folder / "admin.kubeconfig")
        self.access = ApiAccess(kubeconfig=str(kubeconfig or own))

    async def ask(self, command: str, **given: Any) -> tuple[int, str, str]:
        documents: Sequence[Json] = given.pop("documents", ())
        if documents:
            (self.folder / "asked.yaml").write_text(yaml.safe_dump_all(documents))
            given["files"] = (str(self.folder / "asked.yaml"),)
        out, err = Console(file=StringIO(), width=200), Console(file=StringIO(), width=200)
        question = ForesightQuestion(command=command, access=self.access, **given)
        code = await asyncio.to_thread(answer, question, IN_TREE, out, err)
        assert isinstance(out.file, StringIO)
        assert isinstance(err.file, StringIO)
        return code, out.file.getvalue(), err.file.getvalue()

    async def what_if(self, *documents: Json, **given: Any) -> tuple[int, WhatIfView]:
        code, shown, said = await self.ask("what-if", documents=documents, output="json", **given)
        assert shown, said
        return code, msgspec.json.decode(shown, type=WhatIfView)


@pytest.fixture
async def foresees(stage: Stage) -> Foresees:
    async with asyncio.timeout(PATIENCE_S):
        await stage.cluster.state_served()
    return Foresees(stage)


def a_pod(name: str, share: str, **spec: Any) -> Json:
    limit = share if float(share) > 1 else "1.0"
    containers = [{"name": "main", "image": "busybox"}]
    given = {"schedulerName": "kubeshare-scheduler", "containers": containers, **spec}
    metadata = {"name": name, "labels": gpu(share, limit)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": given}


def a_job(name: str, parallelism: int, share: str, **labels: str) -> Json:
    pod = a_pod("x", share, restartPolicy="Never")
    template = {"metadata": {"labels": gpu(share, **labels)}, "spec": pod["spec"]}
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def places(view: WhatIfView) -> dict[str, Place]:
    return {
        pod.name: (pod.node, tuple(card.uuid for card in pod.cards))
        for pod in view.pods
        if pod.outcome == "placed"
    }


def place_of(pod: Json) -> Place:
    uuids = tuple(annotations(pod).get("sharedgpu/gpu_uuid", "").split(","))
    return pod["spec"].get("nodeName", ""), uuids


async def create_class(stage: Stage, name: str, value: int) -> None:
    body = {"metadata": {"name": name}, "value": value}
    await stage.client.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)


async def test_pods_and_a_gang_go_where_what_if_says(stage: Stage, foresees: Foresees) -> None:
    await stage.create("old", gpu("0.75"))
    await stage.expect_running("old")
    gang = a_job("gang", 2, "1.0", group_name="g", group_headcount="2", group_threshold="1.0")
    alone = [a_pod("a", "0.5"), a_pod("b", "0.25"), a_pod("late", "3")]
    code, view = await foresees.what_if(*alone, gang)
    assert (code, view.evicted) == (4, ())
    foretold = places(view)
    assert foretold.keys() == {"a", "b", "gang-0", "gang-1"}
    late = next(one for one in view.pods if one.name == "late")
    assert "too few GPUs" in late.message
    assert late.why is not None
    assert late.why.nodes
    names = {pod["metadata"]["name"] for pod in await stage.all_pods()}
    assert names == {"old"}, "nothing was created"
    for one in alone:
        await stage.client.create("/api/v1/namespaces/default/pods", one)
    await stage.client.create(JOBS, gang)
    for name in ("a", "b"):
        assert place_of(await stage.expect_running(name)) == foretold[name]
    pods = await stage.expect_all(
        lambda found: (
            sum("gang" in one["metadata"]["name"] for one in found if one["spec"].get("nodeName"))
            == 2
        )
    )
    gang_places = sorted(place_of(pod) for pod in pods if "gang" in pod["metadata"]["name"])
    assert gang_places == sorted(foretold[name] for name in ("gang-0", "gang-1"))
    await stage.expect_waiting("late", "too few GPUs")


async def test_the_victims_are_those_that_what_if_names(stage: Stage, foresees: Foresees) -> None:
    await create_class(stage, "urgent", 1000)
    for number in range(4):
        await stage.create(f"low-{number}", gpu("0.75"))
        await stage.expect_running(f"low-{number}")
    urgent = a_pod("urgent", "1.0", priorityClassName="urgent")
    code, view = await foresees.what_if(urgent)
    assert code == 0
    [victim] = view.evicted
    code, shown, _ = await foresees.ask("what-if", documents=[urgent])
    assert f"  - default/{victim.name} from {victim.node}" in shown
    await stage.client.create("/api/v1/namespaces/default/pods", urgent)
    assert place_of(await stage.expect_running("urgent")) == places(view)["urgent"]
    left = {pod["metadata"]["name"] for pod in await stage.all_pods()}
    assert {f"low-{number}" for number in range(4)} - left == {victim.name}


async def test_cordons_ends_and_new_nodes_are_supposed_together(
    stage: Stage, foresees: Foresees
) -> None:
    for number in range(4):
        await stage.create(f"full-{number}", gpu("1.0"))
        await stage.expect_running(f"full-{number}")
    await stage.create("waits", gpu("1.0"))
    await stage.expect_waiting("waits")
    where = {name: await stage.place(name) for name in ("full-0", "full-1")}
    code, view = await foresees.what_if(without=("full-0",))
    assert [(one.name, one.node) for one in view.started] == [("waits", where["full-0"][0])]
    code, view = await foresees.what_if(without=("default/full-0",), cordon=("n1", "n2"))
    assert (code, view.started, view.still_waiting) == (0, (), 1)
    code, view = await foresees.what_if(a_pod("new", "1.0"), add_nodes=1, like="n1")
    assert places(view)["new"][0] == "n1-like-1"
    assert [one.node for one in view.started] == ["n1-like-1"]
    code, shown, said = await foresees.ask("what-if", cordon=("n9",))
    assert (code, shown, said) == (1, "", "Error: the scheduler knows no node n9\n")
    await stage.expect_deleted("full-0")
    assert (await stage.place("waits"))[0] == where["full-0"][0]


async def test_other_profiles_place_pods_otherwise(stage: Stage, foresees: Foresees) -> None:
    spread = {"disabled": [{"name": "*"}], "enabled": [{"name": "Spread"}]}
    profile = stage.folder / "spread.yaml"
    profile.write_text(
        yaml.safe_dump({"profiles": [{"plugins": {"score": spread, "cardScore": spread}}]})
    )
    pods = [a_pod("a", "0.25"), a_pod("b", "0.25")]
    _, packed = await foresees.what_if(*pods)
    _, apart = await foresees.what_if(*pods, profile=str(profile))
    assert len({*places(packed).values()}) == 1
    assert len({node for node, _ in places(apart).values()}) == 2
    for one in pods:
        await stage.client.create("/api/v1/namespaces/default/pods", one)
        assert place_of(await stage.expect_running(one["metadata"]["name"])) in {
            *places(packed).values()
        }


async def test_as_many_more_fit_as_capacity_says(stage: Stage, foresees: Foresees) -> None:
    await stage.create("old", gpu("0.5"))
    await stage.expect_running("old")
    pod = a_pod("one", "0.4")
    code, shown, said = await foresees.ask("capacity", documents=[pod], output="json")
    assert code == 0, said
    view = msgspec.json.decode(shown, type=CapacityView)
    assert (view.more, view.pods_each, view.is_limit) == (7, 1, False)
    assert sum(one.count for one in view.nodes) == 7
    assert view.scarce[0].reason == "Insufficient GPU"
    _, shown, _ = await foresees.ask("capacity", documents=[pod])
    assert shown.startswith("7 more pods would fit.\n")
    assert "What runs out first: Insufficient GPU (on 2 nodes)." in shown
    for number in range(8):
        await stage.create(f"more-{number}", gpu("0.4"))
    await stage.expect_bound(8)
    gang = a_job("gang", 2, "0.1", group_name="g", group_headcount="2", group_threshold="1.0")
    _, shown, said = await foresees.ask("capacity", documents=[gang], output="json")
    view = msgspec.json.decode(shown, type=CapacityView)
    # One card has 0.1 left beside "old" and one more, three have 0.2.
    assert (view.more, view.pods_each) == (3, 2), said


async def test_when_says_by_which_deadline_a_pod_is_placed(
    stage: Stage, foresees: Foresees
) -> None:
    for number, seconds in enumerate((900, 300, None, 600)):
        deadline = {"activeDeadlineSeconds": seconds} if seconds else {}
        await stage.create(f"full-{number}", gpu("1.0"), **deadline)
        await stage.expect_running(f"full-{number}")
    place, _ = await stage.place("full-1")
    await stage.create("waits", gpu("1.0"))
    await stage.expect_waiting("waits")
    code, shown, said = await foresees.ask("when", pod="waits", output="json")
    assert code == 0, said
    view = msgspec.json.decode(shown, type=WhenView)
    assert (view.state, view.node) == ("by", place)
    assert 200 < view.in_s <= 300
    assert [one.name for one in view.ends] == ["full-1"]
    assert (view.with_deadline, view.without_deadline) == (3, 1)
    code, shown, said = await foresees.ask("when", pod="full-0")
    assert shown.startswith("default/full-0 is placed: ")
    await stage.create("never", gpu("5", "5.0"))
    code, shown, said = await foresees.ask("when", pod="never")
    assert code == 4
    assert shown.startswith("When default/never is placed is not known.\n")
    code, shown, said = await foresees.ask("when", pod="absent")
    assert (code, said) == (1, "Error: the scheduler knows no pod default/absent\n")


async def test_only_who_may_get_a_snapshot_asks_what_if(
    stage: Stage, foresees: Foresees, plane: ControlPlane | None
) -> None:
    people = People(stage, plane)
    await people.may_edit("bob", "default")
    asked = Foresees(stage, people.certificate("bob"))
    code, shown, said = await asked.ask("what-if", documents=[a_pod("a", "0.5")])
    assert (code, shown) == (3, "")
    assert 'User "bob" cannot get resource "snapshots"' in said
    code, _ = await people.certified("bob", f"{ROOT}/snapshots/current")
    assert code == 403
    await people.may_get_snapshots("bob")
    async with asyncio.timeout(PATIENCE_S):
        # The API server and the scheduler remember for some seconds that bob may not.
        while code:
            code, shown, said = await asked.ask("what-if", documents=[a_pod("a", "0.5")])
    assert "default/a" in shown, said


async def test_an_event_log_answers_as_the_scheduler_does_and_nothing_changes(
    empty_stage: Stage,
) -> None:
    stage, folder = empty_stage, empty_stage.folder / "events"
    async with stage.scheduler(event_log=LogSettings(folder)) as machine:
        await stage.warm_up()
        await stage.cluster.state_served()
        await stage.create("old", gpu("0.75"))
        await stage.expect_running("old")
        foresees = Foresees(stage)
        _, live = await foresees.what_if(a_pod("a", "0.25"))
        assert {one.pod.key.name for one in machine.records.values()} == {"old"}
    code, logged = await foresees.what_if(a_pod("a", "0.25"), log=str(folder))
    assert (code, places(logged)) == (0, places(live))
    assert logged.notes[0].endswith("from an event log")
