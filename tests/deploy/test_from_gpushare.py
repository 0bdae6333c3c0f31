"""docs/from-gpushare.md: its commands run on a cluster of the predecessor."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import expect_eventually, kubectl
from tests.deploy.page_commands import blocks, run
from tests.stories.conftest import PODS, Stage

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

PAGE = "from-gpushare.md"
OLD = "gpushare-schd-extender"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


async def predecessors(client: KubeClient) -> None:
    """The old scheduler, and a pod that it bound."""
    labels = {"app": "gpushare", "component": OLD}
    containers = [{"name": "main", "image": "x"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": OLD}, "spec": spec}
    await client.create(DEPLOYMENTS, body)
    told = {INDEX: "1", "ALIYUN_COM_GPU_MEM_POD": "3", "ALIYUN_COM_GPU_MEM_DEV": "15"}
    container = {"name": "c", "image": "x", "resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "old", "annotations": told},
        "spec": {
            "containers": [container],
            "nodeName": "n1",
            "automountServiceAccountToken": False,
        },
    }
    await client.create(PODS, pod)
    await client.merge_patch("/api/v1/nodes/n1", {"metadata": {"labels": {"gpushare": "true"}}})


async def test_the_pages_commands_lead_from_their_scheduler_to_ours(
    bare: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    client = stage.client
    await predecessors(client)
    values = yaml.safe_load(blocks(PAGE, "yaml")[0])
    values["config"]["inventory"] = {"url": stage.cluster.collectors.url}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    before, install, invite, stop, nodes, rest = blocks(PAGE, "sh")
    said = await asyncio.to_thread(run, before, bare, tmp_path)
    assert re.search(r"^old +n1 +1$", said, re.MULTILINE)
    try:
        for step in (install, invite, stop):
            await asyncio.to_thread(run, step, bare, tmp_path)
        # The old pod keeps what it has, and no user moves it to another card.
        await kubectl(bare, "label", "pod", "old", "moved=true")
        said = await refusal(client, {"metadata": {"annotations": {INDEX: "0"}}})
        assert f"only kubeshare-scheduler writes {INDEX}" in said
        for step in (nodes, rest):
            await asyncio.to_thread(run, step, bare, tmp_path)
        names = [one["metadata"]["name"] for one in (await client.get(DEPLOYMENTS))["items"]]
        assert OLD not in names
        assert "kubeshare-scheduler" in names
    finally:
        await asyncio.to_thread(
            run, f"helm uninstall kubeshare --namespace {NAMESPACE}", bare, tmp_path
        )
        await kubectl(bare, "label", "namespace", "default", "kubeshare.io/dialects-")


async def refusal(client: KubeClient, change: Json) -> str:
    """What the policy says once it is in force; nothing is changed before that."""

    async def tried() -> Json:
        try:
            await client.merge_patch(f"{PODS}/old?dryRun=All", change)
        except KubeError as error:
            return {"said": error.message}
        return {}

    return str((await expect_eventually(tried, bool))["said"])
