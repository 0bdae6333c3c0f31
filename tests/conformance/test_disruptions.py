"""Disruption budgets as a controller counts them, and what evictions make of that."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.manifests.watch import Codec, ListResult
from tests.embedded_cluster.simulated import JOBS, PODS, Simulated
from tests.patience import PATIENCE_S

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
LABELS = {"app": "w"}
COUNTS = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")


def template(node: str | None = "b", **spec: Any) -> dict[str, Any]:
    if node is not None:
        spec["nodeName"] = node
    containers = [{"name": "a", "image": "x"}]
    return {"metadata": {"labels": LABELS}, "spec": {"containers": containers, **spec}}


def workload(replicas: int, **of_template: Any) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": LABELS}, "template": template(**of_template)}
    return {"metadata": {"name": "w"}, "spec": {"replicas": replicas, **spec}}


def budget(name: str = "b", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}


async def expect_counts(world: Simulated, *counts: int, name: str = "b") -> UnstructuredObject:
    """Wait until expected, healthy, desired and allowed are these."""

    def is_so(found: dict[str, UnstructuredObject]) -> bool:
        if name not in found:
            return False
        one = found[name]
        known = tuple(one.status.get(count, 0) for count in COUNTS)
        return known == counts and one.status.get("observedGeneration") == one.metadata.generation

    return (await world.expect_eventually(BUDGETS, is_so))[name]


async def expect_running(world: Simulated, count: int) -> list[str]:
    """Wait until so many pods run, and no others are there."""

    def ready(found: dict[str, UnstructuredObject]) -> bool:
        return [pod.status.get("phase") for pod in found.values()] == ["Running"] * count

    return sorted(await world.expect_eventually(PODS, ready))


async def evict(world: Simulated, name: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await world.client.create(f"{PODS}/{name}/eviction", body)


async def refusal(world: Simulated, name: str) -> KubeError:
    with pytest.raises(KubeError) as caught:
        await evict(world, name)
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "desired"),
    [
        ({"minAvailable": 1}, 1),
        ({"minAvailable": "34%"}, 2),
        ({"minAvailable": "100%"}, 3),
        ({"maxUnavailable": 1}, 2),
        ({"maxUnavailable": "34%"}, 1),
        ({"maxUnavailable": 10}, 0),
        ({"minAvailable": 5}, 5),
    ],
)
async def test_percentages_are_of_the_pods_there_should_be_and_rounded_up(
    world: Simulated, spec: dict[str, Any], desired: int
) -> None:
    await world.client.create(DEPLOYMENTS, workload(3))
    await world.client.create(BUDGETS, budget(**spec))
    one = await expect_counts(world, 3, 3, desired, max(3 - desired, 0))
    (condition,) = one.status["conditions"]
    enough = ("True", "SufficientPods") if desired < 3 else ("False", "InsufficientPods")
    assert (condition["type"], condition["observedGeneration"]) == ("DisruptionAllowed", 1)
    assert (condition["status"], condition["reason"], condition["message"]) == (*enough, "")


async def test_a_budget_follows_scale_and_its_own_changes(world: Simulated) -> None:
    await world.client.create(DEPLOYMENTS, workload(2))
    await world.client.create(BUDGETS, budget(maxUnavailable=1))
    await expect_counts(world, 2, 2, 1, 1)
    await world.client.merge_patch(f"{DEPLOYMENTS}/w/scale", {"spec": {"replicas": 4}})
    await expect_counts(world, 4, 4, 3, 1)
    await world.client.merge_patch(f"{BUDGETS}/b", {"spec": {"maxUnavailable": "50%"}})
    await expect_counts(world, 4, 4, 2, 2)
    await world.client.merge_patch(f"{DEPLOYMENTS}/w/scale", {"spec": {"replicas": 0}})
    await expect_counts(world, 0, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({"minAvailable": 1}, (2, 2, 1, 1)),
        ({"maxUnavailable": 1}, (0, 2, 0, 0)),
        ({"minAvailable": "50%"}, (0, 2, 0, 0)),
        ({}, (0, 2, 0, 0)),
    ],
)
async def test_pods_of_nobody_count_only_for_a_number_that_must_stay(
    world: Simulated, spec: dict[str, Any], counts: tuple[int, ...]
) -> None:
    for name in ("p", "q"):
        body = {"metadata": {"name": name, "labels": LABELS}, "spec": template()["spec"]}
        await world.client.create(PODS, body)
    await expect_running(world, 2)
    await world.client.create(BUDGETS, budget(**spec))
    await expect_counts(world, *counts)


async def test_an_empty_selector_takes_all_pods_of_the_namespace_and_none_takes_none(
    world: Simulated,
) -> None:
    await world.client.create(DEPLOYMENTS, workload(2))
    await expect_running(world, 2)
    body = {"metadata": {"name": "b"}, "spec": {"selector": {}, "minAvailable": 1}}
    await world.client.create(BUDGETS, body)
    await expect_counts(world, 2, 2, 1, 1)
    await world.client.create(BUDGETS, {"metadata": {"name": "c"}, "spec": {"minAvailable": 1}})
    await expect_counts(world, 0, 0, 1, 0, name="c")


async def test_pods_of_a_job_have_no_scale_to_count_by(world: Simulated) -> None:
    spec = {"parallelism": 2, "template": template(restartPolicy="Never")}
    await world.client.create(JOBS, {"metadata": {"name": "j"}, "spec": spec})
    await expect_running(world, 2)
    await world.client.create(BUDGETS, budget(maxUnavailable=1))

    def failed(found: dict[str, UnstructuredObject]) -> bool:
        return bool(found["b"].status.get("conditions")) if "b" in found else False

    found = (await world.expect_eventually(BUDGETS, failed))["b"]
    (condition,) = found.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "SyncFailed")
    assert condition["message"] == "jobs.batch does not implement the scale subresource"
    assert "observedGeneration" not in found.status
    refused = await refusal(world, (await expect_running(world, 2))[0])
    assert (refused.status, refused.retry_after_s) == (429, 10)
    await world.client.merge_patch(
        f"{BUDGETS}/b", {"spec": {"maxUnavailable": None, "minAvailable": 1}}
    )
    await expect_counts(world, 2, 2, 1, 1)


async def test_evictions_wait_until_others_are_ready(world: Simulated) -> None:
    await world.client.create(SETS, workload(2, node=None))
    names = sorted(await world.expect_eventually(PODS, lambda found: len(found) == 2))
    for name in names:
        await world.bind(name, "b")
    await expect_running(world, 2)
    await world.client.create(BUDGETS, budget(minAvailable=1))
    await expect_counts(world, 2, 2, 1, 1)
    await evict(world, names[0])
    # Another pod takes its place, but nobody binds it yet.
    await expect_counts(world, 2, 1, 1, 0)
    refused = await refusal(world, names[1])
    assert (refused.status, refused.reason) == (429, "TooManyRequests")
    found = await world.expect_eventually(
        PODS, lambda pods: len(pods) == 2 and names[0] not in pods
    )
    (another,) = {*found} - {*names}
    await world.bind(another, "b")
    await expect_counts(world, 2, 2, 1, 1)
    await evict(world, names[1])


async def test_a_granted_eviction_is_seen_in_the_budget_at_once(world: Simulated) -> None:
    await world.client.create(DEPLOYMENTS, workload(3))
    name = (await expect_running(world, 3))[0]
    await world.client.create(BUDGETS, budget(maxUnavailable=2))
    await expect_counts(world, 3, 3, 1, 2)
    codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
    async with (
        asyncio.timeout(PATIENCE_S),
        aclosing(follow(world.client, BUDGETS, codec)) as batches,
    ):
        async for batch in batches:
            if isinstance(batch, ListResult):
                await evict(world, name)
                continue
            granted = [
                line.item.status
                for line in batch.changed
                if line.item is not None and line.item.status.get("disruptedPods")
            ]
            if granted:
                break
    assert [*granted[0]["disruptedPods"]] == [name]
    assert granted[0]["disruptionsAllowed"] == 1
    after = await expect_counts(world, 3, 3, 1, 2)
    assert "disruptedPods" not in after.status


@pytest.mark.parametrize("policy", ["IfHealthyBudget", "AlwaysAllow"])
async def test_pods_that_are_not_ready_may_always_go_if_the_budget_says_so(
    world: Simulated, policy: str
) -> None:
    await world.client.create(DEPLOYMENTS, workload(2))
    names = await expect_running(world, 2)
    body = budget(minAvailable=2, unhealthyPodEvictionPolicy=policy)
    await world.client.create(BUDGETS, body)
    await expect_counts(world, 2, 2, 2, 0)
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await world.client.strategic_patch(f"{PODS}/{names[0]}/status", unready)
    await expect_counts(world, 2, 1, 2, 0)
    assert (await refusal(world, names[1])).status == 429
    if policy == "AlwaysAllow":
        await evict(world, names[0])
    else:
        assert (await refusal(world, names[0])).status == 429
