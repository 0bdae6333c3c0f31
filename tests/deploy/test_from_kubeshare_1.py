"""docs/sharepods.md: its commands lead from KubeShare 1.0 to ours, on a cluster as it left it."""

import asyncio
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import expect_eventually, kubectl
from tests.deploy.page_commands import blocks, run
from tests.deploy.test_sharepods import controlling, kubeconfig, uid_of_pod
from tests.stories.conftest import PODS, Stage
from tests.stories.share_pods import (
    DEFINITIONS,
    SHARE_PODS,
    amounts,
    condition,
    create,
    expect,
    share_pod,
)

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

PAGE = "sharepods.md"
NAME = "sharepods.kubeshare.nthu"
CRD = f"crd/{NAME}"


def definition() -> Json:
    """KubeShare 1.0's, as an API server has it that was upgraded beyond v1beta1."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    names = {
        "plural": "sharepods", "singular": "sharepod", "kind": "SharePod", "shortNames": ["shp"],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "kubeshare.nthu", "scope": "Namespaced", "names": names, "versions": [version],
        },
    }  # fmt: skip


async def predecessors(stage: Stage, bare: ControlPlane) -> str:
    """A SharePod that KubeShare 1.0 placed, its pod, and its dummy pod; the uid of the pod."""
    client: KubeClient = stage.client
    await client.create(DEFINITIONS, definition())
    await kubectl(bare, "wait", "--for=condition=Established", CRD)
    old = share_pod("old", amounts("0.5", GPUID="abcde"), nodeName="n1")
    made = await client.create(SHARE_PODS, old)
    owner = {
        "apiVersion": "kubeshare.nthu/v1", "kind": "SharePod", "name": "old", "controller": True,
        "uid": made["metadata"]["uid"],
    }  # fmt: skip
    spec = {**old["spec"], "automountServiceAccountToken": False}
    metadata = {"name": "old", "ownerReferences": [owner]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    pod = await client.create(PODS, body)
    shown = {"PodObjectMeta": pod["metadata"], "PodStatus": {"phase": "Pending"}}
    device = {"BoundDeviceID": "GPU-old", "PodManagerPort": 50051}
    await client.merge_patch(f"{SHARE_PODS}/old", {"status": shown | device})
    dummy = {"name": "kubeshare-vgpu-n1-abcde", "labels": {"kubeshare/role": "dummyPod"}}
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    await client.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": dummy, "spec": spec})
    return str(pod["metadata"]["uid"])


async def test_the_pages_commands_lead_from_kubeshare_to_ours(
    bare: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    uid = await predecessors(stage, bare)
    look, install, rest = blocks(PAGE, "sh")[-3:]  # of the last section
    said = await asyncio.to_thread(run, look, bare, tmp_path)
    assert "kubeshare-vgpu-n1-abcde" in said
    try:
        await asyncio.to_thread(run, install, bare, tmp_path)
        found = await stage.client.get(f"{DEFINITIONS}/{NAME}")
        assert found["spec"]["versions"][0]["subresources"] == {"status": {}}
        async with controlling(kubeconfig(bare, tmp_path)):
            share = await expect(stage, "old", lambda one: condition(one).get("status") == "True")
            assert uid_of_pod(share) == uid
            status = share["status"]
            assert (status["BoundDeviceID"], status["PodManagerPort"]) == ("GPU-old", 50051)
            await create(stage, "new", amounts("0.5"))
            await expect(stage, "new", lambda one: condition(one).get("status") == "True")
        await asyncio.to_thread(run, rest, bare, tmp_path)
        dummies = f"/api/v1/namespaces/{NAMESPACE}/pods"

        async def left() -> Json:
            selector = {"labelSelector": "kubeshare/role=dummyPod"}
            return {"items": await stage.client.list_all(dummies, selector)}

        await expect_eventually(left, lambda listed: not listed["items"])
    finally:
        uninstall = f"helm uninstall kubeshare --namespace {NAMESPACE}"
        await asyncio.to_thread(run, uninstall, bare, tmp_path)
    # With the definition all SharePods would have gone.
    assert {one["metadata"]["name"] for one in await stage.client.list_all(SHARE_PODS)} == {
        "old", "new",
    }  # fmt: skip
