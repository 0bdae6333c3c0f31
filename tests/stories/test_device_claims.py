"""Pods with ResourceClaims for devices that are cards, which other pods share."""

import pytest

from tests.stories.conftest import Json, Stage, gpu

DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/default/resourceclaims"
TEMPLATES = f"{DEVICES}/namespaces/default/resourceclaimtemplates"
DRIVER = "gpu.nvidia.com"
PROTECTION = "resource.kubernetes.io/delete-protection"
A100 = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].productName.matches("A100")'
#: Two nodes of two cards.
CLUSTER = """
nodes:
  - {name: "n{n}", count: 2, gpus: [{model: NVIDIA-A100-SXM4-40GB, count: 2, memory: 40GiB}]}
"""


@pytest.fixture
def stage(empty_stage: Stage) -> Stage:
    """Without a scheduler: each story starts one when there are devices."""
    return empty_stage


async def publish(stage: Stage) -> None:
    """A class of devices, and a slice for each node whose devices are its cards."""
    selectors = [{"cel": {"expression": A100}}]
    await stage.client.create(
        f"{DEVICES}/deviceclasses",
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": selectors},
        },
    )
    for node in stage.nodes:
        devices = [
            {
                "name": f"gpu-{card.index}",
                "attributes": {
                    "uuid": {"string": card.uuid},
                    "productName": {"string": card.model},
                },
                "capacity": {"memory": {"value": str(card.memory_bytes)}},
            }
            for card in node.cards
        ]
        await stage.client.create(
            f"{DEVICES}/resourceslices",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"slice-{node.name}"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": node.name,
                    "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
                    "devices": devices,
                },
            },
        )


def devices(count: int = 1) -> Json:
    """What a claim asks for."""
    exactly = {"deviceClassName": DRIVER, "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


async def a_claim(stage: Stage, name: str, count: int = 1) -> None:
    """A claim that is not allocated."""
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    meta = {"name": name}
    await stage.client.create(CLAIMS, {**body, "metadata": meta, "spec": devices(count)})


async def a_template(stage: Stage, name: str) -> None:
    """A template of claims."""
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    spec = {"spec": devices()}
    await stage.client.create(TEMPLATES, {**body, "metadata": {"name": name}, "spec": spec})


async def a_claiming_pod(stage: Stage, name: str, **claim: str) -> None:
    """A pod that uses a claim, or a template of claims."""
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpus"}]}}
    await stage.create(name, resourceClaims=[{"name": "gpus", **claim}], containers=[container])


async def allocated(stage: Stage, name: str) -> list[tuple[str, str]]:
    """The pools and devices of a claim."""
    claim = await stage.client.get(f"{CLAIMS}/{name}")
    results = claim["status"]["allocation"]["devices"]["results"]
    return [(one["pool"], one["device"]) for one in results]


async def test_devices_are_allocated_reserved_and_protected_before_the_pod_is_bound(
    stage: Stage,
) -> None:
    await publish(stage)
    await a_claim(stage, "two", count=2)
    async with stage.scheduler():
        await a_claiming_pod(stage, "p", resourceClaimName="two")
        pod = await stage.expect_running("p")

    node = pod["spec"]["nodeName"]
    assert sorted(await allocated(stage, "two")) == [(node, "gpu-0"), (node, "gpu-1")]
    claim = await stage.client.get(f"{CLAIMS}/two")
    assert claim["metadata"]["finalizers"] == [PROTECTION]
    [consumer] = claim["status"]["reservedFor"]
    assert (consumer["resource"], consumer["uid"]) == ("pods", pod["metadata"]["uid"])
    [term] = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == [node]


@pytest.mark.slow
async def test_claims_of_templates_get_cards_that_no_pod_shares(stage: Stage) -> None:
    await publish(stage)
    await a_template(stage, "one")
    async with stage.scheduler():
        await stage.warm_up()
        await stage.create("shared", gpu("0.1"))
        await stage.expect_running("shared")
        for number in range(4):
            await a_claiming_pod(stage, f"p{number}", resourceClaimTemplateName="one")
        await stage.expect_bound(4)
        [waits] = [one for one in await stage.all_pods() if not one["spec"].get("nodeName")]
        await stage.expect_waiting(waits["metadata"]["name"], "cannot allocate all claims")

        claims = await stage.client.list_all(CLAIMS)
        held = [
            device
            for claim in claims
            if "allocation" in claim.get("status", {})
            for device in await allocated(stage, claim["metadata"]["name"])
        ]
        assert len(set(held)) == len(held) == 3

        await stage.delete("shared")
        await stage.expect_running(waits["metadata"]["name"])


async def test_a_card_that_another_scheduler_allocated_takes_no_pod_until_it_is_free(
    stage: Stage,
) -> None:
    await publish(stage)
    for node in stage.nodes:
        name = f"all-{node.name}"
        await a_claim(stage, name, count=2)
        holder = await stage.create(name, schedulerName="other")
        results = [
            {"request": "gpu", "driver": DRIVER, "pool": node.name, "device": f"gpu-{index}"}
            for index in range(2)
        ]
        consumer = {"resource": "pods", "name": name, "uid": holder["metadata"]["uid"]}
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
        await stage.client.merge_patch(f"{CLAIMS}/{name}/status", {"status": status})
    async with stage.scheduler():
        await stage.create("shared", gpu("0.1"))
        await stage.expect_waiting("shared", "GPU")

        released = {"status": {"allocation": None, "reservedFor": None}}
        path = f"{CLAIMS}/all-{stage.nodes[0].name}/status"
        await stage.client.merge_patch(path, released)
        pod = await stage.expect_running("shared")

    assert pod["spec"]["nodeName"] == stage.nodes[0].name


async def test_a_pod_waits_until_its_claim_and_its_class_are_there(stage: Stage) -> None:
    async with stage.scheduler():
        await a_claiming_pod(stage, "p", resourceClaimName="later")
        await stage.expect_waiting("p", 'resourceclaim.resource.k8s.io "later" not found')
        await a_claim(stage, "later")
        await publish(stage)
        await stage.expect_running("p")
