"""The state as a group of the API: everybody reads what RBAC lets him, however he logs in."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from functools import partial
from io import StringIO
from pathlib import Path

import msgspec
import pytest
import yaml
from rich.console import Console

from kubeshare_py.domain.events import BindSlotsFree, PodSeen, TimePassed
from kubeshare_py.edges.cli.state_client import ApiAccess
from kubeshare_py.edges.event_log.log_folder import LoggedSession, ReplaySettings
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.scheduler.event_logging import LogSettings
from kubeshare_py.embedded_cluster.serving.cluster import PAUSE_S
from kubeshare_py.programs.kubectl_check import CheckQuestion
from kubeshare_py.programs.kubectl_check import answer as check
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.views.view import ClusterView, ProspectView, WhyView
from tests.controlplane.running import ControlPlane
from tests.edges.kubeconfigs import exec_credential, plugin
from tests.patience import PATIENCE_S
from tests.scheduling.machine_state import expect_same_state, state_of
from tests.stories.command import kubectl_kubeshare
from tests.stories.conftest import Json, Stage, gpu
from tests.stories.people import ROOT, People

THEIRS = "/api/v1/namespaces/theirs/pods"

#: Its users show client certificates.
pytestmark = pytest.mark.tls

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("way", ["certificate", pytest.param("--as", marks=pytest.mark.long)])
async def test_somebody_without_rights_reads_nothing(people: People, way: str) -> None:
    for path in ("gpus", "pods", "namespaces/default/pods", "namespaces/default/pods/mine"):
        code, body = await ways(people)[way]("nobody", f"{ROOT}/{path}")
        assert (code, body["reason"]) == (403, "Forbidden")


def a_review(share: str, **spec: object) -> Json:
    containers = [{"name": "main", "image": "busybox"}]
    given = {"schedulerName": "kubeshare-scheduler", "containers": containers, **spec}
    pod = {"metadata": {"name": "new", "labels": gpu(share)}, "spec": given}
    head = {"apiVersion": "state.kubeshare.io/v1", "kind": "PlacementReview"}
    return {**head, "spec": {"pod": pod}}


async def fill(people: People) -> None:
    """Leave a quarter of each card."""
    for number in range(3):
        await people.stage.create(f"fill-{number}", gpu("0.75"))
        await people.stage.expect_running(f"fill-{number}")


@pytest.mark.slow
async def test_a_user_who_may_create_pods_asks_what_would_become_of_one_and_others_do_not(
    people: People,
) -> None:
    await fill(people)
    await people.may_edit("bob", "default")
    reviews = f"{ROOT}/namespaces/default/placementreviews"
    code, body = await people.posted("bob", reviews, a_review("0.25"))
    assert code == 201, body
    assert body["kind"] == "PlacementReview"
    found = msgspec.convert(body["status"], ProspectView)
    assert (found.fits, len(found.why.pod.cards)) == (True, 1)
    code, body = await people.posted("bob", reviews, a_review("0.5"))
    found = msgspec.convert(body["status"], ProspectView)
    assert (code, found.fits, "Insufficient GPU" in found.why.message) == (201, False, True)
    assert any("it fits on" in sentence for sentence in found.why.advice)
    assert "secret" not in str(body)
    code, body = await people.certified("bob", f"{ROOT}/namespaces/default/schedulers")
    assert [one["metadata"]["name"] for one in body["items"]] == ["kubeshare-scheduler"]
    # jane may view, and no more; bob may do nothing elsewhere.
    for user, namespace in (("jane", "default"), ("bob", "theirs")):
        path = f"{ROOT}/namespaces/{namespace}/placementreviews"
        code, body = await people.posted(user, path, a_review("0.25"))
        assert (code, body["reason"]) == (403, "Forbidden")
    pods = await people.stage.client.get("/api/v1/namespaces/default/pods")
    names = {pod["metadata"]["name"] for pod in pods["items"]}
    assert names == {"mine", "fill-0", "fill-1", "fill-2"}


@pytest.mark.slow
async def test_check_now_says_what_then_happens(people: People) -> None:
    await fill(people)
    stage, folder = people.stage, people.stage.folder
    manifests = [manifest("fits", "0.25"), manifest("waits", "0.5")]
    (folder / "pods.yaml").write_text(yaml.safe_dump_all(manifests))
    kubeconfig = stage.cluster.server.write_kubeconfig(folder / "admin.kubeconfig")
    code, shown, said = await check_now(kubeconfig, folder / "pods.yaml")
    assert code == 4, said
    _, fits, waits, *_ = shown.splitlines()
    assert " yes " in fits
    assert " no " in waits
    assert "Insufficient GPU" in waits
    assert "    - it fits on " in shown
    assert said == "Each pod is asked about alone, as if the others were not created.\n"
    await stage.create("fits", gpu("0.25"))
    running = await stage.expect_running("fits")
    assert running["metadata"]["annotations"]["sharedgpu/gpu_uuid"] in fits
    assert f" {running['spec']['nodeName']}, GPU " in fits


@pytest.mark.slow
async def test_check_now_changes_nothing_and_writes_no_event(empty_stage: Stage) -> None:
    """What is between the pods before and after it in the event log are turns, as always."""
    stage, folder = empty_stage, empty_stage.folder
    (folder / "pods.yaml").write_text(
        yaml.safe_dump_all([manifest("fits", "0.25"), manifest("waits", "3", "3.0")])
    )
    async with stage.scheduler(event_log=LogSettings(folder / "events")) as machine:
        await stage.warm_up()
        await stage.cluster.state_served()
        await stage.create("before", gpu("0.5"))
        await stage.expect_running("before")
        async with asyncio.timeout(PATIENCE_S):
            while not knows_that_its_pod_runs(machine):  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_S)
        before = state_of(machine)
        kubeconfig = stage.cluster.server.write_kubeconfig(folder / "admin.kubeconfig")
        code, shown, said = await check_now(kubeconfig, folder / "pods.yaml")
        assert (code, " yes " in shown, " no " in shown) == (4, True, True), said
        expect_same_state(before, state_of(machine), "check --now")
        await stage.create("after", gpu("0.5"))
        await stage.expect_running("after")
    events = [one.event for one in LoggedSession(ReplaySettings(folder=folder / "events")).events()]
    seen = [event.pod.key.name if isinstance(event, PodSeen) else "" for event in events]
    assert not {"fits", "waits"} & {*seen}
    last = len(seen) - 1 - seen[::-1].index("before")
    between = events[last + 1 : seen.index("after")]
    assert {type(event) for event in between} <= {BindSlotsFree, TimePassed}


def manifest(name: str, share: str, limit: str = "1.0") -> Json:
    metadata = {"name": name, "labels": gpu(share, limit)}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    return {**a_review(share)["spec"]["pod"], **head}


def knows_that_its_pod_runs(machine: Machine) -> bool:
    """Nothing more is seen of a pod after that."""
    return any(said for path, said in state_of(machine).items() if path.endswith(".started"))


async def check_now(kubeconfig: Path, file: Path) -> tuple[int, str, str]:
    out, err = Console(file=StringIO(), width=300), Console(file=StringIO(), width=300)
    access = ApiAccess(kubeconfig=str(kubeconfig))
    question = CheckQuestion(files=(str(file),), now=True, access=access)
    code = await asyncio.to_thread(check, question, out, err)
    assert isinstance(out.file, StringIO)
    assert isinstance(err.file, StringIO)
    return code, out.file.getvalue(), err.file.getvalue()


@pytest.mark.slow
async def test_an_administrator_reads_everything(people: People) -> None:
    client = people.stage.client
    view = msgspec.convert(await client.get(f"{ROOT}/gpus"), ClusterView)
    assert sorted(pod.name for pod in view.pods) == ["mine", "secret"]
    body = await client.get(f"{ROOT}/namespaces/theirs/pods")
    assert [pod["name"] for pod in body["pods"]] == ["secret"]
    [card] = [card for node in body["nodes"] for card in node["cards"]]
    assert "secret" in {one["name"] for one in card["tenants"]}


@pytest.mark.slow
async def test_discovery_shows_the_group(people: People) -> None:
    client = people.stage.client
    groups = (await client.get("/apis"))["groups"]
    assert "state.kubeshare.io" in {group["name"] for group in groups}
    listed = await client.get(ROOT)
    assert {row["name"]: row["verbs"] for row in listed["resources"]} == {
        "gpus": ["get", "list"],
        "pods": ["get", "list"],
        "placementreviews": ["create"],
        "schedulers": ["list"],
        "snapshots": ["get"],
    }


@pytest.mark.slow
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


@pytest.mark.slow
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
