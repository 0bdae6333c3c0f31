"""Patches that take and free locks of nodes, as the embedded API server and others apply them."""

from pathlib import Path

from kubeshare_py.edges.kube.client import JSON_PATCH, KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.manifests.api_paths import node_path
from kubeshare_py.manifests.devices.node_locks import (
    TEST_FAILED,
    lock_patch,
    unlock_patch,
)
from tests.embedded_cluster.embedded import cluster

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
    """vgpu-hami H.7-77: a lock that was replaced meanwhile is never erased."""
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
