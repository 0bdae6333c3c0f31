"""SharePods of KubeShare 1.0, and the pods behind them."""

import json
import re
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.dialects.sharepod import SharePods
from kubeshare_py.embedded_cluster.nodes.kubelet import RUN_SECONDS
from tests.stories.conftest import PODS, Json, Stage, annotations, scheduled_condition
from tests.stories.share_pods import (
    SHARE_PODS,
    amounts,
    condition,
    controller_of,
    create,
    define,
    expect,
    expect_failing,
    expect_garbage_collection,
    expect_gone,
    expect_running,
    phase,
    share_pod,
)

HALF = amounts("0.5", mem="3145728000")
N1 = {"kubernetes.io/hostname": "n1"}
IN_BOTH = Dialects({"kubeshare-scheduler": (SHAREDGPU, SharePods())})


@pytest.fixture
async def shared(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A cluster with SharePods, their controller, and a scheduler."""
    await define(empty_stage)
    async with empty_stage.scheduler(dialects=IN_BOTH), controller_of(empty_stage):
        yield empty_stage


@pytest.fixture
async def collected(empty_stage: Stage) -> AsyncIterator[Stage]:
    """Such a cluster, with a garbage collector that knows SharePods."""
    await define(empty_stage)
    await expect_garbage_collection(empty_stage)
    async with empty_stage.scheduler(dialects=IN_BOTH), controller_of(empty_stage):
        yield empty_stage


@pytest.mark.slow
async def test_a_share_pod_has_a_pod_of_its_name_and_shows_it(shared: Stage) -> None:
    """KubeShare 1.0's README, SharePod Lifecycle."""
    stage = shared
    made = await create(stage, "sharepod1", HALF, labels={"app": "x"})
    share = await expect_running(stage, "sharepod1")
    pod = await stage.pod("sharepod1")
    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "SharePod", made["metadata"]["uid"], True,
    )  # fmt: skip
    assert pod["spec"]["schedulerName"] == "kubeshare-scheduler"
    assert pod["metadata"]["labels"] == {"app": "x"}
    assert HALF.items() <= annotations(pod).items()
    status = share["status"]
    assert status["PodObjectMeta"]["uid"] == pod["metadata"]["uid"]
    assert status["BoundDeviceID"] == annotations(pod)["sharedgpu/gpu_uuid"]
    assert status["PodManagerPort"] == int(annotations(pod)["sharedgpu/gpu_manager_port"])
    assert status["NodeName"] == pod["spec"]["nodeName"]
    assert (condition(share)["status"], condition(share)["reason"]) == ("True", "Synced")
    event = await stage.expect_event("sharepod1", "Synced")
    assert (event["type"], event["reportingController"]) == ("Normal", "kubeshare-controller")


@pytest.mark.slow
async def test_kubeshares_samples_share_cards_and_need_no_dummy_pod(shared: Stage) -> None:
    """doc/yaml/sharepod1.yaml to sharepod4.yaml of release-1.0: four halves on two cards."""
    stage = shared
    for number in range(1, 5):
        await create(stage, f"sharepod{number}", HALF, nodeSelector=N1)
    shown = [await expect_running(stage, f"sharepod{number}") for number in range(1, 5)]
    assert len({one["status"]["BoundDeviceID"] for one in shown}) == 2
    assert len(await stage.client.list_all("/api/v1/pods")) == 4


@pytest.mark.slow
async def test_a_named_node_is_a_requirement_and_not_a_way_past_the_scheduler(
    shared: Stage,
) -> None:
    """Node and GPUID name a card together; the third half would exceed the card."""
    stage = shared
    for name in ("one", "two", "three", "four", "five"):
        await create(stage, name, HALF, nodeName="n2")
    await stage.expect_bound(4)
    pods = {pod["metadata"]["name"]: pod for pod in await stage.all_pods()}
    nodes = [pod["spec"].get("nodeName") for pod in pods.values()]
    assert sorted(map(str, nodes)) == ["None", "n2", "n2", "n2", "n2"]
    [waits] = [name for name, pod in pods.items() if not pod["spec"].get("nodeName")]
    await stage.expect_waiting(waits, "Insufficient GPU")
    share = await expect(stage, waits, lambda found: bool(why_it_waits(found)))
    assert "Insufficient GPU" in why_it_waits(share)


