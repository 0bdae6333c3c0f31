"""Pods behind SharePods, and others, as they come over the wire."""

import json
from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.manifests.share_pods import PodBehindFields, pod_behind
from kubeshare_py.sharepods.share_pod import PodBehind

OWNER = {
    "apiVersion": "kubeshare.nthu/v1", "kind": "SharePod", "name": "one", "uid": "s1",
    "controller": True, "blockOwnerDeletion": True,
}  # fmt: skip


def read_pod(**fields: Any) -> PodBehind:
    meta = {"name": "one", "namespace": "team", "uid": "p1", "resourceVersion": "7"}
    body = {"metadata": meta | fields.pop("metadata", {}), **fields}
    return pod_behind(msgspec.json.decode(json.dumps(body), type=PodBehindFields))


def test_of_pods_of_others_only_the_identity_is_kept() -> None:
    deployed = {**OWNER, "kind": "ReplicaSet", "apiVersion": "apps/v1"}
    for owners, controlled in (
        ([], False),
        ([deployed], True),
        ([{**OWNER, "controller": False}], False),
    ):
        pod = read_pod(metadata={"ownerReferences": owners}, status={"phase": "Running"})
        assert pod == PodBehind(
            key=PodKey("team", "one"), uid=pod.uid, version="7", has_controller=controlled
        )


@pytest.mark.parametrize("port", ["", "x", "-1", "999999", "5 0", "٣"])
def test_a_port_that_is_none_is_none(port: str) -> None:
    about = {"ownerReferences": [OWNER], "annotations": {"sharedgpu/gpu_manager_port": port}}
    assert read_pod(metadata=about).mirror.port == 0
