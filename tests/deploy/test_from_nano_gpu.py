"""docs/from-nano-gpu.md: its commands run on a cluster of the predecessor."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.helm import NAMESPACE, template
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import expect_eventually, kubectl
from tests.deploy.page_commands import blocks, run
from tests.stories.conftest import PODS, Stage

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

PAGE = "from-nano-gpu.md"
OLD = "elastic-gpu-scheduler"
FLAG, TOLD = "elasticgpu.io/assumed", "elasticgpu.io/container-cuda"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def a_pod(name: str, **metadata: Json) -> Json:
    resources = {"limits": {"elasticgpu.io/gpu-core": "50", "elasticgpu.io/gpu-memory": "256"}}
    container = {"name": "cuda", "image": "nvidia/cuda:10.0-base", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }


async def predecessors(client: KubeClient) -> None:
    """The old scheduler, and a pod that it bound."""
    labels = {"app": OLD}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        },
    }
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": OLD}, "spec": spec}
    await client.create(DEPLOYMENTS, body)
    placed = a_pod("old", annotations={FLAG: "true", TOLD: "1"}, labels={FLAG: "true"})
    placed["spec"]["nodeName"] = "n1"
    await client.create(PODS, placed)
    await client.merge_patch(
        "/api/v1/nodes/n1", {"metadata": {"labels": {"nvidia-device-enable": "enable"}}}
    )


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
    assert re.search(r"^default +old .* n1 ", said, re.MULTILINE)
    try:
        for step in (install, invite, stop):
            await asyncio.to_thread(run, step, bare, tmp_path)
        # The old pod keeps what it has, and no user moves it to another card.
        await kubectl(bare, "label", "pod", "old", "moved=true")
        change = {"metadata": {"annotations": {TOLD: "0"}}}
        await expect_refused(client, change)
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


async def expect_refused(client: KubeClient, change: Json) -> None:
    """Wait until the policy is in force; nothing is changed before that."""

    async def tried() -> Json:
        try:
            await client.merge_patch(f"{PODS}/old?dryRun=All", change)
        except KubeError as error:
            return {"said": error.message}
        return {}

    found = await expect_eventually(tried, bool)
    assert f"only kubeshare-scheduler writes {TOLD}" in found["said"]


def test_the_chart_lets_the_scheduler_write_the_dialects_annotations_and_flags() -> None:
    values = yaml.safe_load(blocks(PAGE, "yaml")[0])
    dialects = values["config"]["profiles"][0]["dialects"]
    assert [one["name"] for one in dialects] == ["sharedgpu", "nano-gpu"]
    text = template('--set-json=config.profiles=[{"dialects": [{"name": "nano-gpu"}]}]')
    (policy,) = [
        one
        for one in yaml.safe_load_all(text)
        if one
        and (one["kind"], one["metadata"]["name"])
        == ("ValidatingAdmissionPolicy", "kubeshare-bindings")
    ]
    [annotations] = [
        one["expression"] for one in policy["spec"]["variables"] if one["name"] == "results"
    ]
    [labels] = [
        one["expression"]
        for one in policy["spec"]["validations"]
        if "topology.kubernetes.io/" in one["expression"]
    ]
    for prefix in ("nano-gpu.io/gpu-", "elasticgpu.io/container-"):
        assert f'"{prefix}"' in annotations
    for flag in ("nano-gpu.io/gpu", "nano-gpu/assume", "elastic-gpu/assume", FLAG):
        assert f'"{flag}"' in labels
