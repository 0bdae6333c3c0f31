"""docs/from-hami.md: its commands lead from HAMi to ours and back; its device plugin stays."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import expect_eventually, kubectl
from tests.deploy.page_commands import blocks, run
from tests.deploy.whole import scheduler
from tests.stories.conftest import PODS, Stage, annotations
from tests.stories.hami_plugin import cards, register
from tests.stories.stand_in_plugin import StandInPlugin, devices_of
from tests.stories.test_hami import CORES, GPU, MEM, a_pod

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

PAGE = "from-hami.md"
OLD, PLUGIN, WEBHOOK = "hami-scheduler", "hami-device-plugin", "hami-webhook"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OF_PLUGIN = f"/api/v1/namespaces/{NAMESPACE}/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
#: What is left of all this, whatever failed.
CLEANING = f"""
helm uninstall kubeshare --namespace {NAMESPACE} --ignore-not-found
kubectl label namespace default kubeshare.io/dialects-
kubectl delete mutatingwebhookconfiguration {WEBHOOK} --ignore-not-found
kubectl delete clusterrolebinding {PLUGIN} --ignore-not-found
kubectl --namespace {NAMESPACE} delete deployment {OLD} --cascade=foreground
"""
#: What HAMi's scheduler wrote on a pod.
WRITTEN = "hami.io/vgpu-devices-allocated"


@pytest.fixture
def described() -> str:
    return """
nodes:
  - name: n1
    labels: {gpu: "on"}
    allocatable: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 20}
    gpus: [{model: A100, count: 2, memory: 40GiB}]
"""


def workload() -> Json:
    labels = {"app": OLD}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": OLD}, "spec": spec}


def webhook() -> Json:
    """HAMi's, whose server is not there any more."""
    service = {"namespace": NAMESPACE, "name": OLD, "path": "/webhook"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    one = {
        "name": "vgpu.hami.io", "clientConfig": {"service": service}, "failurePolicy": "Ignore",
        "rules": [{**rule, "resources": ["pods"]}], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
    }  # fmt: skip
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": WEBHOOK}, "webhooks": [one]}


async def predecessors(stage: Stage) -> str:
    """HAMi's scheduler, webhook and device plugin, and a pod that it bound; the pod's card."""
    client = stage.client
    found = cards(stage, "n1")
    await register(stage, "n1", found)
    await client.create(DEPLOYMENTS, workload())
    await client.create(WEBHOOKS, webhook())
    told = {"hami.io/vgpu-node": "n1", WRITTEN: f"{found[0].uuid},NVIDIA,30000,0:;"}
    bound: Json = {"nodeName": "n1", "schedulerName": OLD}
    await client.create(PODS, a_pod("old", {GPU: 1, MEM: 30000}, told=told, **bound))
    return found[0].uuid


@asynccontextmanager
async def plugin(stage: Stage, plane: ControlPlane) -> AsyncIterator[StandInPlugin]:
    """HAMi's device plugin, with the token of its pod on n1 and the rights of its account."""
    account = {"metadata": {"name": PLUGIN}}
    await stage.client.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    of_plugin = {"kind": "ServiceAccount", "name": PLUGIN, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    await stage.client.create(
        RBAC, {"metadata": {"name": PLUGIN}, "roleRef": role, "subjects": [of_plugin]}
    )
    spec = {
        "containers": [{"name": "main", "image": "x"}], "nodeName": "n1",
        "serviceAccountName": PLUGIN,
    }  # fmt: skip
    await stage.client.create(OF_PLUGIN, {"metadata": {"name": PLUGIN}, "spec": spec})
    about = ("--bound-object-kind=Pod", f"--bound-object-name={PLUGIN}", "--duration=1h")
    token = await kubectl(plane, "create", "token", PLUGIN, f"--namespace={NAMESPACE}", *about)
    stage.cluster.server.tokens[PLUGIN] = token.strip()
    kubeconfig = stage.cluster.server.write_kubeconfig(stage.folder / "of-plugin", PLUGIN)
    async with KubeClient(load(str(kubeconfig))) as client, asyncio.TaskGroup() as group:
        made = StandInPlugin(client, answers_in_s=0.01)
        running = group.create_task(made.run())
        yield made
        running.cancel()
    await stage.client.delete(f"{OF_PLUGIN}/{PLUGIN}", grace_period_s=0)


async def expect_taken_to(stage: Stage, name: str, pod: Json) -> None:
    """Wait until a pod that names no scheduler becomes this scheduler's."""

    async def tried() -> Json:
        return await stage.client.create(PODS, pod, {"dryRun": "All"})

    await expect_eventually(tried, lambda found: found["spec"]["schedulerName"] == name)


async def expect_writable(stage: Stage, name: str) -> None:
    """Wait until no policy of ours refuses what HAMi's scheduler writes on a pod."""
    change = {"metadata": {"annotations": {"hami.io/vgpu-time": "1"}}}

    async def tried() -> Json:
        try:
            return await stage.client.merge_patch(f"{PODS}/{name}?dryRun=All", change)
        except KubeError:
            return {}

    await expect_eventually(tried, bool)


async def test_the_pages_commands_lead_from_hami_to_ours_and_back(
    forgetful: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    bare, client = forgetful, stage.client
    used = await predecessors(stage)
    look, invite, install, unhook, back = blocks(PAGE, "sh")
    (tmp_path / "values.yaml").write_text(blocks(PAGE, "yaml")[0])
    said = await asyncio.to_thread(run, look, bare, tmp_path)
    assert re.search(rf"^old +n1 +{used},NVIDIA,30000,0:;$", said, re.MULTILINE)
    assert re.search(r"^n1 ", said, re.MULTILINE)
    try:
        for step in (invite, install, unhook):
            await asyncio.to_thread(run, step, bare, tmp_path)
        assert await replicas(client) == 0
        assert WEBHOOK not in await names(client, WEBHOOKS)
        new = a_pod("new", {GPU: 1, MEM: 20000, CORES: 30})
        del new["spec"]["schedulerName"]
        await expect_taken_to(stage, OLD, new)
        async with scheduler(stage, bare, tmp_path), plugin(stage, bare) as its:
            await client.create(PODS, new)
            # The plugin says on the pod that it has its devices.
            pod = await stage.expect_eventually(
                "new", lambda one: annotations(one).get("hami.io/bind-phase") == "success"
            )
        [uuid] = devices_of(its.given["default/new"])
        assert uuid != used
        assert annotations(pod)[WRITTEN] == f"{uuid},NVIDIA,20000,30:;"
        await asyncio.to_thread(run, back, bare, tmp_path)
        assert await replicas(client) == 1
        assert WEBHOOK in await names(client, WEBHOOKS)
        await expect_writable(stage, "new")
        for name, mib in (("old", 30000), ("new", 20000)):
            assert f",NVIDIA,{mib}," in annotations(await stage.pod(name))[WRITTEN]
    finally:
        await asyncio.to_thread(run, CLEANING, bare, tmp_path)


async def replicas(client: KubeClient) -> int:
    found: int = (await client.get(f"{DEPLOYMENTS}/{OLD}"))["spec"]["replicas"]
    return found


async def names(client: KubeClient, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in (await client.get(path))["items"]]
