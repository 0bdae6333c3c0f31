"""Claims and their volumes: kube-controller-manager's binding, and a storage driver's answers."""

import asyncio
from contextlib import aclosing
from typing import Any

from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.embedded_cluster.controllers.provisioning import PROVISIONER
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.manifests.watch import Codec
from tests.embedded_cluster.simulated import PODS, Simulated
from tests.patience import PATIENCE_S

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
EVENTS = "/api/v1/namespaces/default/events"
DEVICE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
SELECTED = "volume.kubernetes.io/selected-node"
UNANSWERED = "never.kubeshare.sim"

Json = dict[str, Any]


def claim(name: str = "c", **spec: Any) -> Json:
    size = {"requests": {"storage": "2Gi"}}
    full = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "own", **spec}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": full,
    }


def volume(name: str, size: str = "5Gi", **spec: Any) -> Json:
    full = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "storageClassName": "own",
        **spec,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": full,
    }


def storage_class(name: str, mode: str = "Immediate", **fields: Any) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": PROVISIONER,
        "volumeBindingMode": mode,
        **fields,
    }


def pod(name: str, **spec: Any) -> Json:
    containers = [{"name": "a", "image": "x"}]
    grace = {"terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **grace, **spec},
    }


async def expect_phase(world: Simulated, path: str, name: str, wanted: str) -> UnstructuredObject:
    found = await world.expect_eventually(
        path, lambda all_: name in all_ and all_[name].status.get("phase") == wanted
    )
    return found[name]


async def expect_gone(world: Simulated, path: str, name: str) -> None:
    await world.expect_eventually(path, lambda found: name not in found)


async def test_a_claim_is_bound_to_the_smallest_volume_that_fits(world: Simulated) -> None:
    # The controller takes volumes in turn and may not have noted the last one's own phase yet.
    for name, size in (("small", "1Gi"), ("right", "3Gi"), ("large", "9Gi")):
        await world.client.create(VOLUMES, volume(name, size))
        await expect_phase(world, VOLUMES, name, "Available")
    await world.client.create(VOLUMES, volume("shared", "2Gi", accessModes=["ReadWriteMany"]))
    await world.client.create(CLAIMS, claim())
    bound = await expect_phase(world, CLAIMS, "c", "Bound")
    assert bound.spec["volumeName"] == "right"
    assert bound.status["capacity"] == {"storage": "3Gi"}
    assert bound.metadata.annotations == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    found = await expect_phase(world, VOLUMES, "right", "Bound")
    assert found.spec["claimRef"]["uid"] == bound.uid
    await world.client.delete(f"{CLAIMS}/c")
    await expect_phase(world, VOLUMES, "right", "Released")


async def test_each_of_many_claims_gets_a_volume_of_its_own(world: Simulated) -> None:
    names = [str(n) for n in range(8)]
    for name in names:
        await world.client.create(VOLUMES, volume(f"v{name}"))
    await world.expect_eventually(
        VOLUMES,
        lambda found: (
            [one.status.get("phase") for one in found.values()] == ["Available"] * len(names)
        ),
    )
    for name in names:
        await world.client.create(CLAIMS, claim(f"c{name}"))
    bound = await world.expect_eventually(
        CLAIMS,
        lambda found: (
            len(found) == len(names)
            and all(one.status.get("phase") == "Bound" for one in found.values())
        ),
    )
    assert len({one.spec["volumeName"] for one in bound.values()}) == len(names)


async def test_what_people_bound_is_completed(world: Simulated) -> None:
    reference = {"namespace": "default", "name": "by-volume"}
    await world.client.create(VOLUMES, volume("kept", claimRef=reference))
    await world.client.create(VOLUMES, volume("named"))
    await world.client.create(CLAIMS, claim("by-volume"))
    await world.client.create(CLAIMS, claim("by-claim", volumeName="named"))
    assert (await expect_phase(world, CLAIMS, "by-volume", "Bound")).spec["volumeName"] == "kept"
    bound = await expect_phase(world, CLAIMS, "by-claim", "Bound")
    assert (await expect_phase(world, VOLUMES, "named", "Bound")).spec["claimRef"][
        "uid"
    ] == bound.uid


