"""docs/from-kubeshare.md: its commands run on a cluster with KubeShare 2.0's objects."""

import asyncio
from pathlib import Path

import pytest
import yaml

from kubeshare_py.edges.kube.client import KubeClient
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import kubectl
from tests.deploy.page_commands import blocks, run
from tests.stories.conftest import Stage, gpu
from tests.stories.former_kubeshare import FormerCard, FormerKubeShare

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

PAGE = "from-kubeshare.md"
APPS, RBAC = "/apis/apps/v1/namespaces/kube-system", "/apis/rbac.authorization.k8s.io/v1"
CORE = "/api/v1/namespaces/kube-system"


def workload(kind: str, name: str) -> Json:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "a", "image": "x"}]},
    }
    spec: Json = {"selector": {"matchLabels": labels}, "template": template}
    if kind == "Deployment":
        spec["replicas"] = 0
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def predecessors(client: KubeClient) -> None:
    """What KubeShare's manifests made, by their names, but for its ServiceMonitors."""
    for name in ("kubeshare-scheduler", "kubeshare-aggregator"):
        await client.create(f"{APPS}/deployments", workload("Deployment", name))
    for name in ("kubeshare-collector", "kubeshare-node-daemon"):
        await client.create(f"{APPS}/daemonsets", workload("DaemonSet", name))
    for name in ("kubeshare-collector", "kubeshare-aggregator"):
        ports = {"clusterIP": "None", "ports": [{"port": 9004}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": ports}
        await client.create(f"{CORE}/services", body)
    for name in ("kubeshare-scheduler", "kubeshare-aggregator", "kubeshare-config"):
        meta = {"metadata": {"name": name}}
        await client.create(
            f"{CORE}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", **meta}
        )
        group = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        role = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}}
        role["roleRef"]["name"] = name
        await client.create(f"{RBAC}/clusterroles", group | {"kind": "ClusterRole"} | meta)
        bound = group | {"kind": "ClusterRoleBinding"} | meta | role
        await client.create(f"{RBAC}/clusterrolebindings", bound)


def without_monitors(script: str) -> str:
    """Without the lines about ServiceMonitors, which are the Prometheus operator's."""
    lines = script.splitlines(keepends=True)
    return "".join(line for line in lines if "servicemonitor" not in line)


async def test_the_pages_commands_lead_from_kubeshare_to_ours(
    bare: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    client = stage.client
    await predecessors(client)
    [card, *_] = stage.nodes[0].cards
    of_node = FormerCard(stage.nodes[0].name, card.uuid, card.model, card.memory_bytes, "n1/1")
    former = FormerKubeShare(client, [of_node])
    await former.place("old", gpu("0.5"), card.uuid)
    before = (await stage.pod("old"))["metadata"]["uid"]
    values = yaml.safe_load(blocks(PAGE, "yaml")[0])
    values["config"]["inventory"]["url"] = stage.cluster.collectors.url
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    look, stop, collector, install, seen, rest = blocks(PAGE, "sh")
    # Nothing runs in this cluster that could answer; tests/stories/test_kubectl.py asks.
    assert {line.split()[1] for line in seen.splitlines()} == {"kubeshare"}
    said = await asyncio.to_thread(run, look, bare, tmp_path)
    assert "kubeshare-node-daemon" in said
    try:
        for step in (stop, collector, install, rest):
            await asyncio.to_thread(run, without_monitors(step), bare, tmp_path)
        found = [one["metadata"] for one in (await client.get(f"{APPS}/deployments"))["items"]]
        assert "kubeshare-aggregator" not in [one["name"] for one in found]
        [ours] = [one for one in found if one["name"] == "kubeshare-scheduler"]
        assert ours["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert (await stage.pod("old"))["metadata"]["uid"] == before
    finally:
        await asyncio.to_thread(
            run, f"helm uninstall kubeshare --namespace {NAMESPACE}", bare, tmp_path
        )
        await kubectl(bare, "delete", "pod", "old", "--ignore-not-found", "--wait=false")
