"""Result annotations are the scheduler's; everything else on a pod is its owner's."""

import asyncio
from contextlib import aclosing
from functools import partial

import pytest

from kubeshare_py.configuration.scheduler import ProfileConfiguration
from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.dialects import IN_TREE
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.manifests.watch import Codec, ListResult
from tests.each import each
from tests.patience import PATIENCE_S
from tests.policies.conftest import (
    PODS,
    Cluster,
    binding,
    expect_accepted,
    expect_let_through,
    pod,
    refused,
)

UUID = "sharedgpu/gpu_uuid"
RESULTS = (
    "gpu_uuid", "gpu_model", "gpu_mem", "cell_id", "gpu_manager_port", "allocation", "fence",
    "container-0.gpu_uuid", "init-12.gpu_uuid", "gpu_mem_mib", "mps_memory",
    "init-0.gpu_mem_mib", "container-1.mps_memory", "mps_thread_percentage",
)  # fmt: skip
EVENTS = "/api/v1/namespaces/default/events"


def of_dialects() -> list[str]:
    """The result keys of the dialects that profiles enable by default, and one of each prefix."""
    enabled = {one.name for one in ProfileConfiguration().dialects}
    found = [make() for name, make in IN_TREE.items() if name in enabled]
    keys = [one.result_keys for one in found if isinstance(one, Dialect)]
    begun = {f"{prefix}main" for one in keys for prefix in one.prefixes}
    return sorted(begun.union(*(one.every for one in keys)))


@pytest.fixture
async def placed(cluster: Cluster) -> Cluster:
    """A cluster in which `probe` has a card."""
    results = binding("probe", allocation="{}", fence="me/3", gpu_uuid="GPU-1")
    await expect_let_through(partial(cluster.scheduler.create, f"{PODS}/probe/binding", results))
    return cluster


@pytest.mark.parametrize("name", RESULTS)
async def test_a_pod_does_not_bring_results_along(cluster: Cluster, name: str) -> None:
    # Alone, two of them are taken for labels; as copies they come with the cards.
    body = pod("copy", annotations={f"sharedgpu/{name}": "x", UUID: "GPU-1"})
    message = await refused(cluster.admin.create(PODS, body))
    written = message.partition("only kubeshare-scheduler writes ")[2]
    keys, found, _ = written.partition(": take the annotations out")
    assert found
    assert {*keys.split(", ")} == {f"sharedgpu/{name}", UUID}


async def test_nor_those_of_a_dialect(cluster: Cluster) -> None:
    for scheduler in ("kubeshare-scheduler", "default-scheduler"):
        for key in each(of_dialects()):
            body = pod("copy", annotations={key: "0"})
            body["spec"]["schedulerName"] = scheduler
            message = await refused(cluster.admin.create(PODS, body))
            assert f"only kubeshare-scheduler writes {key}" in message


async def test_labels_and_other_annotations_are_the_users(cluster: Cluster) -> None:
    labels = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
    labels["sharedgpu/gpu_model"] = "T4"
    body = pod("mine", labels=labels, annotations={"sharedgpu/gpu_models": "T4", "a": "b"})
    await expect_accepted(cluster.admin.create(PODS, body))
    change = {"metadata": {"annotations": {"a": "c", "sharedgpu/gpu_models": "T4 > *"}}}
    await expect_accepted(cluster.admin.merge_patch(f"{PODS}/mine", change))


@pytest.mark.parametrize("value", ["GPU-2", None])
@pytest.mark.parametrize("subresource", ["", "/status"])
async def test_nobody_else_moves_a_pod_to_another_card(
    placed: Cluster, value: str | None, subresource: str
) -> None:
    change = {"metadata": {"annotations": {UUID: value}}}
    asked = placed.admin.merge_patch(f"{PODS}/probe{subresource}", change)
    assert f"only kubeshare-scheduler writes {UUID}" in await refused(asked)
    found = await placed.admin.get(f"{PODS}/probe")
    assert found["metadata"]["annotations"][UUID] == "GPU-1"


async def test_a_placed_pod_is_changed_otherwise_as_ever(placed: Cluster) -> None:
    status = {"status": {"phase": "Running"}}
    await expect_accepted(placed.admin.merge_patch(f"{PODS}/probe/status", status))
    await expect_accepted(
        placed.admin.merge_patch(f"{PODS}/probe", {"metadata": {"labels": {"a": "b"}}})
    )
    await expect_accepted(placed.admin.delete(f"{PODS}/probe", grace_period_s=0))


async def test_nobody_else_binds_with_results(cluster: Cluster) -> None:
    asked = cluster.admin.create(f"{PODS}/probe/binding", binding("probe", gpu_uuid="GPU-1"))
    assert f"only kubeshare-scheduler writes {UUID}" in await refused(asked)


async def test_a_controller_says_why_it_cannot_copy_a_placed_pod(cluster: Cluster) -> None:
    body = pod("probe", annotations={UUID: "GPU-1"})
    template = {"metadata": {"annotations": {UUID: "GPU-1"}}, "spec": body["spec"]}
    template["spec"]["restartPolicy"] = "Never"
    job = {"metadata": {"name": "copies"}, "spec": {"template": template}}
    kind = {"apiVersion": "batch/v1", "kind": "Job"}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    await cluster.admin.create(jobs, kind | job)
    selector = {"fieldSelector": "involvedObject.name=copies,reason=FailedCreate"}
    codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
    async with (
        asyncio.timeout(PATIENCE_S),
        aclosing(follow(cluster.admin, EVENTS, codec, selector=selector)) as batches,
    ):
        async for batch in batches:
            if not isinstance(batch, ListResult) or batch.items:
                break
    [event, *_] = await cluster.admin.list_all(EVENTS, selector)
    assert f"only kubeshare-scheduler writes {UUID}" in event["message"]
    assert "out of the template that it is made from" in event["message"]
