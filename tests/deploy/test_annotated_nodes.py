"""Collectors that write their cards on their Nodes, and nothing else there."""

from functools import partial

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from kubeshare_py.inventory.node_annotations import ANNOTATION
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import Release, expect_eventually
from tests.deploy.test_collector import NAME, available, pods
from tests.stories.conftest import NODES, Stage

pytestmark = pytest.mark.real_only("it needs controllers, admission policies and Helm")

ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}"


def saying(text: str) -> Json:
    return {"metadata": {"annotations": {ANNOTATION: text}}}


async def collector_on(stage: Stage, plane: ControlPlane, node: str) -> KubeClient:
    """A client with the token that Kubernetes gives to the collector's pod on this node."""
    pod = next(one for one in await pods(stage.client) if one["spec"]["nodeName"] == node)
    about = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"]}
    spec = {"boundObjectRef": about, "audiences": [], "expirationSeconds": 3600}
    answer = await stage.client.create(f"{ACCOUNT}/token", {"kind": "TokenRequest", "spec": spec})
    ca = plane.secrets.certificates.ca_file.read_text()
    reading = KubeReading(
        server=plane.url, authorization=f"Bearer {answer['status']['token']}", ca=ca
    )
    return KubeClient(Credentials("the collector's pod", lambda: reading))


async def test_a_collector_writes_its_own_cards_on_its_own_node(
    stage: Stage, release: Release, bare: ControlPlane
) -> None:
    await release.upgrade("collector.annotateNode=true")
    await available(stage.client)
    [pod] = [one for one in await pods(stage.client) if one["spec"]["nodeName"] == "n1"]
    assert "--annotate-node" in pod["spec"]["containers"][0]["args"]
    async with await collector_on(stage, bare, "n1") as client:
        mine, other = f"{NODES}/n1", f"{NODES}/n2"
        await client.merge_patch(mine, saying("[]"))
        refusals: list[tuple[str, Json, str]] = [
            (other, saying("[]"), "on the Node that it runs on and on no other"),
            (mine, {"spec": {"unschedulable": True}}, "sharedgpu/cards and nothing else"),
            (mine, {"metadata": {"labels": {"a": "b"}}}, "sharedgpu/cards and nothing else"),
            (mine, {"metadata": {"annotations": {"a": "b"}}}, "sharedgpu/cards and nothing else"),
            (mine, {"metadata": {"finalizers": ["a/b"]}}, "sharedgpu/cards and nothing else"),
        ]
        for path, change, words in refusals:
            answer = await expect_eventually(partial(refusal_of, client, path, change), bool)
            assert answer["message"].startswith("403 ")
            assert words in answer["message"]
        with pytest.raises(KubeError, match="403"):
            await client.merge_patch(f"{mine}/status", {"status": {"phase": "x"}})
        with pytest.raises(KubeError, match="403"):
            await client.get(mine)
    found = await stage.client.get(f"{NODES}/n1")
    assert found["metadata"]["annotations"][ANNOTATION] == "[]"
    # Everybody else who may change Nodes is as free as before.
    await stage.client.merge_patch(f"{NODES}/n2", {"metadata": {"labels": {"a": "b"}}})


async def refusal_of(client: KubeClient, path: str, change: Json) -> Json:
    """What a policy says to it; nothing while it is let through: servers notice policies late."""
    try:
        await client.merge_patch(f"{path}?dryRun=All", change)
    except KubeError as error:
        return {"message": f"{error.status} {error.message}"}
    return {}
