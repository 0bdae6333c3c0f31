"""The node agent against an embedded API server: its pods, its annotation, its page."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.dialects.results import ALLOCATION, GPU_UUID
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.node.agent import AgentPage, NodeAgent, tenant_of
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.exporters.metric import Metric, Values
from kubeshare_py.manifests.partial_objects import NodePod
from kubeshare_py.node_agent.agent_report import ANNOTATION, PartReport
from kubeshare_py.node_agent.tenants import AgentState, NodeTenant
from tests.edges.served_app import asking
from tests.embedded_cluster.embedded import PODS, cluster, create_pod
from tests.node_agent.readings import a_reading
from tests.patience import PATIENCE_S

NODE = "/api/v1/nodes/n1"
COUNT = Metric("kubeshare_node_agent_test", "gauge", "A part's own metric.")


class Part:
    """Remembers what it was told."""

    name = "test"
    metrics = (COUNT,)

    def __init__(self) -> None:
        self.on_report: Callable[[], None] = lambda: None
        self.told = AgentState()
        self.news = asyncio.Event()
        self.says: PartReport | None = None

    def take(self, state: AgentState) -> None:
        self.told = state
        self.news.set()

    def report(self) -> PartReport | None:
        return self.says

    def knows(self, report: PartReport) -> None:
        self.says = report
        self.on_report()

    def values(self) -> Values:
        return {COUNT.name: {(): 7}}

    def problem(self) -> str:
        return "" if self.says else "knows nothing"

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def expect_pods(self, *names: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.pods() != [*names]:
                self.news.clear()
                await self.news.wait()

    def pods(self) -> list[str] | None:
        tenants = self.told.tenants
        return None if tenants is None else [one.key.name for one in tenants.values()]


class Driver(CardSampler):
    """Reads when it is told to."""

    async def run(self) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def agents(folder: Path) -> AsyncIterator[tuple[KubeClient, NodeAgent, Part]]:
    """A server with the node n1, and its agent with a part."""
    async with cluster(folder) as (_, client), asyncio.TaskGroup() as group:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        await client.create("/api/v1/nodes", node)
        part = Part()
        agent = NodeAgent(client, Driver(NodeName("n1")), [part])
        task = group.create_task(agent.run())
        yield client, agent, part
        task.cancel()


async def bind(client: KubeClient, name: str, node: str = "n1", card: str = "GPU-1") -> None:
    await create_pod(client, name)
    charge = CardCharge(GpuUuid(card), 500, 2**30)
    allocation = Allocation(token=DecisionToken(name), cards=(charge,))
    annotations = {ALLOCATION: write_allocation(allocation), GPU_UUID: card}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    metadata = {"name": name, "annotations": annotations}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    await client.create(f"{PODS}/{name}/binding", binding)


async def annotation(client: KubeClient) -> dict[str, Any] | None:
    text = ((await client.get(NODE))["metadata"].get("annotations") or {}).get(ANNOTATION)
    return None if text is None else json.loads(text)


async def expect_enforced(client: KubeClient, *backends: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if ((await annotation(client)) or {}).get("enforces") == [*backends]:
                return
            await asyncio.sleep(0.01)


async def test_its_parts_are_told_of_the_pods_of_its_node_and_no_others(tmp_path: Path) -> None:
    async with agents(tmp_path) as (client, _, part):
        await bind(client, "elsewhere", node="n2")
        await bind(client, "a")
        await part.expect_pods("a")
        await bind(client, "b", card="GPU-2")
        await part.expect_pods("a", "b")
        assert part.told.tenants is not None
        cards = [
            one.allocation.cards[0].uuid for one in part.told.tenants.values() if one.allocation
        ]
        assert cards == ["GPU-1", "GPU-2"]
        await client.merge_patch(f"{PODS}/b/status", {"status": {"phase": "Succeeded"}})
        await part.expect_pods("a")
        await client.delete(f"{PODS}/a", grace_period_s=0)
        await part.expect_pods()


async def test_its_parts_are_told_of_the_cards(tmp_path: Path) -> None:
    async with agents(tmp_path) as (_, agent, part):
        await part.expect_pods()
        assert part.told.cards is None
        agent.sampler.took(a_reading("GPU-1", "GPU-2"))
        assert part.told.cards is not None
        assert [card.uuid for card in part.told.cards] == ["GPU-1", "GPU-2"]


async def test_it_writes_on_its_node_once_its_parts_know_and_then_only_changes(
    tmp_path: Path,
) -> None:
    async with agents(tmp_path) as (client, _, part):
        await part.expect_pods()
        assert await annotation(client) is None
        part.knows(PartReport(enforces=(IsolationBackend.GEMINI,)))
        await expect_enforced(client, "gemini")
        version = (await client.get(NODE))["metadata"]["resourceVersion"]
        part.knows(PartReport(enforces=(IsolationBackend.GEMINI,)))
        part.knows(PartReport(enforces=()))
        await expect_enforced(client)
        after = (await client.get(NODE))["metadata"]
        assert (int(after["resourceVersion"]) > int(version), [*after["annotations"]]) == (
            True,
            [ANNOTATION],
        )


async def test_its_page_has_its_figures_and_those_of_its_parts(tmp_path: Path) -> None:
    async with agents(tmp_path) as (client, agent, part):
        await bind(client, "a")
        await part.expect_pods("a")
        async with asking(AgentPage(agent).routes()) as web:
            async with web.get("/metrics") as answer:
                text = await answer.text()
            async with web.get("/readyz?verbose") as answer:
                readiness = await answer.text()
            async with web.get("/livez") as answer:
                assert answer.status == 200
        assert 'kubeshare_node_agent_pods{node="n1"} 1.0' in text
        assert 'kubeshare_node_agent_connected{node="n1"} 1.0' in text
        assert "kubeshare_node_agent_test 7.0" in text
        assert "kubeshare_node_agent_cards" not in text
        assert "[+]pods ok" in readiness
        assert "[-]test failed: knows nothing" in readiness


async def test_a_pod_whose_allocation_cannot_be_read_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with agents(tmp_path) as (client, _, part):
        await create_pod(client, "odd", nodeName="n1")
        await part.expect_pods("odd")
        await client.merge_patch(
            f"{PODS}/odd", {"metadata": {"annotations": {ALLOCATION: "nonsense"}}}
        )
        await bind(client, "z")
        await part.expect_pods("odd", "z")
        assert part.told.tenants is not None
        [problem, _] = [one.problem for one in part.told.tenants.values()]
        assert problem.startswith("sharedgpu/allocation: ")
    said = [record for record in caplog.records if record.getMessage() == "allocation"]
    assert len(said) == 1


# --- A pod as the agent of its node reads it ------------------------------------------------------


HALF = Allocation(token=DecisionToken("t"), cards=(CardCharge(GpuUuid("GPU-1"), 500, 2**30),))


def tenant(phase: str = "Running", node: str = "n1", **metadata: Any) -> NodeTenant | None:
    about = {"name": "a", "namespace": "ml", "uid": "u", **metadata}
    pod = {"metadata": about, "spec": {"nodeName": node}, "status": {"phase": phase}}
    return tenant_of(msgspec.json.decode(msgspec.json.encode(pod), type=NodePod))


def test_it_holds_what_its_annotation_says_and_not_what_its_labels_say() -> None:
    found = tenant(
        annotations={ALLOCATION: write_allocation(HALF)},
        labels={"sharedgpu/gpu_request": "0.9", "sharedgpu/gpu_limit": "1.0"},
    )
    assert found is not None
    assert (found.key, found.allocation, found.is_running) == (PodKey("ml", "a"), HALF, True)


def test_a_pod_holds_its_cards_from_its_binding_until_its_end() -> None:
    assert tenant("Pending") is not None
    assert tenant("Succeeded") is None
    assert tenant("Failed") is None
    assert tenant(node="") is None
    leaving = tenant(deletionTimestamp="2026-01-01T00:00:00Z")
    assert leaving is not None


def test_an_allocation_that_cannot_be_read_is_a_problem_of_this_pod() -> None:
    found = tenant(annotations={ALLOCATION: "{"})
    assert found is not None
    assert found.allocation is None
    assert found.problem.startswith("sharedgpu/allocation: ")
