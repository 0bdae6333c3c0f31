"""Node agents and the aggregator with the rights that the chart gives them, and with no others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.aggregator import RequirementWatch
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from kubeshare_py.edges.node.agent import NodeAgent
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.kubelet.device_pods import DevicePods
from kubeshare_py.node_agent.agent_report import ANNOTATION
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import PODS, Release, expect_eventually
from tests.deploy.test_annotated_nodes import refusal_of
from tests.patience import PATIENCE_S
from tests.stories.conftest import NODES, Stage

pytestmark = pytest.mark.real_only("it needs controllers, admission policies and Helm")

AGENT, AGGREGATOR = "kubeshare-node-agent", "kubeshare-aggregator"


class Unasked(CardSampler):
    """There is no driver here."""

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def pod_of(
    stage: Stage, plane: ControlPlane, name: str, node: str = ""
) -> AsyncIterator[KubeClient]:
    """A client with the token that Kubernetes gives to a pod of this name (on this node)."""
    selector = {"labelSelector": f"app.kubernetes.io/name={name}"}

    async def found() -> Json:
        listed = await stage.client.list_all(PODS, selector)
        return {
            "names": [
                one["metadata"]["name"]
                for one in listed
                if one["spec"].get("nodeName") and node in ("", one["spec"]["nodeName"])
            ]
        }

    [pod, *_] = (await expect_eventually(found, lambda answer: bool(answer["names"])))["names"]
    about = {"apiVersion": "v1", "kind": "Pod", "name": pod}
    spec = {"boundObjectRef": about, "audiences": [], "expirationSeconds": 3600}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
    answer = await stage.client.create(path, {"kind": "TokenRequest", "spec": spec})
    reading = KubeReading(
        server=plane.url,
        authorization=f"Bearer {answer['status']['token']}",
        ca=plane.secrets.certificates.ca_file.read_text(),
    )
    async with KubeClient(Credentials(f"a pod of {name}", lambda: reading)) as client:
        yield client


async def test_an_agent_reads_its_pods_and_writes_on_its_own_node(
    stage: Stage, release: Release, bare: ControlPlane
) -> None:
    await release.upgrade("nodeAgent.enabled=true")
    async with pod_of(stage, bare, AGENT, "n1") as client, asyncio.TaskGroup() as group:
        agent = NodeAgent(client, Unasked(NodeName("n1")))
        task = group.create_task(agent.run())
        mine = partial(stage.client.get, f"{NODES}/n1")
        found = await expect_eventually(
            mine, lambda node: ANNOTATION in (node["metadata"].get("annotations") or {})
        )
        assert '"held_truncated":true' in found["metadata"]["annotations"][ANNOTATION]
        await expect_pods(agent)
        task.cancel()


async def expect_pods(agent: NodeAgent) -> None:
    """It knows of the pods of its node: its own is there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            tenants = agent.state.tenants
            if tenants and any(one.key.name.startswith(AGENT) for one in tenants.values()):
                return
            await asyncio.sleep(0.05)


async def test_an_agents_token_is_kept_to_its_own_annotation(
    stage: Stage, release: Release, bare: ControlPlane
) -> None:
    await release.upgrade("nodeAgent.enabled=true")
    async with pod_of(stage, bare, AGENT, "n1") as client:
        mine, other = f"{NODES}/n1", f"{NODES}/n2"
        only = "writes the annotation kubeshare.io/node-agent and nothing else"
        said = {"metadata": {"annotations": {ANNOTATION: "{}"}}}
        await client.merge_patch(mine, said)
        for path, change, words in (
            (other, said, "on the Node that it runs on and on no other"),
            (mine, {"spec": {"unschedulable": True}}, only),
            (mine, {"metadata": {"labels": {"a": "b"}}}, only),
            (mine, {"metadata": {"annotations": {"sharedgpu/cards": "[]"}}}, only),
            (mine, {"metadata": {"finalizers": ["a/b"]}}, only),
        ):
            answer = await expect_eventually(partial(refusal_of, client, path, change), bool)
            assert answer["message"].startswith("403 ")
            assert words in answer["message"]
        for refused in (
            client.get(mine),
            client.get("/api/v1/secrets"),
            client.merge_patch(f"{mine}/status", {"status": {"phase": "x"}}),
            client.create(PODS, {"metadata": {"name": "x"}}),
        ):
            with pytest.raises(KubeError, match="403"):
                await refused


async def test_device_plugins_read_the_pod_whose_container_starts(
    stage: Stage, release: Release, bare: ControlPlane
) -> None:
    await release.upgrade("nodeAgent.enabled=true", 'nodeAgent.devices=["nvidia.com/gpu"]')
    async with pod_of(stage, bare, AGENT, "n1") as client:
        pods = DevicePods(client, NodeName("n1"))
        own = next(one for one in await pods.on_node() if one.key.name.startswith(AGENT))
        assert await pods.pod(own.uid, {own.uid: own.key}) == own


async def test_the_aggregator_reads_pods_and_can_do_nothing_else(
    stage: Stage, release: Release, bare: ControlPlane
) -> None:
    await release.upgrade("aggregator.enabled=true")
    async with pod_of(stage, bare, AGGREGATOR) as client, asyncio.TaskGroup() as group:
        watch = RequirementWatch(client, "kubeshare-scheduler")
        task = group.create_task(watch.run())
        async with asyncio.timeout(PATIENCE_S):
            await expect_listed(watch)
        task.cancel()
        for refused in (client.get(NODES), client.create(PODS, {"metadata": {"name": "x"}})):
            with pytest.raises(KubeError, match="403"):
                await refused


async def expect_listed(watch: RequirementWatch) -> None:
    while True:
        if watch.pods is not None:
            return
        await asyncio.sleep(0.05)
