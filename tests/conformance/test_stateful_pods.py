"""StatefulSets whose pods have claims: made in order, scaled, replaced; the claims stay."""

import asyncio
from typing import Any

from kubeshare_py.embedded_cluster.controllers.provisioning import PROVISIONER
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject, is_ready
from tests.embedded_cluster.simulated import PODS, Simulated

SETS = "/apis/apps/v1/namespaces/default/statefulsets"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"

Json = dict[str, Any]


def stateful_set(replicas: int = 2, **spec: Any) -> Json:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "own",
        },
    }
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "a", "image": "x:1", "volumeMounts": mounts}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": pod},
            "volumeClaimTemplates": [claim],
            **spec,
        },
    }


async def make(world: Simulated, body: Json) -> None:
    await world.client.create(
        CLASSES,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "own"},
            "provisioner": PROVISIONER,
        },
    )
    await world.client.create(SETS, body)


async def expect_ready(world: Simulated, *names: str) -> dict[str, UnstructuredObject]:
    """Wait until just these pods are there and ready."""
    return await world.expect_eventually(
        PODS,
        lambda found: sorted(found) == sorted(names) and all(map(is_ready, found.values())),
    )


async def test_pods_are_made_in_order_with_claims_that_outlive_them(world: Simulated) -> None:
    async with asyncio.TaskGroup() as group:
        binding = group.create_task(world.bind_everything("a"))
        await make(world, stateful_set())
        pods = await expect_ready(world, "db-0", "db-1")
        assert pods["db-0"].metadata.labels is not None
        assert pods["db-0"].metadata.labels["apps.kubernetes.io/pod-index"] == "0"
        volumes = [one for one in pods["db-1"].spec["volumes"] if one["name"] == "data"]
        claimed = {"claimName": "data-db-1"}
        assert volumes == [{"name": "data", "persistentVolumeClaim": claimed}]
        first, second = (pods[name].metadata.creationTimestamp for name in ("db-0", "db-1"))
        assert (first or "") <= (second or "")
        found = await world.expect_eventually(
            SETS, lambda sets: sets["db"].status.get("readyReplicas") == 2
        )
        assert found["db"].status["currentRevision"] == found["db"].status["updateRevision"]
        await world.client.merge_patch(f"{SETS}/db", {"spec": {"replicas": 1}})
        await expect_ready(world, "db-0")
        claims = await world.client.list_all(CLAIMS)
        assert sorted(one["metadata"]["name"] for one in claims) == ["data-db-0", "data-db-1"]
        assert {one["metadata"]["labels"]["app"] for one in claims} == {"db"}
        binding.cancel()


async def test_a_pod_waits_for_the_one_before_it(world: Simulated) -> None:
    await make(world, stateful_set())
    await world.expect_eventually(PODS, lambda found: "db-0" in found)
    await world.bind("db-0", "a")
    await world.expect_eventually(PODS, lambda found: "db-1" in found)
    await world.expect_phase("db-0", "Running")


async def test_pods_of_a_parallel_set_come_and_go_at_once(world: Simulated) -> None:
    await make(world, stateful_set(3, podManagementPolicy="Parallel"))
    await world.expect_eventually(PODS, lambda found: len(found) == 3)
    await world.client.merge_patch(f"{SETS}/db", {"spec": {"replicas": 0}})
    left = await world.expect_eventually(PODS, lambda found: not found)
    assert left == {}


async def test_a_changed_template_replaces_the_pods_one_after_the_other(world: Simulated) -> None:
    async with asyncio.TaskGroup() as group:
        binding = group.create_task(world.bind_everything("a"))
        await make(world, stateful_set())
        await expect_ready(world, "db-0", "db-1")
        body = stateful_set()["spec"]["template"]
        body["spec"]["containers"][0]["image"] = "x:2"
        await world.client.merge_patch(f"{SETS}/db", {"spec": {"template": body}})
        pods = await world.expect_eventually(
            PODS,
            lambda found: (
                len(found) == 2
                and all(
                    is_ready(pod) and pod.spec["containers"][0]["image"] == "x:2"
                    for pod in found.values()
                )
            ),
        )
        assert sorted(pods) == ["db-0", "db-1"]
        await world.expect_eventually(
            SETS, lambda sets: sets["db"].status.get("updatedReplicas") == 2
        )
        binding.cancel()


async def test_the_pods_of_a_deleted_set_go_and_its_claims_stay(world: Simulated) -> None:
    await make(world, stateful_set(1))
    await world.expect_eventually(PODS, lambda found: "db-0" in found)
    await world.client.delete(f"{SETS}/db")
    await world.expect_eventually(PODS, lambda found: not found)
    [claim] = await world.client.list_all(CLAIMS)
    assert claim["metadata"]["name"] == "data-db-0"
