"""A stock kubectl with Deployments and disruption budgets, where controllers do their work."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.kubectl import KUBECTL, Kubectl
from tests.embedded_cluster.simulated import PODS, Simulated

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.tls,  # otherwise kubectl sends no token
]

DONE = 'deployment "web" successfully rolled out\n'


@pytest.fixture
async def kubectl(world: Simulated, tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Every pod is bound to node b as it appears."""
    async with asyncio.TaskGroup() as group:
        binding = group.create_task(world.bind_everything("b"))
        yield Kubectl(tmp_path, world.server.write_kubeconfig(tmp_path / "kubectl.kubeconfig"))
        binding.cancel()


async def rolled_out(kubectl: Kubectl) -> None:
    told = await kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    assert (kubectl.code, told[-len(DONE) :]) == (0, DONE)


@pytest.mark.slow
async def test_a_deployment_from_create_to_delete(kubectl: Kubectl, world: Simulated) -> None:
    created = await kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    assert created == "deployment.apps/web created\n"
    await rolled_out(kubectl)
    listed = (await kubectl("get", "deploy,rs", "-o", "wide", "--no-headers")).splitlines()
    deployment, replica_set = (line.split() for line in listed)
    assert [*deployment[:4], *deployment[5:]] == [
        *("deployment.apps/web", "2/2", "2", "2"),
        *("nginx", "nginx", "app=web"),
    ]
    name = replica_set[0].removeprefix("replicaset.apps/")
    mark = name.removeprefix("web-")
    assert [*replica_set[1:4], *replica_set[5:]] == [
        *("2", "2", "2"),
        *("nginx", "nginx", f"app=web,pod-template-hash={mark}"),
    ]
    everything = await kubectl("get", "all", "--no-headers", "-o", "name")
    kinds = [line.partition("/")[0] for line in everything.splitlines()]
    assert [kind for kind in kinds if kind != "service"] == [
        *("pod", "pod", "deployment.apps", "replicaset.apps"),
    ]
    described = await kubectl("describe", "deployment", "web")
    assert "2 desired | 2 updated | 2 total | 2 available | 0 unavailable" in described
    assert f"NewReplicaSet:   {name} (2/2 replicas created)" in described
    assert f"Scaled up replica set {name} from 0 to 2" in described
    assert "2 Running / 0 Waiting" in await kubectl("describe", "rs", name)
    assert (await kubectl("delete", "deploy", "web")).startswith('deployment.apps "web" deleted')
    await world.expect_eventually(PODS, lambda found: not found)


@pytest.mark.slow
async def test_scaling_rollouts_and_the_way_back(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx:1")
    await rolled_out(kubectl)
    assert await kubectl("scale", "deploy/web", "--replicas=3") == "deployment.apps/web scaled\n"
    await rolled_out(kubectl)
    assert (await kubectl("get", "deploy", "web", "--no-headers")).split()[1] == "3/3"
    await kubectl("scale", "deploy/web", "--current-replicas=5", "--replicas=1")
    assert kubectl.code == 1
    await kubectl("set", "image", "deploy/web", "nginx=nginx:2")
    await rolled_out(kubectl)
    assert await kubectl("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
    await rolled_out(kubectl)
    history = await kubectl("rollout", "history", "deploy/web")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2", "3"]
    undone = await kubectl("rollout", "undo", "deploy/web", "--to-revision=1")
    assert undone == "deployment.apps/web rolled back\n"
    await rolled_out(kubectl)
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert await kubectl("get", "deploy", "web", "-o", image) == "nginx:1"
    for word in ("pause", "resume"):
        assert (await kubectl("rollout", word, "deploy/web")).endswith(f"{word}d\n")
    available = await kubectl("wait", "--for=condition=Available", "deploy/web", "--timeout=20s")
    assert available == "deployment.apps/web condition met\n"


@pytest.mark.slow
async def test_apply_finds_a_deployment_unchanged_and_replaces_a_budgets_selector(
    kubectl: Kubectl,
) -> None:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
    }
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    first = await kubectl.apply(deployment, budget)
    assert first == "deployment.apps/web created\npoddisruptionbudget.policy/web created\n"
    again = await kubectl.apply(deployment, budget)
    # kubectl sends the selector whatever it was.
    assert again == "deployment.apps/web unchanged\npoddisruptionbudget.policy/web configured\n"
    spec["selector"] = {"matchLabels": {"app": "other"}}
    await kubectl.apply(budget)
    selector = await kubectl("get", "pdb", "web", "-o", "jsonpath={.spec.selector}")
    assert selector == '{"matchLabels":{"app":"other"}}'


@pytest.mark.slow
async def test_a_drain_waits_for_a_budget_that_is_in_its_way(
    kubectl: Kubectl, world: Simulated
) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    await rolled_out(kubectl)
    made = await kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=2")
    assert made == "poddisruptionbudget.policy/web created\n"
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    await world.expect_eventually(
        budgets, lambda found: found["web"].status.get("currentHealthy") == 2
    )
    assert (await kubectl("get", "pdb", "--no-headers")).split()[:4] == ["web", "2", "N/A", "0"]
    assert "Allowed disruptions:  0" in await kubectl("describe", "pdb", "web")
    told = await kubectl("drain", "b", "--timeout=1s")
    assert kubectl.code == 1
    assert "node/b cordoned" in told
    assert "Cannot evict pod as it would violate the pod's disruption budget." in told
    assert len(await world.client.list_all(PODS)) == 2
    await kubectl("delete", "pdb", "web")
    # The new pods are bound to b again: this cluster has no scheduler that would mind.
    told = await kubectl("drain", "b", "--timeout=20s")
    assert (kubectl.code, "node/b drained" in told) == (0, True), told
