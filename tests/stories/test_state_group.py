"""The state as a group of the API: everybody reads what RBAC lets him, however he logs in."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
import yaml

from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.views.view import ClusterView, WhyView
from tests.controlplane.running import ControlPlane
from tests.edges.kubeconfigs import exec_credential, plugin
from tests.patience import PATIENCE_S
from tests.stories.command import kubectl_kubeshare
from tests.stories.conftest import Json, Stage, gpu
from tests.stories.people import ROOT, People

THEIRS = "/api/v1/namespaces/theirs/pods"

Asks = Callable[[str, str], Awaitable[tuple[int, Json]]]


@pytest.fixture
async def people(stage: Stage, plane: ControlPlane | None) -> People:
    """A pod of `default`, one of `theirs` on the same card, and jane, who may view `default`."""
    async with asyncio.timeout(PATIENCE_S):
        await stage.cluster.state_served()
    people = People(stage, plane)
    await people.namespace("theirs")
    await people.may_view("jane", "default")
    await people.may_list_cards("jane")
    await stage.create("mine", gpu("0.5"))
    await stage.expect_running("mine")
    containers = [{"name": "main", "image": "busybox"}]
    spec = {"schedulerName": "kubeshare-scheduler", "containers": containers}
    metadata = {"name": "secret", "labels": gpu("0.25")}
    await stage.client.create(THEIRS, {"metadata": metadata, "spec": spec})
    await stage.expect_in(THEIRS, "secret", lambda pod: pod["status"].get("phase") == "Running")
    return people


def ways(people: People) -> dict[str, Asks]:
    return {"certificate": people.certified, "--as": people.acted}


@pytest.mark.parametrize("way", ["certificate", "--as"])
async def test_a_user_of_one_namespace_sees_its_pods_and_amounts_of_others(
    people: People, way: str
) -> None:
    code, body = await ways(people)[way]("jane", f"{ROOT}/gpus")
    assert (code, body["kind"]) == (200, "GPUList")
    assert "secret" not in str(body)
    assert "theirs" not in str(body)
    view = msgspec.convert(body, ClusterView)
    assert [pod.name for pod in view.pods] == ["mine"]
    tenants = [one for node in view.nodes for card in node.cards for one in card.tenants]
    assert sorted((one.name, one.milli) for one in tenants) == [("", 250), ("mine", 500)]


@pytest.mark.parametrize("way", ["certificate", pytest.param("--as", marks=pytest.mark.long)])
async def test_a_user_reads_the_pods_of_her_namespace_and_no_others(
    people: People, way: str
) -> None:
    asks = ways(people)[way]
    code, body = await asks("jane", f"{ROOT}/namespaces/default/pods")
    assert (code, [pod["name"] for pod in body["pods"]]) == (200, ["mine"])
    code, body = await asks("jane", f"{ROOT}/namespaces/default/pods/mine")
    assert (code, msgspec.convert(body, WhyView).pod.state) == (200, "bound")
    for path in ("namespaces/theirs/pods", "namespaces/theirs/pods/secret", "pods"):
        code, body = await asks("jane", f"{ROOT}/{path}")
        assert (code, body["reason"]) == (403, "Forbidden")
        assert 'User "jane" cannot' in body["message"]


@pytest.mark.parametrize("way", ["certificate", pytest.param("--as", marks=pytest.mark.long)])
async def test_somebody_without_rights_reads_nothing(people: People, way: str) -> None:
    for path in ("gpus", "pods", "namespaces/default/pods", "namespaces/default/pods/mine"):
        code, body = await ways(people)[way]("nobody", f"{ROOT}/{path}")
        assert (code, body["reason"]) == (403, "Forbidden")


async def test_an_administrator_reads_everything(people: People) -> None:
    client = people.stage.client
    view = msgspec.convert(await client.get(f"{ROOT}/gpus"), ClusterView)
    assert sorted(pod.name for pod in view.pods) == ["mine", "secret"]
    body = await client.get(f"{ROOT}/namespaces/theirs/pods")
    assert [pod["name"] for pod in body["pods"]] == ["secret"]
    [card] = [card for node in body["nodes"] for card in node["cards"]]
    assert "secret" in {one["name"] for one in card["tenants"]}


async def test_discovery_shows_the_group(people: People) -> None:
    client = people.stage.client
    groups = (await client.get("/apis"))["groups"]
    assert "state.kubeshare.io" in {group["name"] for group in groups}
    listed = await client.get(ROOT)
    assert {row["name"]: row["verbs"] for row in listed["resources"]} == {
        "gpus": ["get", "list"],
        "pods": ["get", "list"],
    }


async def test_a_scheduler_that_stands_by_answers_as_well(empty_stage: Stage) -> None:
    stage, settings = empty_stage, {"leaderElection": {"leaderElect": True}}
    async with stage.scheduler(settings):
        await stage.warm_up()
        await stage.create("mine", gpu("0.5"))
        await stage.expect_running("mine")
        # The Service leads to the one that came last, which does not lead.
        async with stage.scheduler(settings) as standing_by:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    if found := await names(stage):
                        break
                    await asyncio.sleep(0.05)
            assert found == ["mine"]
            assert not standing_by.decides


async def names(stage: Stage) -> list[str]:
    """Pods that are told of; none while nobody answers."""
    try:
        body = await stage.client.get(f"{ROOT}/gpus")
    except KubeError:
        return []
    return [pod["name"] for pod in body["pods"]]


def kubeconfig_of_jane(people: People, way: str) -> Path:
    """Her certificate in the file, from an exec plugin, or an administrator who acts as her."""
    stage = people.stage
    if way == "--as":
        return stage.cluster.server.write_kubeconfig(stage.folder / "admin.kubeconfig")
    path = people.certificate("jane")
    if way == "exec plugin":
        config = yaml.safe_load(path.read_text())
        held = config["users"][0]["user"]
        certificate, key = (
            base64.b64decode(held[f"client-{part}-data"]).decode()
            for part in ("certificate", "key")
        )
        status = {"clientCertificateData": certificate, "clientKeyData": key}
        config["users"][0]["user"] = plugin(stage.folder, exec_credential(**status))
        path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(
    "way",
    [
        *(pytest.param(way, marks=pytest.mark.long) for way in ("certificate", "exec plugin")),
        "--as",
    ],
)
async def test_the_command_shows_a_user_what_she_may_see(people: People, way: str) -> None:
    kubeconfig = kubeconfig_of_jane(people, way)
    as_user = "jane" if way == "--as" else None
    ask = partial(kubectl_kubeshare, kubeconfig, as_user=as_user)
    code, shown, said = await ask("gpus")
    assert code == 0, said
    assert "default/mine, 1 (in other namespaces)" in shown
    code, shown, said = await ask("why", "mine")
    assert code == 0, said
    assert "  - a pod (in other namespaces): 0.25 GPU" in shown
    assert "secret" not in shown
    code, shown, said = await ask("pods", all_namespaces=True)
    assert (code, shown) == (1, "")
    assert 'User "jane" cannot list resource "pods"' in said
