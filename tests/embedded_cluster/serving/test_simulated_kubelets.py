"""Simulated kubelets against the embedded API server."""

import asyncio
import json
from pathlib import Path

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.server import Fault
from kubeshare_py.embedded_cluster.serving.simulated_kubelets import LEASES, SimulatedKubelets
from tests.embedded_cluster.embedded import cluster, create_pod
from tests.embedded_cluster.simulated import PODS, TWO_NODES, simulated

A = NodeName("a")
EVICTION = {
    "apiVersion": "policy/v1",
    "kind": "Eviction",
    "metadata": {"name": "p", "namespace": "default"},
}


def ready(node: UnstructuredObject) -> str:
    status: str = next(one["status"] for one in node.status["conditions"] if one["type"] == "Ready")
    return status


def taint_keys(node: UnstructuredObject) -> list[tuple[str, str]]:
    return [(taint["key"], taint["effect"]) for taint in node.spec.get("taints") or []]


async def test_nodes_are_registered_ready_and_with_their_own_taints_only(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        nodes = await world.expect_eventually("/api/v1/nodes", lambda found: len(found) == 2)
    assert {name: ready(node) for name, node in nodes.items()} == {"a": "True", "b": "True"}
    assert {name: taint_keys(node) for name, node in nodes.items()} == {
        "a": [],
        "b": [("own", "NoSchedule")],
    }
    assert nodes["a"].status["allocatable"]["pods"] == "110"
    assert (nodes["a"].metadata.labels or {})["SharedGPU"] == "true"


async def test_registering_again_is_the_same(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        again = SimulatedKubelets(world.client, read_cluster(TWO_NODES))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(again.run())
            await again.registered.wait()
            task.cancel()
        nodes = await world.expect_eventually("/api/v1/nodes", lambda found: len(found) == 2)
    assert taint_keys(nodes["b"]) == [("own", "NoSchedule")]


async def test_a_not_ready_taint_of_the_server_is_taken_away(tmp_path: Path) -> None:
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    async with cluster(tmp_path) as (_, client):
        for name in ("a", "b"):
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "spec": {"taints": [not_ready]},
            }
            await client.create("/api/v1/nodes", node)
        kubelets = SimulatedKubelets(client, read_cluster(TWO_NODES))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(kubelets.run())
            await kubelets.registered.wait()
            task.cancel()
        nodes = await client.list_all("/api/v1/nodes")
    keys = [[taint["key"] for taint in node["spec"].get("taints", [])] for node in nodes]
    assert keys == [[], ["own"]]
    assert nodes[0]["metadata"]["labels"]["SharedGPU"] == "true"


async def test_heartbeats_are_leases(tmp_path: Path) -> None:
    async with simulated(tmp_path, heartbeat_s=0.02) as world:
        first = await world.expect_eventually(LEASES, lambda found: len(found) == 2)
        renewed = first["a"].spec["renewTime"]
        await world.expect_eventually(LEASES, lambda found: found["a"].spec["renewTime"] > renewed)


async def test_a_bound_pod_runs_with_the_cards_that_its_binding_names(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        reference = {"fieldRef": {"fieldPath": "metadata.annotations['sharedgpu/gpu_uuid']"}}
        container = {
            "name": "main",
            "image": "cuda",
            "env": [
                {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": reference},
                {"name": "DIR", "value": "/mps/$(NVIDIA_VISIBLE_DEVICES)"},
            ],
        }
        await create_pod(world.client, "p", containers=[container])
        await world.bind("p", "a", **{"sharedgpu/gpu_uuid": "GPU-1"})
        pod = await world.expect_phase("p", "Running")
    environment = json.loads((pod.metadata.annotations or {})["kubeshare.sim/env"])
    assert environment["main"] == {"NVIDIA_VISIBLE_DEVICES": "GPU-1", "DIR": "/mps/GPU-1"}
    conditions = {one["type"]: one["status"] for one in pod.status["conditions"]}
    assert conditions["Ready"] == conditions["PodScheduled"] == "True"


@pytest.mark.parametrize(("exit_code", "phase"), [("0", "Succeeded"), ("4", "Failed")])
async def test_a_pod_ends_when_its_annotation_says(
    tmp_path: Path, exit_code: str, phase: str
) -> None:
    async with simulated(tmp_path) as world:
        await create_pod(world.client, "p", restartPolicy="Never")
        annotations = {
            "kubeshare.sim/run-seconds": "0",
            "kubeshare.sim/exit-code": exit_code,
        }
        await world.bind("p", "a", **annotations)
        pod = await world.expect_phase("p", phase)
    (container,) = pod.status["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == int(exit_code)
    assert not container["ready"]


async def test_a_deleted_pod_is_finished_and_gone(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        await create_pod(world.client, "p")
        await world.bind("p", "a")
        await world.expect_phase("p", "Running")
        assert "deletionTimestamp" in (await world.client.delete(f"{PODS}/p"))["metadata"]
        await world.expect_eventually(PODS, lambda pods: not pods)


async def test_a_lost_node_is_marked_and_silent_until_it_returns(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        await create_pod(world.client, "p")
        await world.bind("p", "a")
        await world.expect_phase("p", "Running")
        await world.kubelets.lose_node(A)
        nodes = await world.expect_eventually("/api/v1/nodes", lambda found: len(found) == 2)
        assert (ready(nodes["a"]), ready(nodes["b"])) == ("Unknown", "True")
        assert taint_keys(nodes["a"]) == [
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        ]
        await world.client.delete(f"{PODS}/p")
        # The other node's pod goes through all of it meanwhile; the lost node's stays.
        await create_pod(world.client, "q")
        await world.bind("q", "b")
        await world.expect_phase("q", "Running")
        await world.client.delete(f"{PODS}/q")
        assert {*await world.expect_eventually(PODS, lambda pods: "q" not in pods)} == {"p"}
        await world.kubelets.return_node(A)
        await world.expect_eventually(PODS, lambda pods: not pods)
        nodes = await world.expect_eventually("/api/v1/nodes", lambda found: len(found) == 2)
    assert (ready(nodes["a"]), taint_keys(nodes["a"])) == ("True", [])


async def test_there_are_no_other_nodes_to_lose(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        with pytest.raises(LookupError):
            await world.kubelets.lose_node(NodeName("c"))
        with pytest.raises(LookupError):
            await world.kubelets.return_node(NodeName("c"))


async def test_a_node_that_the_server_refuses_is_an_error(tmp_path: Path) -> None:
    (node, _) = read_cluster(TWO_NODES)
    async with cluster(tmp_path) as (server, client):
        server.faults.inject(Fault(method="POST", path="/nodes$", status=403))
        with pytest.raises(ExceptionGroup) as raised:
            await SimulatedKubelets(client, [node]).run()
    assert raised.group_contains(KubeError)


async def test_lost_answers_and_errors_do_not_stop_a_pod(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        world.server.faults.inject(Fault(method="PATCH", path="/pods/p$", status=500))
        world.server.faults.inject(
            Fault(method="PATCH", path="/pods/p/status$", applies_first=True)
        )
        world.server.faults.inject(Fault(method="DELETE", path="/pods/p$", applies_first=True))
        await create_pod(world.client, "p")
        await world.bind("p", "a")
        await world.expect_phase("p", "Running")
        await world.client.request("POST", f"{PODS}/p/eviction", body=EVICTION)
        await world.expect_eventually(PODS, lambda pods: not pods)


async def test_reports_keep_their_order_when_one_has_to_be_sent_again(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        world.server.faults.inject(Fault(method="PATCH", path="/pods/p$", status=500))
        await create_pod(world.client, "p", restartPolicy="Never")
        await world.bind("p", "a", **{"kubeshare.sim/run-seconds": "0"})
        phases: list[str] = []

        def is_over(pods: dict[str, UnstructuredObject]) -> bool:
            phases.append(pods["p"].status["phase"])
            return phases[-1] == "Succeeded"

        await world.expect_eventually(PODS, is_over)
    assert list(dict.fromkeys(phases)) == ["Pending", "Running", "Succeeded"]


async def test_a_cut_watch_loses_nothing(tmp_path: Path) -> None:
    async with simulated(tmp_path) as world:
        await create_pod(world.client, "p")
        world.server.cut_watches()
        world.server.compact()
        await world.bind("p", "a")
        await world.expect_phase("p", "Running")