def why_it_waits(share: Json) -> str:
    pod = {"status": share.get("status", {}).get("PodStatus", {})}
    return str(scheduled_condition(pod).get("message", ""))


@pytest.mark.slow
async def test_its_pod_goes_with_it_and_comes_back_without_it(collected: Stage) -> None:
    """A pod that was deleted is made again; owner references do the rest."""
    stage = collected
    await create(stage, "one", HALF)
    first = (await expect_running(stage, "one"))["status"]["PodObjectMeta"]["uid"]
    await stage.delete("one")
    again = await expect(
        stage,
        "one",
        lambda found: phase(found) == "Running" and uid_of_pod(found) not in ("", first),
    )
    assert uid_of_pod(again) == (await stage.pod("one"))["metadata"]["uid"]
    await stage.client.delete(f"{SHARE_PODS}/one")
    await expect_gone(stage, PODS, "one")


def uid_of_pod(share: Json) -> str:
    return str(share.get("status", {}).get("PodObjectMeta", {}).get("uid", ""))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "seconds", "comes_back"),
    [("Never", "0.1", False), ("OnFailure", "0.1", False), ("Always", "", True)],
)
async def test_a_pod_that_did_all_that_it_should_is_not_made_again(
    shared: Stage, policy: str, seconds: str, comes_back: bool
) -> None:
    """A pod that finished as its restart policy wants is not made again."""
    stage = shared
    runs = {RUN_SECONDS: seconds} if seconds else {}
    await create(stage, "one", runs, restartPolicy=policy)
    wanted = "Running" if comes_back else "Succeeded"
    share = await expect(stage, "one", lambda found: phase(found) == wanted)
    await stage.delete("one")
    if comes_back:
        await expect(stage, "one", lambda found: uid_of_pod(found) not in ("", uid_of_pod(share)))
        return
    await create(stage, "two")
    await expect_running(stage, "two")  # everything before that was seen
    assert [pod["metadata"]["name"] for pod in await stage.all_pods()] == ["two"]
    assert phase(await stage.client.get(f"{SHARE_PODS}/one")) == "Succeeded"


@pytest.mark.slow
async def test_a_pod_of_its_name_that_is_not_its_own_is_left_alone(shared: Stage) -> None:
    """The event is KubeShare's ErrResourceExists; it goes on once the name is free."""
    stage = shared
    other = await stage.create("one")
    await create(stage, "one", HALF)
    said = 'Resource "one" already exists and is not managed by SharePod'
    assert await expect_failing(stage, "one", "ErrResourceExists") == said
    event = await stage.expect_event("one", "ErrResourceExists")
    assert (event["type"], event["note"]) == ("Warning", said)
    assert (await stage.pod("one"))["metadata"]["uid"] == other["metadata"]["uid"]
    await stage.delete("one")
    share = await expect_running(stage, "one")
    assert uid_of_pod(share) != other["metadata"]["uid"]


@pytest.mark.slow
async def test_what_the_api_server_says_of_the_template_is_a_condition(shared: Stage) -> None:
    stage = shared
    await create(stage, "bad", restartPolicy="Sometimes")
    await create(stage, "none", containers=[])
    await create(stage, "good", HALF)
    await expect_running(stage, "good")
    assert "Sometimes" in await expect_failing(stage, "bad", "ErrPodRefused")
    assert "spec.containers" in await expect_failing(stage, "none", "ErrPodRefused")
    await stage.expect_event("bad", "ErrPodRefused")
    await stage.client.merge_patch(f"{SHARE_PODS}/bad", {"spec": {"restartPolicy": "Never"}})
    share = await expect_running(stage, "bad")
    assert condition(share)["status"] == "True"


