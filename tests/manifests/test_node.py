"""Nodes as they come over the wire, with their images, and patches of their locks."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.identity import GpuUuid, PodUid
from kubeshare_py.domain.node import KubeletPick, Node, Taint
from kubeshare_py.domain.pod import NodeImage, PodImages
from kubeshare_py.domain.quantity import NODE_IMAGES, NODE_RESOURCES
from kubeshare_py.edges.kube.client import JSON_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.manifests.api_paths import node_path
from kubeshare_py.manifests.node import TEST_FAILED, NodeFields, lock_patch, to_domain, unlock_patch
from tests.embedded_cluster.embedded import cluster
from tests.manifests.written import pod


def node(**parts: Any) -> Node:
    written = {"kind": "Node", "metadata": {"name": "n"}, **parts}
    return to_domain(msgspec.json.decode(msgspec.json.encode(written), type=NodeFields))


def test_a_bare_node_offers_nothing() -> None:
    assert node() == Node(name=node().name)


def test_a_node() -> None:
    found = node(
        metadata={"name": "n", "labels": {"SharedGPU": "true"}, "annotations": {"x": "y"}},
        spec={
            "podCIDR": "10.0.0.0/24",
            "unschedulable": True,
            "taints": [
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                {"key": "gpu", "value": "yes", "effect": "PreferNoSchedule"},
            ],
        },
        status={
            "capacity": {"cpu": "9"},
            "allocatable": {"pods": "110", "memory": "4Gi", "cpu": "3920m", "nvidia.com/gpu": "4"},
        },
    )
    assert found == Node(
        name=found.name,
        labels={"SharedGPU": "true"},
        taints=(
            Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
            Taint("gpu", "yes", "PreferNoSchedule"),
        ),
        unschedulable=True,
        allocatable=(("cpu", 3920), ("memory", 2**32), ("nvidia.com/gpu", 4), ("pods", 110)),
    )
    assert found.name == "n"


def test_features_that_no_pod_can_need_are_left_out() -> None:
    declared = ["UserNamespacesHostNetworkSupport", "Other", "RestartAllContainersOnContainerExits"]
    features = node(status={"declaredFeatures": declared}).features
    assert features == (declared[2], declared[0])


def test_an_amount_that_is_no_quantity_is_not_offered() -> None:
    assert node(status={"allocatable": {"cpu": "many", "pods": "3"}}).allocatable == (("pods", 3),)


def test_of_a_node_so_many_resources_are_read() -> None:
    names = [f"example.com/r{number:04}" for number in range(5000)]
    offered = {**dict.fromkeys(names, "1"), "cpu": "4", "pods": "110", "memory": "1Gi"}
    found = node(status={"allocatable": offered}).allocatable
    assert len(found) == NODE_RESOURCES.most
    assert dict(found).items() >= {"cpu": 4000, "pods": 110, "memory": 2**30}.items()
    assert [*found] == sorted(found)
    as_many = dict.fromkeys(names[: NODE_RESOURCES.most], "1")
    assert [*dict(node(status={"allocatable": as_many}).allocatable)] == [*as_many]


def test_the_words_of_its_agent_are_read() -> None:
    words = '{"v":1,"held":[{"uid":"u","ns":"a","pod":"b","cards":["GPU-1"]}]}'
    found = node(metadata={"name": "n", "annotations": {"kubeshare.io/node-agent": words}})
    assert found.agent.picks == (KubeletPick(PodUid("u"), (GpuUuid("GPU-1"),)),)


# --- The images of a pod, and those of a node -----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        ("registry.example:5000/app", "registry.example:5000/app:latest"),
        ("registry.example:5000/app:2", "registry.example:5000/app:2"),
        ("app@sha256:00", "app@sha256:00"),
    ],
)
def test_a_name_without_a_tag_is_the_latest(name: str, known_as: str) -> None:
    found = pod({"containers": [{"name": "c", "image": name}]})
    assert found.images == PodImages((known_as,), 1)


def test_images_of_all_containers_and_volumes_count() -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "x:1"}],
        "initContainers": [{"name": "i", "image": "y:1"}, {"name": "none"}],
        "volumes": [
            {"name": "v", "image": {"reference": "z"}},
            {"name": "w", "image": 7},
            {"name": "u", "emptyDir": {}},
        ],
    }
    found = pod(spec)
    assert found.images == PodImages(("x:1", "x:1", "y:1", "z:latest"), 4)
    assert found.shape.images is None
    assert pod(spec | {"nodeName": "n"}).images is None
    assert pod(spec).images is found.images


def node_images(*images: dict[str, Any]) -> tuple[NodeImage, ...]:
    written = {"metadata": {"name": "n"}, "status": {"images": images}}
    return to_domain(msgspec.json.decode(msgspec.json.encode(written), type=NodeFields)).images


def test_images_of_a_node_have_names_and_a_size() -> None:
    found = node_images({"names": ["x:1", "x@sha256:0"], "sizeBytes": 7}, {})
    assert found == (NodeImage(("x:1", "x@sha256:0"), 7), NodeImage((), 0))


def test_of_a_node_so_many_images_are_read() -> None:
    most = NODE_IMAGES.most
    assert len(node_images(*({"names": [f"x:{at}"]} for at in range(most + 1)))) == most


# --- Patches that take and free locks of nodes, as the embedded API server and others apply them.


KEY = "hami.io/mutex.lock"


def test_a_key_is_a_part_of_a_json_pointer() -> None:
    assert b'"path":"/metadata/annotations/a~1b~0c"' in lock_patch("a/b~c", "x")


async def patched(client: KubeClient, body: bytes) -> int:
    """The status of the answer."""
    try:
        await client.request("PATCH", node_path("n1"), body=body, content_type=JSON_PATCH)
    except KubeError as error:
        return error.status
    return 200


async def test_a_lock_is_taken_once_and_freed_by_its_text_alone(tmp_path: Path) -> None:
    """A lock that was replaced meanwhile is never erased."""
    async with cluster(tmp_path) as (_, client):
        metadata = {"name": "n1", "annotations": {"other": "text"}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        await client.create("/api/v1/nodes", node)
        assert await patched(client, lock_patch(KEY, "mine")) == 200
        assert await patched(client, lock_patch(KEY, "yours")) == TEST_FAILED
        assert await patched(client, unlock_patch(KEY, "yours")) == TEST_FAILED
        found = await client.get(node_path("n1"))
        assert found["metadata"]["annotations"] == {"other": "text", KEY: "mine"}
        assert await patched(client, unlock_patch(KEY, "mine")) == 200
        assert await patched(client, unlock_patch(KEY, "mine")) == TEST_FAILED
