"""What controllers of Deployments and ReplicaSets do, here and in a real cluster."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    UnstructuredObject,
    is_finished,
    is_ready,
)
from kubeshare_py.manifests.watch import Codec
from tests.embedded_cluster.simulated import PODS, Simulated, pods_over_time
from tests.patience import PATIENCE_S

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
EVENTS = "/api/v1/namespaces/default/events"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LABELS = {"app": "w"}
HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


def template(node: str | None = "b", image: str = "x:1", **spec: Any) -> dict[str, Any]:
    """Pods that nobody schedules: on a node from the start, or waiting for ever."""
    if node is not None:
        spec["nodeName"] = node
    containers = [{"name": "a", "image": image}]
    return {"metadata": {"labels": LABELS}, "spec": {"containers": containers, **spec}}


def workload(name: str = "w", **spec: Any) -> dict[str, Any]:
    given = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    return {"metadata": {"name": name}, "spec": given}


def rolled_out(deployment: UnstructuredObject) -> bool:
    """What `kubectl rollout status` waits for."""
    status, wanted = deployment.status, deployment.spec["replicas"]
    return bool(
        status.get("observedGeneration", 0) >= deployment.metadata.generation
        and status.get("replicas", 0) == status.get("updatedReplicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


async def expect_rolled_out(world: Simulated, name: str = "w") -> UnstructuredObject:
    found = await world.expect_eventually(
        DEPLOYMENTS, lambda all_: name in all_ and rolled_out(all_[name])
    )
    return found[name]


async def expect_said(
    world: Simulated, path: str, name: str, wanted: tuple[str, str, str]
) -> dict[str, Any]:
    """Wait for a condition: its type, status and reason."""

    def said(found: dict[str, UnstructuredObject]) -> bool:
        conditions = found[name].status.get("conditions") or [] if name in found else []
        return any((c["type"], c["status"], c["reason"]) == wanted for c in conditions)

    one = (await world.expect_eventually(path, said))[name]
    return next(c for c in one.status["conditions"] if c["type"] == wanted[0])


async def expect_listed(
    world: Simulated, path: str, wanted: Callable[[list[dict[str, Any]]], bool]
) -> None:
    """Wait until all the objects together, whole, look like this."""
    codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
    async with asyncio.timeout(PATIENCE_S), aclosing(follow(world.client, path, codec)) as batches:
        async for _ in batches:
            if wanted(await world.client.list_all(path)):
                return


async def sets_by_revision(world: Simulated) -> dict[str, Any]:
    listed = await world.client.list_all(SETS)
    return {one["metadata"]["annotations"][REVISION]: one for one in listed}


def image_of(pod: UnstructuredObject) -> str:
    return str(pod.spec["containers"][0]["image"])


def is_going(pod: UnstructuredObject) -> bool:
    return pod.metadata.deletionTimestamp is not None


async def test_a_deployment_makes_a_replica_set_and_that_makes_pods(world: Simulated) -> None:
    body = workload(replicas=2)
    body["metadata"]["annotations"] = {"who": "me"}
    await world.client.create(DEPLOYMENTS, body)
    deployment = await expect_rolled_out(world)
    (made,) = await world.client.list_all(SETS)
    mark = made["metadata"]["labels"][HASH]
    assert made["metadata"]["name"] == f"w-{mark}"
    assert made["metadata"]["annotations"] == {
        "who": "me",
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
    }
    labels = {**LABELS, HASH: mark}
    assert made["metadata"]["labels"] == labels
    assert made["spec"]["selector"] == {"matchLabels": labels}
    assert made["spec"]["template"]["metadata"]["labels"] == labels
    assert made["status"] == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
        "observedGeneration": made["metadata"]["generation"],
    }
    owned(made, "Deployment", "w", deployment.uid)
    for pod in await world.client.list_all(PODS):
        assert pod["metadata"]["generateName"] == f"w-{mark}-"
        assert pod["metadata"]["labels"] == labels
        owned(pod, "ReplicaSet", made["metadata"]["name"], made["metadata"]["uid"])


def owned(found: dict[str, Any], kind: str, name: str, uid: str) -> None:
    (owner,) = found["metadata"]["ownerReferences"]
    known = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid}
    assert owner == {**known, "controller": True, "blockOwnerDeletion": True}


async def test_the_status_says_that_it_is_done(world: Simulated) -> None:
    await world.client.create(DEPLOYMENTS, workload(replicas=2))
    done = ("Progressing", "True", "NewReplicaSetAvailable")
    said = await expect_said(world, DEPLOYMENTS, "w", done)
    (made,) = await world.client.list_all(SETS)
    name = made["metadata"]["name"]
    assert said["message"] == f'ReplicaSet "{name}" has successfully progressed.'
    found = await world.client.get(f"{DEPLOYMENTS}/w")
    assert found["metadata"]["annotations"] == {REVISION: "1"}
    assert found["metadata"]["generation"] == 1
    conditions = found["status"].pop("conditions")
    assert found["status"] == {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
    }
    assert [one["type"] for one in conditions] == ["Available", "Progressing"]
    assert (conditions[0]["reason"], conditions[0]["message"]) == (
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    )
    told = {("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 2")} | {
        ("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        for pod in await world.client.list_all(PODS)
    }

    await expect_listed(
        world, EVENTS, lambda found: told <= {(one["reason"], one["message"]) for one in found}
    )


async def test_deleted_and_failed_pods_are_replaced(world: Simulated) -> None:
    await world.client.create(SETS, workload("r", replicas=2, template=template(None)))
    first = await world.expect_eventually(PODS, lambda found: len(found) == 2)
    gone, failed = first
    await world.client.delete(f"{PODS}/{gone}")
    await world.client.merge_patch(f"{PODS}/{failed}/status", {"status": {"phase": "Failed"}})

    def replaced(found: dict[str, UnstructuredObject]) -> bool:
        return len(found) == 3 and failed in found and gone not in found

    await world.expect_eventually(PODS, replaced)
    sets = await world.expect_eventually(SETS, lambda found: found["r"].status["replicas"] == 2)
    assert sets["r"].status["observedGeneration"] == 1


async def test_pods_that_run_are_given_up_last(world: Simulated) -> None:
    await world.client.create(SETS, workload("r", replicas=3, template=template(None)))
    pods = await world.expect_eventually(PODS, lambda found: len(found) == 3)
    kept = sorted(pods)[1]
    await world.bind(kept, "b")
    await world.expect_phase(kept, "Running")
    await world.expect_eventually(SETS, lambda found: found["r"].status.get("readyReplicas") == 1)
    await world.client.merge_patch(f"{SETS}/r/scale", {"spec": {"replicas": 1}})
    left = await world.expect_eventually(PODS, lambda found: len(found) == 1)
    assert set(left) == {kept}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "least"),
    [("25%", "25%", 5, 3), (0, 1, 4, 3), ("100%", 0, 8, 4), (0, "50%", 4, 2)],
)
async def test_a_rolling_update_keeps_within_its_limits(
    world: Simulated, surge: Any, unavailable: Any, most: int, least: int
) -> None:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    await world.client.create(DEPLOYMENTS, workload(replicas=4, strategy=strategy))
    await expect_rolled_out(world)
    change = {"spec": {"template": template(image="x:2")}}
    seen: list[tuple[int, int]] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(pods_over_time(world.client)) as looks:
        async for pods in looks:
            if not seen:
                await world.client.merge_patch(f"{DEPLOYMENTS}/w", change)
            staying = [pod for pod in pods.values() if not is_going(pod)]
            seen.append((len(staying), sum(is_ready(pod) for pod in staying)))
            if {image_of(pod) for pod in staying} == {"x:2"} and seen[-1] == (4, 4):
                break
    assert max(total for total, _ in seen) <= most
    assert min(ready for _, ready in seen) >= least
    await expect_rolled_out(world)


async def test_recreation_ends_the_old_pods_first(world: Simulated) -> None:
    await world.client.create(DEPLOYMENTS, workload(replicas=2, strategy={"type": "Recreate"}))
    await expect_rolled_out(world)
    change = {"spec": {"template": template(image="x:2")}}
    await world.client.merge_patch(f"{DEPLOYMENTS}/w", change)
    async with asyncio.timeout(PATIENCE_S), aclosing(pods_over_time(world.client)) as looks:
        async for pods in looks:
            images = {image_of(pod) for pod in pods.values() if not is_finished(pod)}
            assert len(images) <= 1
            if images == {"x:2"} and sum(map(is_ready, pods.values())) == 2:
                break


async def test_going_back_uses_the_old_replica_set_with_a_new_number(world: Simulated) -> None:
    await world.client.create(DEPLOYMENTS, workload(replicas=1))
    await expect_rolled_out(world)
    for image in ("x:2", "x:1"):
        change = {"spec": {"template": template(image=image)}}
        await world.client.merge_patch(f"{DEPLOYMENTS}/w", change)
        deployment = await expect_rolled_out(world)
    assert (deployment.metadata.annotations or {})[REVISION] == "3"
    sets = await sets_by_revision(world)
    assert sorted(sets) == ["2", "3"]
    assert sets["3"]["metadata"]["annotations"][f"{REVISION}-history"] == "1"
    assert sets["3"]["spec"]["template"]["spec"]["containers"][0]["image"] == "x:1"


async def test_old_revisions_are_kept_up_to_the_limit(world: Simulated) -> None:
    await world.client.create(DEPLOYMENTS, workload(replicas=1, revisionHistoryLimit=1))
    await expect_rolled_out(world)
    for image in ("x:2", "x:3", "x:4"):
        change = {"spec": {"template": template(image=image)}}
        await world.client.merge_patch(f"{DEPLOYMENTS}/w", change)
        await expect_rolled_out(world)
    await world.expect_eventually(SETS, lambda found: len(found) == 2)
    assert sorted(await sets_by_revision(world)) == ["3", "4"]


@pytest.mark.slow
async def test_a_paused_deployment_scales_but_does_not_roll_out(world: Simulated) -> None:
    await world.client.create(DEPLOYMENTS, workload(replicas=1))
    await expect_rolled_out(world)
    change = {"paused": True, "replicas": 2, "template": template(image="x:2")}
    await world.client.merge_patch(f"{DEPLOYMENTS}/w", {"spec": change})
    said = ("Progressing", "Unknown", "DeploymentPaused")
    assert (await expect_said(world, DEPLOYMENTS, "w", said))["message"] == "Deployment is paused"
    await world.expect_eventually(PODS, lambda found: len(found) == 2)
    assert len(await world.client.list_all(SETS)) == 1
    await world.client.merge_patch(f"{DEPLOYMENTS}/w", {"spec": {"paused": False}})
    await expect_rolled_out(world)
    assert sorted(await sets_by_revision(world)) == ["1", "2"]


async def test_scaling_during_a_rollout_keeps_its_proportions(world: Simulated) -> None:
    limits = {"maxSurge": 3, "maxUnavailable": 2}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    await world.client.create(DEPLOYMENTS, workload(replicas=10, strategy=strategy))
    await expect_rolled_out(world)
    # The new pods never run: nobody schedules them.
    change = {"spec": {"template": {**template(None, "x:2", nodeName=None)}}}
    await world.client.merge_patch(f"{DEPLOYMENTS}/w", change)

    def sizes(found: dict[str, UnstructuredObject]) -> list[int]:
        return sorted(one.spec["replicas"] for one in found.values())

    await world.expect_eventually(SETS, lambda found: sizes(found) == [5, 8])
    await world.client.merge_patch(f"{DEPLOYMENTS}/w/scale", {"spec": {"replicas": 15}})
    await world.expect_eventually(SETS, lambda found: sizes(found) == [7, 11])


async def test_pods_come_and_go_with_their_labels(world: Simulated) -> None:
    spare = {"metadata": {"name": "spare", "labels": LABELS}, "spec": template(None)["spec"]}
    await world.client.create(PODS, spare)
    await world.client.create(SETS, workload("r", replicas=2, template=template(None)))
    pods = await world.expect_eventually(PODS, lambda found: len(found) == 2)
    assert "spare" in pods
    adopted = await world.expect_eventually(
        PODS, lambda found: bool(found["spare"].metadata.ownerReferences)
    )
    assert [owner.kind for owner in adopted["spare"].metadata.ownerReferences or []] == [
        "ReplicaSet"
    ]
    await world.client.merge_patch(f"{PODS}/spare", {"metadata": {"labels": {"app": "other"}}})
    pods = await world.expect_eventually(
        PODS, lambda found: len(found) == 3 and not found["spare"].metadata.ownerReferences
    )


async def test_orphans_find_a_new_deployment(world: Simulated) -> None:
    await world.client.create(DEPLOYMENTS, workload(replicas=1))
    await expect_rolled_out(world)
    (pod,) = await world.client.list_all(PODS)
    orphan = {"propagationPolicy": "Orphan"}
    await world.client.request("DELETE", f"{DEPLOYMENTS}/w", query=orphan)
    sets = await world.expect_eventually(
        SETS, lambda found: not any(one.metadata.ownerReferences for one in found.values())
    )
    assert len(sets) == 1
    await world.expect_eventually(DEPLOYMENTS, lambda found: not found)
    await world.client.create(DEPLOYMENTS, workload(replicas=1))
    await expect_rolled_out(world)
    (after,) = await world.client.list_all(PODS)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert len(await world.client.list_all(SETS)) == 1


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_everything_goes_with_the_deployment(world: Simulated, policy: str) -> None:
    await world.client.create(DEPLOYMENTS, workload(replicas=2))
    await expect_rolled_out(world)
    await world.client.request("DELETE", f"{DEPLOYMENTS}/w", query={"propagationPolicy": policy})
    for path in (DEPLOYMENTS, SETS, PODS):
        await world.expect_eventually(path, lambda found: not found)


async def test_pods_that_are_refused_are_told_about_until_they_are_not(world: Simulated) -> None:
    important = template(None, priorityClassName="later")
    await world.client.create(DEPLOYMENTS, workload(replicas=2, template=important))
    failure = ("ReplicaFailure", "True", "FailedCreate")
    said = await expect_said(world, DEPLOYMENTS, "w", failure)
    assert said["message"].endswith("no PriorityClass with name later was found")
    (made,) = await world.client.list_all(SETS)
    await expect_said(world, SETS, made["metadata"]["name"], failure)
    await world.client.create(PRIORITIES, {"metadata": {"name": "later"}, "value": 5})
    await world.expect_eventually(PODS, lambda found: len(found) == 2)
    await world.expect_eventually(DEPLOYMENTS, without("ReplicaFailure"))


def without(kind: str) -> Callable[[dict[str, UnstructuredObject]], bool]:
    def check(found: dict[str, UnstructuredObject]) -> bool:
        conditions = found["w"].status.get("conditions") or []
        return all(one["type"] != kind for one in conditions)

    return check


async def test_a_rollout_that_gets_nowhere_says_so(world: Simulated) -> None:
    spec = workload(replicas=1, progressDeadlineSeconds=1, template=template(None))
    await world.client.create(DEPLOYMENTS, spec)
    late = ("Progressing", "False", "ProgressDeadlineExceeded")
    said = await expect_said(world, DEPLOYMENTS, "w", late)
    assert said["message"].endswith("has timed out progressing.")


async def test_pods_are_available_when_they_have_been_ready_for_long_enough(
    world: Simulated,
) -> None:
    await world.client.create(DEPLOYMENTS, workload(replicas=1, minReadySeconds=2))

    def waits(found: dict[str, UnstructuredObject]) -> bool:
        status = found["w"].status if "w" in found else {}
        return status.get("readyReplicas") == 1 and "availableReplicas" not in status

    await world.expect_eventually(DEPLOYMENTS, waits)
    await expect_rolled_out(world)
