"""Deployments of pods that share cards: scaled, rolled out, moved off a node under a budget."""

import asyncio
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import pytest

from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject, is_ready
from tests.embedded_cluster.simulated import pods_over_time
from tests.patience import PATIENCE_S
from tests.stories.conftest import PODS, VISIBLE, Json, Stage, bound, card, gpu

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
#: Four halves of a card.
CLUSTER = """
nodes:
  - {name: "n{n}", count: 2, gpus: [{model: Tesla-T4, count: 1, memory: 16GiB}]}
"""


def deployment(name: str, replicas: int, share: str = "0.5", **spec: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, share),
            **spec,
        },
    }


def template(name: str, share: str = "0.5", image: str = "model:1") -> Json:
    return {
        "metadata": {"labels": {"app": name, **gpu(share)}},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "containers": [{"name": "main", "image": image, "env": [VISIBLE]}],
        },
    }


def budget(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


async def scale(stage: Stage, name: str, replicas: int) -> None:
    await stage.client.merge_patch(f"{DEPLOYMENTS}/{name}/scale", {"spec": {"replicas": replicas}})


async def rolled_out(stage: Stage, name: str) -> Json:
    """Wait for what `kubectl rollout status` waits for."""

    def done(found: Json) -> bool:
        status, wanted = found.get("status", {}), found["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        return seen and all(status.get(count, 0) == wanted for count in counts)

    return await stage.expect_in(DEPLOYMENTS, name, done)


def staying(pods: dict[str, UnstructuredObject], image: str = "") -> list[UnstructuredObject]:
    """Pods that nobody deleted, of one image or of all."""
    return [
        pod
        for pod in pods.values()
        if pod.metadata.deletionTimestamp is None
        and image in ("", pod.spec["containers"][0]["image"])
    ]


@pytest.mark.slow
async def test_replicas_share_cards_and_those_that_wait_are_given_up_first(stage: Stage) -> None:
    await stage.cluster.apply(deployment("web", 4))
    await rolled_out(stage, "web")
    pods = await stage.all_pods()
    assert sorted(card(pod) for pod in pods) == sorted(2 * list({card(pod) for pod in pods}))
    await scale(stage, "web", 6)
    before = await stage.expect_bound(4)
    await scale(stage, "web", 4)
    await stage.expect_all(lambda found: len(found) == 4)
    assert sorted(bound(await stage.all_pods())) == sorted(before)
    await rolled_out(stage, "web")


@pytest.mark.slow
async def test_scaled_down_cards_are_free_for_others(stage: Stage) -> None:
    await stage.cluster.apply(deployment("web", 4))
    await rolled_out(stage, "web")
    await stage.create("whole", gpu("1"))
    await stage.expect_waiting("whole")
    await scale(stage, "web", 0)
    await stage.expect_running("whole")
    await scale(stage, "web", 4)
    # Two have a place, and two wait until the other card is free again.
    await stage.expect_bound(3)
    await stage.delete("whole")
    await rolled_out(stage, "web")


@pytest.mark.slow
async def test_a_rollout_needs_no_free_card_and_never_leaves_too_few(stage: Stage) -> None:
    await stage.cluster.apply(deployment("web", 4))
    await rolled_out(stage, "web")
    change = {"spec": {"template": template("web", image="model:2")}}
    least = 4
    async with asyncio.timeout(PATIENCE_S), aclosing(pods_over_time(stage.client)) as looks:
        began = False
        async for pods in looks:
            if not began:
                began = True
                await stage.client.merge_patch(f"{DEPLOYMENTS}/web", change)
            least = min(least, sum(map(is_ready, staying(pods))))
            if sum(map(is_ready, staying(pods, "model:2"))) == 4:
                break
    assert least == 3
    await rolled_out(stage, "web")
    assert all(card(pod) for pod in await stage.all_pods())


@pytest.mark.slow
async def test_a_rollout_that_finds_no_card_stops_and_goes_back(stage: Stage) -> None:
    await stage.cluster.apply(deployment("web", 2, progressDeadlineSeconds=2))
    await rolled_out(stage, "web")
    change = {"spec": {"template": template("web", share="2", image="model:2")}}
    await stage.client.merge_patch(f"{DEPLOYMENTS}/web", change)

    def is_late(found: Json) -> bool:
        conditions = found["status"]["conditions"]
        return any(one["reason"] == "ProgressDeadlineExceeded" for one in conditions)

    late = await stage.expect_in(DEPLOYMENTS, "web", is_late)
    assert late["status"]["availableReplicas"] == 2
    change = {"spec": {"template": template("web")}}
    change["spec"]["template"]["spec"]["containers"][0]["image"] = "model:1"
    await stage.client.merge_patch(f"{DEPLOYMENTS}/web", change)
    await rolled_out(stage, "web")
    await stage.expect_all(lambda found: len(found) == 2)


@pytest.mark.slow
async def test_a_node_is_emptied_under_a_budget(stage: Stage) -> None:
    await stage.patch_node("n2", {"spec": {"unschedulable": True}})
    await stage.cluster.apply(deployment("web", 2))
    await stage.cluster.apply(budget("web", minAvailable=1))
    await rolled_out(stage, "web")
    await stage.patch_node("n2", {"spec": {"unschedulable": None}})
    await stage.patch_node("n1", {"spec": {"unschedulable": True}})
    fewest: list[int] = []
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch_ready(stage, fewest))
        await drain(stage, "n1")
        # The status of a Deployment may be older than the last eviction.
        pods = await stage.expect_all(lambda found: nodes_of(found) == ["n2", "n2"])
        await rolled_out(stage, "web")
        watching.cancel()
    assert min(fewest) == 1
    assert len({card(pod) for pod in pods}) == 1


def nodes_of(pods: list[Json]) -> list[str]:
    """The node of each pod, "" for one that has none."""
    return [pod["spec"].get("nodeName", "") for pod in pods]


async def watch_ready(stage: Stage, fewest: list[int]) -> None:
    """Note how many pods are ready and stay, after each change."""
    async with aclosing(pods_over_time(stage.client)) as looks:
        async for pods in looks:
            fewest.append(sum(map(is_ready, staying(pods))))


async def drain(stage: Stage, node: str) -> None:
    """Evict what runs on a node, when the budget lets it go."""
    for pod in await stage.all_pods():
        if pod["spec"].get("nodeName") != node:
            continue
        name = pod["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        while True:
            await stage.expect_in(BUDGETS, "web", may_go)
            try:
                await stage.client.create(f"{PODS}/{name}/eviction", body)
                break
            except KubeError as error:
                if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise  # else somebody else went meanwhile


def may_go(found: Json) -> bool:
    """Whether a budget lets a pod go, as far as it was counted."""
    status = found["status"]
    return bool(
        status["disruptionsAllowed"]
        and status.get("observedGeneration") == found["metadata"]["generation"]
    )
