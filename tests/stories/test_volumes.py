"""Pods that mount volumes go where their volumes are, and wait with kube-scheduler's reasons.

Claims that wait for their pod's node get their volumes before the pod is bound.
"""

from typing import Any

import pytest

from kubeshare_py.embedded_cluster.controllers.provisioning import PROVISIONER
from tests.stories.conftest import Stage, gpu, scheduled_condition

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
HOST = "kubernetes.io/hostname"

Json = dict[str, Any]
CLUSTER = """
nodes:
  - {name: "n{n}", count: 3, gpus: [{model: T4, count: 1, memory: 16GiB}]}
"""


def mounting(*names: str) -> list[Json]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


async def a_volume(stage: Stage, name: str, node: str, *modes: str) -> None:
    """A volume on this node alone, and a claim of the same name that it is kept for."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    access = [*modes] or ["ReadWriteOnce"]
    spec: Json = {
        "capacity": {"storage": "5Gi"},
        "accessModes": access,
        "local": {"path": "/data"},
        "storageClassName": "",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    meta = {"metadata": {"name": name}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", **meta, "spec": spec}
    await stage.client.create(VOLUMES, volume)
    size = {"requests": {"storage": "1Gi"}}
    asked = {"accessModes": access, "resources": size, "storageClassName": "", "volumeName": name}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **meta, "spec": asked}
    await stage.client.create(CLAIMS, claim)


@pytest.mark.slow
async def test_a_pod_goes_to_the_node_of_its_volume(stage: Stage) -> None:
    for number in (3, 1, 2):
        await a_volume(stage, f"data{number}", f"n{number}")
    for number in (1, 2, 3):
        name = f"data{number}"
        await stage.create(name, gpu("0.5"), volumes=mounting(name))
        assert (await stage.place(name))[0] == f"n{number}"


async def test_a_pod_without_gpus_goes_to_the_node_of_its_volume(stage: Stage) -> None:
    await a_volume(stage, "data", "n2")
    await stage.create("plain", volumes=mounting("data"))
    assert (await stage.expect_running("plain"))["spec"]["nodeName"] == "n2"


@pytest.mark.slow
async def test_volumes_of_different_nodes_have_no_common_place(stage: Stage) -> None:
    await a_volume(stage, "data1", "n1")
    await a_volume(stage, "data2", "n2")
    await stage.create("both", gpu("0.5"), volumes=mounting("data1", "data2"))
    elsewhere = "3 node(s) didn't match PersistentVolume's node affinity"
    assert await stage.expect_reasons("both", "affinity") == (
        f"0/3 nodes are available: {elsewhere}."
    )


@pytest.mark.slow
async def test_a_pod_waits_for_its_claim_and_goes_on_once_it_is_bound(stage: Stage) -> None:
    await stage.create("early", gpu("0.5"), volumes=mounting("data"))
    assert await stage.expect_reasons("early") == (
        '0/3 nodes are available: persistentvolumeclaim "data" not found.'
    )
    await a_volume(stage, "data", "n3")
    assert (await stage.place("early"))[0] == "n3"


@pytest.mark.slow
async def test_a_claim_of_one_pod_alone_is_free_once_that_pod_is_gone(stage: Stage) -> None:
    await a_volume(stage, "data", "n2", "ReadWriteOncePod")
    await stage.create("first", gpu("0.5"), volumes=mounting("data"))
    await stage.expect_running("first")
    await stage.create("second", gpu("0.5"), volumes=mounting("data"))
    assert "ReadWriteOncePod access mode already in-use" in await stage.expect_waiting("second")
    await stage.delete("first")
    assert (await stage.place("second"))[0] == "n2"


async def a_class(stage: Stage, name: str, provisioner: str, **parameters: str) -> None:
    """A class whose claims wait for their pod's node."""
    await stage.client.create(
        CLASSES,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioner,
            "parameters": parameters,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )


async def a_waiting_claim(stage: Stage, name: str, class_name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    await stage.client.create(CLAIMS, {**body, "spec": spec})


async def said(stage: Stage, name: str, reason: str) -> str:
    """What the pod's condition says, once it has this reason."""

    def told(pod: Json) -> bool:
        return scheduled_condition(pod).get("reason") == reason

    pod = await stage.expect_eventually(name, told)
    return str(scheduled_condition(pod)["message"])


async def the_claim(stage: Stage, name: str) -> Json:
    found: Json = await stage.client.get(f"{CLAIMS}/{name}")
    return found


async def test_a_volume_is_made_where_the_pod_goes(stage: Stage) -> None:
    await a_class(stage, "made", PROVISIONER)
    await a_waiting_claim(stage, "data", "made")
    await stage.create("train", gpu("0.5"), volumes=mounting("data"))
    node, _ = await stage.place("train")
    claim = await the_claim(stage, "data")
    assert claim["metadata"]["annotations"][SELECTED_NODE] == node
    assert claim["status"]["phase"] == "Bound"


async def test_a_claim_gets_the_volume_that_is_there_on_the_node(stage: Stage) -> None:
    await a_class(stage, "local", NO_PROVISIONER)
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["n2"]}]}
    spec: Json = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/data"},
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}}
    await stage.client.create(VOLUMES, {**body, "spec": spec})
    await a_waiting_claim(stage, "data", "local")
    await stage.create("train", gpu("0.5"), volumes=mounting("data"))
    assert (await stage.place("train"))[0] == "n2"
    volume = await stage.client.get(f"{VOLUMES}/disk")
    assert volume["spec"]["claimRef"]["name"] == "data"
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert (await the_claim(stage, "data"))["spec"]["volumeName"] == "disk"


async def test_another_node_is_tried_if_no_volume_can_be_made(stage: Stage) -> None:
    await a_class(stage, "made", PROVISIONER, refusedNodes="n1,n2")
    await a_waiting_claim(stage, "data", "made")
    one_of = {"nodeSelector": {HOST: "n1"}}
    await stage.create("stuck", gpu("0.5"), volumes=mounting("data"), **one_of)
    assert 'provisioning failed for PVC "data"' in await said(stage, "stuck", "SchedulerError")
    await stage.delete("stuck")
    await stage.create("train", gpu("0.5"), volumes=mounting("data"), nodeSelector={HOST: "n3"})
    assert (await stage.place("train"))[0] == "n3"


@pytest.mark.slow
async def test_a_pod_says_that_it_waits_for_a_volume_and_keeps_its_card(stage: Stage) -> None:
    await a_class(stage, "silent", "example.com/never-answers")
    await a_waiting_claim(stage, "data", "silent")
    await stage.create("train", gpu("1"), volumes=mounting("data"), nodeSelector={HOST: "n1"})
    reason = "NotReadyForScheduling"
    assert await said(stage, "train", reason) == "waits for volumes of claim data"
    await stage.create("other", gpu("1"), nodeSelector={HOST: "n1"})
    assert "Insufficient GPU" in await stage.expect_waiting("other")
    await stage.delete("train")
    await stage.expect_running("other")