@pytest.mark.slow
async def test_an_edit_counts_while_the_pod_waits_and_is_named_afterwards(shared: Stage) -> None:
    stage = shared
    await create(stage, "one", HALF, nodeSelector={"disk": "fast"})
    await stage.expect_waiting("one")
    await stage.client.merge_patch(f"{SHARE_PODS}/one", {"spec": {"nodeSelector": None}})
    share = await expect_running(stage, "one")
    change = {"spec": {"priority": 5}, "metadata": {"annotations": {"kubeshare/GPUID": "abcde"}}}
    await stage.client.merge_patch(f"{SHARE_PODS}/one", change)
    told = await expect(stage, "one", lambda found: bool(condition(found, "EditsIgnored")))
    message = condition(told, "EditsIgnored")["message"]
    assert message.endswith(": metadata.annotations[kubeshare/GPUID], spec.priority")
    assert uid_of_pod(told) == uid_of_pod(share)
    back = {"spec": {"priority": None}, "metadata": {"annotations": {"kubeshare/GPUID": None}}}
    await stage.client.merge_patch(f"{SHARE_PODS}/one", back)
    await expect(stage, "one", lambda found: not condition(found, "EditsIgnored"))


async def test_generated_names_are_the_pods_names_too(shared: Stage) -> None:
    stage = shared
    body = share_pod("x")
    body["metadata"] = {"generateName": "train-", "annotations": HALF}
    made = await stage.client.create(SHARE_PODS, body)
    name = made["metadata"]["name"]
    await expect_running(stage, name)
    assert (await stage.pod(name))["metadata"]["name"] == name


@pytest.mark.slow
async def test_it_can_be_deleted_in_every_way(collected: Stage) -> None:
    """An orphan belongs to the next SharePod of its name."""
    stage = collected
    for policy in ("Foreground", "Background", "Orphan"):
        await create(stage, "one", HALF)
        await expect_running(stage, "one")
        uid = (await stage.pod("one"))["metadata"]["uid"]
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        await stage.client.request("DELETE", f"{SHARE_PODS}/one", body=options)
        await expect_gone(stage, SHARE_PODS, "one")
        if policy != "Orphan":
            await expect_gone(stage, PODS, "one")
    assert not (await stage.pod("one"))["metadata"].get("ownerReferences")
    await create(stage, "one", HALF)
    assert uid_of_pod(await expect_running(stage, "one")) == uid


@pytest.mark.slow
async def test_the_next_share_pod_of_a_name_waits_for_the_pod_of_the_last_one(
    collected: Stage,
) -> None:
    stage = collected
    await create(stage, "one", HALF)
    before = uid_of_pod(await expect_running(stage, "one"))
    await stage.client.delete(f"{SHARE_PODS}/one")
    await create(stage, "one", HALF)
    share = await expect(
        stage, "one", lambda found: phase(found) == "Running" and uid_of_pod(found) != before
    )
    assert condition(share)["reason"] == "Synced"


@pytest.mark.slow
async def test_kubectl_shows_node_card_and_share(shared: Stage) -> None:
    """`kubectl get sharepods -o wide`, as a table of the API server."""
    stage = shared
    await create(stage, "one", HALF)
    share = await expect_running(stage, "one")
    token = stage.cluster.admin_token()
    url = f"{stage.cluster.server.url}{SHARE_PODS}"
    headers = {
        "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
        "Authorization": f"Bearer {token}",
    }
    context = ssl.create_default_context(cafile=str(stage.cluster.server.ca_file))
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=context) as answer,
    ):
        table = await answer.json()
    names = [one["name"] for one in table["columnDefinitions"]]
    [row] = table["rows"]
    shown = dict(zip(names, row["cells"], strict=True))
    status = share["status"]
    assert {name: shown[name] for name in ("Request", "Status", "Synced", "Node", "Card")} == {
        "Request": "0.5", "Status": "Running", "Synced": "Synced",
        "Node": status["NodeName"], "Card": status["BoundDeviceID"],
    }  # fmt: skip
    assert shown["Port"] == status["PodManagerPort"]


