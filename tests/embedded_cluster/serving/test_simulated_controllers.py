"""The simulated Job controller and garbage collector against the embedded API server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.serving.server import Fault
from tests.conformance.definitions import DEFINITIONS, definition, widget
from tests.embedded_cluster.simulated import JOBS, PODS, Simulated, simulated

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def job(name: str, run_seconds: str | None = None, exit_code: str = "0", **spec: Any) -> Any:
    annotations = {"kubeshare.sim/exit-code": exit_code}
    if run_seconds is not None:
        annotations["kubeshare.sim/run-seconds"] = run_seconds
    container = {"name": "main", "image": "busybox"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def conditions(found: UnstructuredObject) -> list[str]:
    return [one["type"] for one in found.status.get("conditions") or []]


async def finished(world: Simulated, name: str) -> UnstructuredObject:
    """Bind every pod as it appears, until the job is over."""
    async with asyncio.TaskGroup() as group:
        binding = group.create_task(world.bind_everything("a"))
        jobs = await world.expect_eventually(
            JOBS, lambda found: bool({"Complete", "Failed"} & {*conditions(found[name])})
        )
        binding.cancel()
    return jobs[name]


async def events(world: Simulated) -> list[str]:
    found = await world.client.list_all("/api/v1/namespaces/default/events")
    return sorted(event["reason"] for event in found if event["involvedObject"]["kind"] == "Job")


async def test_a_job_runs_to_completion(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        await world.client.create(JOBS, job("j", "0", parallelism=2, completions=3))
        done = await finished(world, "j")
        pods = await world.client.list_all(PODS)
        await world.expect_eventually(
            "/api/v1/namespaces/default/events",
            lambda found: sum(name.startswith("j.") for name in found) == 4,
        )
        reasons = await events(world)
    assert conditions(done) == ["SuccessCriteriaMet", "Complete"]
    assert (done.status["succeeded"], done.status.get("active", 0)) == (3, 0)
    assert len(pods) == 3
    assert all(pod["metadata"]["name"].startswith("j-") for pod in pods)
    labels = pods[0]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "j"
    assert reasons == ["Completed", *["SuccessfulCreate"] * 3]


async def test_a_failing_job_gives_up(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        await world.client.create(JOBS, job("j", "0", "1", backoffLimit=1))
        done = await finished(world, "j")
    assert conditions(done) == ["FailureTarget", "Failed"]
    assert done.status["failed"] == 2


async def test_an_indexed_job_gives_each_pod_its_index(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        spec: dict[str, Any] = {"parallelism": 3, "completions": 3, "completionMode": "Indexed"}
        await world.client.create(JOBS, job("j", "0", **spec))
        done = await finished(world, "j")
        pods = await world.client.list_all(PODS)
    assert done.status["completedIndexes"] == "0-2"
    environments = sorted(pod["metadata"]["annotations"]["kubeshare.sim/env"] for pod in pods)
    assert environments == [f'{{"main":{{"JOB_COMPLETION_INDEX":"{n}"}}}}' for n in range(3)]


async def test_pods_go_with_their_job(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        await world.client.create(JOBS, job("j", parallelism=2, completions=2))
        pods = await world.expect_eventually(PODS, lambda found: len(found) == 2)
        await world.bind(next(iter(pods)), "a")
        await world.client.request("DELETE", f"{JOBS}/j", query={"propagationPolicy": "Background"})
        await world.expect_eventually(PODS, lambda found: not found)


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_a_job_may_wait_for_its_pods_or_leave_them(tmp_path: Path, policy: str) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        await world.client.create(JOBS, job("j", parallelism=2, completions=2))
        await world.expect_eventually(PODS, lambda found: len(found) == 2)
        await world.client.request("DELETE", f"{JOBS}/j", query={"propagationPolicy": policy})
        await world.expect_eventually(JOBS, lambda found: not found)
        pods = await world.client.list_all(PODS)
    assert len(pods) == (2 if policy == "Orphan" else 0)
    assert all(not pod["metadata"].get("ownerReferences") for pod in pods)


async def test_a_pod_whose_owner_never_was_is_collected(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "no-such-uid"}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        }
        await world.client.create(PODS, body)
        await world.expect_eventually(PODS, lambda found: not found)


async def test_a_job_that_is_collected_takes_its_pods_along(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        await world.client.create(JOBS, job("j", parallelism=2, completions=2))
        await world.expect_eventually(PODS, lambda found: len(found) == 2)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "k", "uid": "no-such-uid"}
        body = {"metadata": {"ownerReferences": [owner]}}
        await world.client.merge_patch(f"{JOBS}/j", body)
        await world.expect_eventually(JOBS, lambda found: not found)
        await world.expect_eventually(PODS, lambda found: not found)


async def test_refused_pods_are_reported_and_tried_again(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        world.server.faults.inject(Fault(method="POST", path="/pods$", status=403))
        await world.client.create(JOBS, job("j"))
        await world.expect_eventually(PODS, lambda found: len(found) == 1)
        assert "FailedCreate" in await events(world)


async def define_widgets(world: Simulated) -> None:
    """Create a kind that may own and be owned, and wait until it is served."""
    await world.client.create(DEFINITIONS, definition(scope="Namespaced"))
    await world.expect_eventually(
        DEFINITIONS, lambda found: all("Established" in conditions(one) for one in found.values())
    )


async def owned_pod(world: Simulated, owner: Any) -> None:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    metadata = {"name": "p", "ownerReferences": [reference]}
    containers = [{"name": "a", "image": "x"}]
    await world.client.create(PODS, {"metadata": metadata, "spec": {"containers": containers}})


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_pods_go_with_the_custom_object_that_owns_them(tmp_path: Path, policy: str) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        await define_widgets(world)
        await owned_pod(world, await world.client.create(WIDGETS, widget()))
        options = {"propagationPolicy": policy}
        await world.client.request("DELETE", f"{WIDGETS}/w", body=options)
        await world.expect_eventually(PODS, lambda found: not found)
        await world.expect_eventually(WIDGETS, lambda found: not found)


async def test_a_pod_whose_custom_owner_never_was_is_collected(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        await define_widgets(world)
        metadata = {"name": "never", "uid": "11111111-2222-4333-8444-555555555555"}
        await owned_pod(world, widget(metadata=metadata))
        await world.expect_eventually(PODS, lambda found: not found)


async def test_pods_go_with_the_definition_of_what_owns_them(tmp_path: Path) -> None:
    async with simulated(tmp_path, controllers=True) as world:
        await define_widgets(world)
        await owned_pod(world, await world.client.create(WIDGETS, widget()))
        await world.client.delete(f"{DEFINITIONS}/widgets.example.com")
        await world.expect_eventually(PODS, lambda found: not found)
        await define_widgets(world)
        assert await world.client.list_all(WIDGETS) == []