async def test_a_claim_whose_volume_is_gone_is_lost(world: Simulated) -> None:
    await world.client.create(VOLUMES, volume("v"))
    await world.client.create(CLAIMS, claim())
    await expect_phase(world, CLAIMS, "c", "Bound")
    await world.client.delete(f"{VOLUMES}/v")
    await world.client.merge_patch(f"{VOLUMES}/v", {"metadata": {"finalizers": None}})
    await expect_phase(world, CLAIMS, "c", "Lost")


async def test_a_volume_is_kept_while_it_is_bound_and_a_claim_while_it_is_mounted(
    world: Simulated,
) -> None:
    await world.client.create(VOLUMES, volume("v"))
    await world.client.create(CLAIMS, claim())
    await expect_phase(world, CLAIMS, "c", "Bound")
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    await world.client.create(PODS, pod("p", volumes=mounted))
    await world.bind("p", "a")
    await world.expect_phase("p", "Running")
    await world.client.delete(f"{VOLUMES}/v")
    await world.client.delete(f"{CLAIMS}/c")
    going = await world.expect_eventually(
        CLAIMS, lambda found: found["c"].metadata.deletionTimestamp is not None
    )
    assert going["c"].metadata.finalizers == ["kubernetes.io/pvc-protection"]
    await world.client.delete(f"{PODS}/p")
    await expect_gone(world, CLAIMS, "c")
    await expect_gone(world, VOLUMES, "v")


async def test_a_pod_starts_when_its_claim_is_bound(world: Simulated) -> None:
    await world.client.create(CLAIMS, claim())
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    await world.client.create(PODS, pod("p", volumes=mounted))
    await world.bind("p", "a")
    pods = await world.expect_eventually(
        PODS, lambda found: bool(found["p"].status.get("containerStatuses"))
    )
    [status] = pods["p"].status["containerStatuses"]
    assert status["state"] == {"waiting": {"reason": "ContainerCreating"}}
    await world.client.create(VOLUMES, volume("v"))
    await world.expect_phase("p", "Running")


async def test_an_immediate_claim_is_provisioned_and_its_volume_goes_with_it(
    world: Simulated,
) -> None:
    await world.client.create(CLASSES, storage_class("own"))
    await world.client.create(CLAIMS, claim())
    bound = await expect_phase(world, CLAIMS, "c", "Bound")
    made = await expect_phase(world, VOLUMES, f"pvc-{bound.uid}", "Bound")
    assert made.spec["csi"]["driver"] == PROVISIONER
    assert "nodeAffinity" not in made.spec
    assert bound.metadata.annotations is not None
    assert bound.metadata.annotations["volume.kubernetes.io/storage-provisioner"] == PROVISIONER
    await world.client.delete(f"{CLAIMS}/c")
    await expect_gone(world, VOLUMES, made.metadata.name)


async def test_a_claim_that_waits_for_its_consumer_gets_a_volume_on_the_selected_node(
    world: Simulated,
) -> None:
    await world.client.create(CLASSES, storage_class("own", "WaitForFirstConsumer"))
    await world.client.create(CLAIMS, claim())
    await expect_event(world, "WaitForFirstConsumer", "waiting for first consumer to be created")
    await world.client.merge_patch(f"{CLAIMS}/c", {"metadata": {"annotations": {SELECTED: "b"}}})
    bound = await expect_phase(world, CLAIMS, "c", "Bound")
    made = await world.client.get(f"{VOLUMES}/{bound.spec['volumeName']}")
    [term] = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}
    assert term["matchExpressions"] == [here]


async def test_a_delayed_claim_takes_the_volume_that_the_scheduler_reserved(
    world: Simulated,
) -> None:
    unmade = storage_class(
        "own", "WaitForFirstConsumer", provisioner="kubernetes.io/no-provisioner"
    )
    await world.client.create(CLASSES, unmade)
    await world.client.create(VOLUMES, volume("v"))
    await expect_phase(world, VOLUMES, "v", "Available")
    made = await world.client.create(CLAIMS, claim())
    await expect_event(world, "WaitForFirstConsumer", "waiting for first consumer to be created")
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c"}
    reserved = {"spec": {"claimRef": {**reference, "uid": made["metadata"]["uid"]}}}
    await world.client.merge_patch(f"{VOLUMES}/v", reserved)
    assert (await expect_phase(world, CLAIMS, "c", "Bound")).spec["volumeName"] == "v"


