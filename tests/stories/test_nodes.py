"""Nodes are closed, opened, tainted, lost, removed: new pods follow, running ones stay charged."""

import pytest

from kubeshare_py.domain.identity import NodeName
from tests.stories.conftest import NODES, Json, Stage, gpu

N1 = NodeName("n1")
ON_N1 = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
CLUSTER = """
nodes:
  - {name: "n{n}", count: 2, gpus: [{model: T4, count: 1, memory: 16GiB}]}
  - {name: plain, allocatable: {cpu: 8}}
"""


def taint(effect: str) -> Json:
    return {"spec": {"taints": [{"key": "team", "value": "red", "effect": effect}]}}


async def test_a_cordoned_node_takes_nobody_until_it_is_uncordoned(stage: Stage) -> None:
    await stage.patch_node("n1", {"spec": {"unschedulable": True}})
    await stage.create("a", gpu("1"))
    assert (await stage.place("a"))[0] == "n2"
    await stage.create("b", gpu("1"))
    message = await stage.expect_reasons("b")
    assert message == (
        "0/3 nodes are available: 1 Insufficient GPU, 1 no GPU, 1 node(s) were unschedulable."
    )
    await stage.patch_node("n1", {"spec": {"unschedulable": None}})
    assert (await stage.place("b"))[0] == "n1"


async def test_a_taint_keeps_out_whoever_does_not_tolerate_it(stage: Stage) -> None:
    await stage.patch_node("n1", taint("NoSchedule"))
    await stage.patch_node("n2", taint("NoSchedule"))
    await stage.create("a", gpu("0.5"))
    assert "2 node(s) had untolerated taint" in await stage.expect_waiting("a")
    tolerations = [{"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}]
    await stage.create("red", gpu("0.5"), tolerations=tolerations)
    await stage.expect_running("red")
    await stage.patch_node("n2", {"spec": {"taints": None}})
    assert (await stage.place("a"))[0] == "n2"


@pytest.mark.slow
async def test_a_lost_node_keeps_what_its_pods_hold_and_returns_with_it(stage: Stage) -> None:
    await stage.create("first", gpu("0.6"), **ON_N1)
    await stage.expect_running("first")
    await stage.cluster.kubelets.lose_node(N1)
    await stage.create("second", gpu("0.6"), **ON_N1)
    assert "1 node(s) had untolerated taint" in await stage.expect_waiting("second")
    await stage.create("third", gpu("0.4"), **ON_N1)
    await stage.expect_waiting("third")
    await stage.cluster.kubelets.return_node(N1)
    await stage.expect_running("third")
    assert "Insufficient GPU" in await stage.expect_waiting("second", "Insufficient GPU")


@pytest.mark.slow
async def test_a_pod_deleted_on_a_lost_node_holds_its_card_until_it_is_gone(stage: Stage) -> None:
    await stage.create("first", gpu("1"), **ON_N1)
    await stage.expect_running("first")
    await stage.cluster.kubelets.lose_node(N1)
    await stage.delete("first")
    await stage.cluster.kubelets.return_node(N1)
    await stage.create("second", gpu("1"), **ON_N1)
    await stage.expect_running("second")


@pytest.mark.slow
async def test_a_node_removed_and_added_again_has_its_pods_charged(stage: Stage) -> None:
    await stage.create("first", gpu("0.6"), **ON_N1)
    await stage.expect_running("first")
    node = await stage.client.get(f"{NODES}/n1")
    await stage.client.delete(f"{NODES}/n1")
    await stage.create("second", gpu("0.6"), **ON_N1)
    assert (await stage.expect_waiting("second")).startswith("0/2 nodes are available")
    await stage.create("third", gpu("0.4"), **ON_N1)
    await stage.expect_waiting("third")
    metadata = {"name": "n1", "labels": node["metadata"]["labels"]}
    await stage.client.create(NODES, {**node, "metadata": metadata})
    await stage.expect_running("third")
    await stage.create("fourth", gpu("0.1"), **ON_N1)
    await stage.expect_waiting("fourth", "1 Insufficient GPU")
    assert "nodeName" not in (await stage.pod("second"))["spec"]


async def test_node_selectors_and_affinity_are_kept(stage: Stage) -> None:
    await stage.patch_node("n2", {"metadata": {"labels": {"zone": "b"}}})
    await stage.create("selected", gpu("0.2"), nodeSelector={"zone": "b"})
    assert (await stage.place("selected"))[0] == "n2"
    term = {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    await stage.create("elsewhere", gpu("0.2"), affinity={"nodeAffinity": required})
    assert (await stage.place("elsewhere"))[0] == "n1"
    await stage.create("nowhere", gpu("0.2"), nodeSelector={"zone": "c"})
    assert "3 node(s) didn't match" in await stage.expect_waiting("nowhere")
    await stage.patch_node("n1", {"metadata": {"labels": {"zone": "c"}}})
    assert (await stage.place("nowhere"))[0] == "n1"


async def test_pods_without_gpus_leave_gpu_nodes_alone_while_they_can(stage: Stage) -> None:
    for number in range(2):
        await stage.create(f"web-{number}", requests={"cpu": "4"})
        assert (await stage.place(f"web-{number}"))[0] == "plain"
    await stage.create("web-2", requests={"cpu": "4"})
    assert (await stage.place("web-2"))[0] in ("n1", "n2")


async def test_cpu_can_be_what_is_missing(stage: Stage) -> None:
    for name in ("n1", "n2"):
        here = {"kubernetes.io/hostname": name}
        await stage.create(f"on-{name}", requests={"cpu": "30"}, nodeSelector=here)
        await stage.expect_running(f"on-{name}")
    await stage.create("both", gpu("0.5"), requests={"cpu": "4"})
    message = await stage.expect_reasons("both")
    assert message == "0/3 nodes are available: 1 no GPU, 2 Insufficient cpu."
    await stage.delete("on-n2")
    assert (await stage.place("both"))[0] == "n2"
