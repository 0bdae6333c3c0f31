"""Claims of workloads: of StatefulSets, of ephemeral volumes, beside full cards, never answered."""

from typing import Any

import pytest

from tests.stories.conftest import Json, Stage, card, gpu
from tests.stories.storage import (
    ABSENT,
    CLAIMS,
    VOLUMES,
    claim,
    claim_spec,
    expect_phase,
    local_volume,
    mounted,
    storage_class,
)

CLUSTER = """
nodes:
  - {name: "n{n}", count: 3, gpus: [{model: A100, count: 1, memory: 40GiB}]}
"""


async def place_of(stage: Stage, volume: str) -> str:
    """The node of a volume's node affinity."""
    found = await stage.client.get(f"{VOLUMES}/{volume}")
    [term] = found["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [node] = term["matchExpressions"][0]["values"]
    return str(node)


async def test_a_full_card_beside_its_volume_makes_a_pod_wait(stage: Stage) -> None:
    await stage.cluster.apply(local_volume("disk", "n3", "local"))
    await stage.cluster.apply(claim("data", "local"))
    await expect_phase(stage, CLAIMS, "data", "Bound")
    await stage.create("full", gpu("1"), nodeSelector={"kubernetes.io/hostname": "n3"})
    await stage.expect_running("full")
    await stage.create("p", gpu("0.5"), **mounted("data"))
    told = await stage.expect_waiting("p")
    assert "didn't match PersistentVolume's node affinity" in told
    await stage.expect_deleted("full")
    assert (await stage.place("p"))[0] == "n3"


async def test_the_pod_of_a_class_that_never_answers_waits_and_others_go_on(
    stage: Stage,
) -> None:
    await stage.cluster.apply(storage_class("never", provisioner=ABSENT))
    await stage.cluster.apply(claim("data", "never"))
    await stage.create("stuck", gpu("0.5"), **mounted("data"))
    await stage.expect_in(CLAIMS, "data", _is_selected)
    await stage.create("other", gpu("0.5"))
    await stage.expect_running("other")
    stuck = await stage.pod("stuck")
    assert (stuck["spec"].get("nodeName"), card(stuck)) == (None, "")


def _is_selected(found: Json) -> bool:
    return "volume.kubernetes.io/selected-node" in found["metadata"].get("annotations", {})


async def test_an_ephemeral_volume_comes_and_goes_with_its_pod(stage: Stage) -> None:
    await stage.cluster.apply(storage_class("fast"))
    template = {"volumeClaimTemplate": {"spec": claim_spec("fast")}}
    volumes = [{"name": "scratch", "ephemeral": template}]
    await stage.create("p", gpu("0.5"), volumes=volumes)
    await stage.expect_running("p")
    await expect_phase(stage, CLAIMS, "p-scratch", "Bound")
    await stage.expect_deleted("p")
    await stage.expect_all(lambda left: not left, CLAIMS)


@pytest.mark.slow
async def test_pods_of_a_stateful_set_keep_their_disks(stage: Stage) -> None:
    await stage.cluster.apply(storage_class("fast"))
    await stage.cluster.apply(stateful_set(2, "fast"))
    for name in ("db-0", "db-1"):
        await stage.expect_running(name)
    node, _ = await stage.place("db-0")
    before = await expect_phase(stage, CLAIMS, "data-db-0", "Bound")
    first = (await stage.pod("db-0"))["metadata"]["uid"]
    await stage.delete("db-0")
    await stage.expect_all(lambda pods: len(pods) == 2 and first not in uids(pods))
    assert (await stage.place("db-0"))[0] == node
    after = await stage.client.get(f"{CLAIMS}/data-db-0")
    assert after["spec"]["volumeName"] == before["spec"]["volumeName"]


def uids(objects: list[Json]) -> set[str]:
    return {one["metadata"]["uid"] for one in objects}


def stateful_set(replicas: int, class_name: str) -> Json:
    pod: dict[str, Any] = {
        "schedulerName": "kubeshare-scheduler",
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "x",
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
    }
    labels = {"app": "db", **gpu("0.5")}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "volumeClaimTemplates": [
                {"metadata": {"name": "data"}, "spec": claim_spec(class_name)}
            ],
        },
    }