@pytest.mark.slow
async def test_the_schedulers_choice_is_shown_and_a_pod_made_again_is_free_to_go(
    shared: Stage,
) -> None:
    """A GPUID of five lower-case letters on an empty node, without dummy pod."""
    stage = shared
    await create(stage, "one", HALF)
    share = await expect(stage, "one", lambda found: bool(gpu_id(found)))
    assert re.fullmatch("[a-z]{5}", gpu_id(share))
    pod = await stage.pod("one")
    assert annotations(pod)["kubeshare/GPUID"] == gpu_id(share)
    assert annotations(share)["kubeshare.io/assigned-gpuid"] == gpu_id(share)
    assert len(await stage.client.list_all("/api/v1/pods")) == 1
    await stage.delete("one")
    await expect(stage, "one", lambda found: uid_of_pod(found) not in ("", uid_of_pod(share)))
    [_, second] = stage.sent("POST", "/pods")
    assert "kubeshare/GPUID" not in json.loads(second.body)["metadata"]["annotations"]


def gpu_id(share: Json) -> str:
    return annotations(share).get("kubeshare/GPUID", "")


@pytest.mark.slow
async def test_share_pods_of_one_node_and_gpuid_share_a_card(shared: Stage) -> None:
    """The third one would exceed the card; it waits, and its pod says why."""
    stage = shared
    for name in ("one", "two", "three"):
        await create(stage, name, {**HALF, "kubeshare/GPUID": "abcde"}, nodeName="n2")
    await stage.expect_bound(2)
    names = [
        pod["metadata"]["name"] for pod in await stage.all_pods() if pod["spec"].get("nodeName")
    ]
    ran = [await expect_running(stage, name) for name in names]
    assert {one["status"]["NodeName"] for one in ran} == {"n2"}
    assert len({one["status"]["BoundDeviceID"] for one in ran}) == 1
    assert {gpu_id(one) for one in ran} == {"abcde"}
    assert "kubeshare.io/assigned-gpuid" not in annotations(ran[0])


WRONG: dict[str, tuple[str, dict[str, str | None]]] = {
    "no-memory": ("gpu_mem", {"gpu_mem": None}),
    "above": ("gpu_request", {"gpu_request": "0.6", "gpu_limit": "0.5"}),
    "too-much": ("gpu_limit", {"gpu_limit": "1.5"}),
    "negative": ("gpu_request", {"gpu_request": "-0.1"}),
    "no-bytes": ("gpu_mem", {"gpu_mem": "1Gi"}),
    "no-name": ("GPUID", {"GPUID": "a b"}),
    "no-tag": ("sched_affinity", {"sched_affinity": "r/d"}),
}


@pytest.mark.slow
async def test_a_value_that_is_wrong_is_said_and_stops_nothing_else(shared: Stage) -> None:
    """KubeShare 1.0's scheduler dropped such SharePods without a word."""
    stage = shared
    for name, (_, wrong) in WRONG.items():
        given = {**HALF, **{f"kubeshare/{key}": value for key, value in wrong.items()}}
        await create(stage, name, {key: value for key, value in given.items() if value is not None})
    await create(stage, "right", HALF)
    await expect_running(stage, "right")
    for name, (field, _) in WRONG.items():
        message = await expect_failing(stage, name, "ErrValueError")
        assert message.startswith(f"Value error: kubeshare/{field}")
        event = await stage.expect_event(name, "ErrValueError")
        assert (event["type"], event["note"]) == ("Warning", message)
    assert [pod["metadata"]["name"] for pod in await stage.all_pods()] == ["right"]
    mended = {"metadata": {"annotations": {"kubeshare/GPUID": None}}}
    await stage.client.merge_patch(f"{SHARE_PODS}/no-name", mended)
    assert condition(await expect_running(stage, "no-name"))["status"] == "True"
