"""Pods of a node, as the node's agent asks for them when their containers start."""

from pathlib import Path

import pytest

from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.node.kubelet.device_pods import DevicePods
from kubeshare_py.edges.node.kubelet.plugin_server import DevicesRefused
from kubeshare_py.node_agent.allocation import CardsUnknown, placed_cards
from tests.embedded_cluster.embedded import cluster
from tests.making import a_gpu

GPU = "nvidia.com/gpu"
PODS = "/api/v1/namespaces/default/pods"


async def bound(client: KubeClient, told: str) -> PodUid:
    """A pod on n1 with this annotation of HAMi's scheduler; its uid."""
    annotations = {"hami.io/vgpu-devices-allocated": told}
    limits = {GPU: "1", "nvidia.com/gpumem": "3000"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    metadata = {"name": "p", "annotations": annotations}
    spec = {"nodeName": "n1", "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return PodUid((await client.create(PODS, body))["metadata"]["uid"])


async def test_a_pod_that_hami_bound_gets_the_part_that_its_annotation_says(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        uid = await bound(client, "GPU-a,NVIDIA,3000,0:;")
        pod = await DevicePods(client, NodeName("n1")).pod(uid, {})
        (charge,) = placed_cards(pod, "main", GPU, [a_gpu("GPU-a")])
        assert (charge.uuid, charge.memory_bytes) == ("GPU-a", 3000 << 20)


async def test_a_card_that_is_only_held_because_it_is_named_is_given_to_no_container(
    tmp_path: Path,
) -> None:
    """The scheduler charges all of it; a container would see all of it, without limits."""
    async with cluster(tmp_path) as (_, client):
        uid = await bound(client, "GPU-a,NVIDIA,3000:;")
        pod = await DevicePods(client, NodeName("n1")).pod(uid, {})
        with pytest.raises(CardsUnknown, match="has 3 fields, not 4"):
            placed_cards(pod, "main", GPU, [a_gpu("GPU-a")])


async def test_a_pod_is_known_by_its_uid_and_not_by_its_name(tmp_path: Path) -> None:
    """The pod before had its name; its containers may still start for a moment."""
    async with cluster(tmp_path) as (_, client):
        before = await bound(client, "GPU-a,NVIDIA,3000,0:;")
        pods, keys = DevicePods(client, NodeName("n1")), {before: PodKey("default", "p")}
        assert (await pods.pod(before, {})).uid == before
        await client.delete(f"{PODS}/p", grace_period_s=0)
        await bound(client, "GPU-b,NVIDIA,3000,0:;")
        with pytest.raises(DevicesRefused, match="default/p is gone, and another has its name"):
            await pods.pod(before, keys)
        with pytest.raises(DevicesRefused, match="is gone"):
            await DevicePods(client, NodeName("n1")).pod(before, {})


async def test_a_static_pod_is_known_by_kubelets_own_uid(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        uid = await bound(client, "GPU-a,NVIDIA,3000,0:;")
        change = {"metadata": {"annotations": {"kubernetes.io/config.hash": "of-its-file"}}}
        await client.merge_patch(f"{PODS}/p", change)
        found = await DevicePods(client, NodeName("n1")).pod(PodUid("of-its-file"), {})
        assert found.uid == uid