async def test_a_node_without_room_is_given_back(world: Simulated) -> None:
    full = storage_class("own", "WaitForFirstConsumer", parameters={"refusedNodes": "x,b"})
    await world.client.create(CLASSES, full)
    await world.client.create(CLAIMS, claim())
    for node in ("b", "a"):
        marks = {"annotations": {SELECTED: node}}
        await world.client.merge_patch(f"{CLAIMS}/c", {"metadata": marks})
        if node == "b":
            await world.expect_eventually(
                CLAIMS, lambda found: SELECTED not in (found["c"].metadata.annotations or {})
            )
    await expect_phase(world, CLAIMS, "c", "Bound")


async def test_a_class_of_an_absent_driver_is_never_answered(world: Simulated) -> None:
    await world.client.create(CLASSES, storage_class("own", provisioner=UNANSWERED))
    await world.client.create(CLAIMS, claim())
    await expect_event(world, "ExternalProvisioning", f"external provisioner '{UNANSWERED}'")
    assert (await world.client.get(f"{CLAIMS}/c"))["status"]["phase"] == "Pending"
    assert await world.client.list_all(VOLUMES) == []


async def expect_event(world: Simulated, reason: str, text: str) -> None:
    """Wait for an event of this reason, with this text in its message."""
    codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
    async with (
        asyncio.timeout(PATIENCE_S),
        aclosing(follow(world.client, EVENTS, codec)) as batches,
    ):
        async for _ in batches:
            told = await world.client.list_all(EVENTS)
            if any(one["reason"] == reason and text in one["message"] for one in told):
                return


async def test_an_ephemeral_volume_is_a_claim_of_its_pod(world: Simulated) -> None:
    await world.client.create(CLASSES, storage_class("own"))
    template = {"metadata": {"labels": {"app": "x"}}, "spec": claim()["spec"]}
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    made = await world.client.create(PODS, pod("p", volumes=scratch))
    found = await expect_phase(world, CLAIMS, "p-scratch", "Bound")
    assert found.metadata.labels == {"app": "x"}
    [owner] = found.metadata.ownerReferences or []
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", made["metadata"]["uid"], True)
    await world.client.delete(f"{PODS}/p")
    await expect_gone(world, CLAIMS, "p-scratch")
    await world.expect_eventually(VOLUMES, lambda left: not left)


def template(name: str) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"devices": {"requests": [request]}},
        },
    }


async def test_a_claim_is_made_from_its_template_and_named_in_the_pods_status(
    world: Simulated,
) -> None:
    claims = [{"name": "g", "resourceClaimTemplateName": "t"}]
    await world.client.create(PODS, pod("p", resourceClaims=claims))
    # The template comes later: the pod waits for it.
    await world.client.create(TEMPLATES, template("t"))
    pods = await world.expect_eventually(
        PODS, lambda found: bool(found["p"].status.get("resourceClaimStatuses"))
    )
    [status] = pods["p"].status["resourceClaimStatuses"]
    made = await world.client.get(f"{DEVICE_CLAIMS}/{status['resourceClaimName']}")
    assert status["name"] == "g"
    assert status["resourceClaimName"].startswith("p-g-")
    assert made["metadata"]["labels"] == {"app": "x"}
    annotations = {"resource.kubernetes.io/pod-claim-name": "g"}
    assert made["metadata"]["annotations"] == annotations
    await world.client.delete(f"{PODS}/p")
    await world.expect_eventually(DEVICE_CLAIMS, lambda found: not found)


async def test_a_claim_of_people_is_released_with_its_last_pod(world: Simulated) -> None:
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "shared",
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": template("t")["spec"]["spec"],
    }
    await world.client.create(DEVICE_CLAIMS, body)
    consumers = []
    for name in ("p", "q"):
        claims = [{"name": "g", "resourceClaimName": "shared"}]
        made = await world.client.create(PODS, pod(name, resourceClaims=claims))
        consumers.append({"resource": "pods", "name": name, "uid": made["metadata"]["uid"]})
    result = {"request": "gpu", "driver": "d.example", "pool": "n1", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
    await world.client.merge_patch(f"{DEVICE_CLAIMS}/shared/status", {"status": status})
    await world.client.delete(f"{PODS}/p")
    found = await world.expect_eventually(
        DEVICE_CLAIMS, lambda all_: len(all_["shared"].status.get("reservedFor") or []) == 1
    )
    assert "allocation" in found["shared"].status
    await world.client.delete(f"{PODS}/q")
    found = await world.expect_eventually(
        DEVICE_CLAIMS, lambda all_: not all_["shared"].metadata.finalizers
    )
    assert found["shared"].status == {}
