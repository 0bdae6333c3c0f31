from typing import Any

import msgspec

from kubeshare_py.domain.bounds import NODE_RESOURCES
from kubeshare_py.domain.identity import GpuUuid, PodUid
from kubeshare_py.domain.node import KubeletPick, Node, Taint
from kubeshare_py.manifests.node import NodeFields, to_domain


def node(**parts: Any) -> Node:
    written = {"kind": "Node", "metadata": {"name": "n"}, **parts}
    return to_domain(msgspec.json.decode(msgspec.json.encode(written), type=NodeFields))


def test_a_bare_node_offers_nothing() -> None:
    assert node() == Node(name=node().name)


def test_a_node() -> None:
    found = node(
        metadata={"name": "n", "labels": {"SharedGPU": "true"}, "annotations": {"x": "y"}},
        spec={
            "podCIDR": "10.0.0.0/24",
            "unschedulable": True,
            "taints": [
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                {"key": "gpu", "value": "yes", "effect": "PreferNoSchedule"},
            ],
        },
        status={
            "capacity": {"cpu": "9"},
            "allocatable": {"pods": "110", "memory": "4Gi", "cpu": "3920m", "nvidia.com/gpu": "4"},
        },
    )
    assert found == Node(
        name=found.name,
        labels={"SharedGPU": "true"},
        taints=(
            Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
            Taint("gpu", "yes", "PreferNoSchedule"),
        ),
        unschedulable=True,
        allocatable=(("cpu", 3920), ("memory", 2**32), ("nvidia.com/gpu", 4), ("pods", 110)),
    )
    assert found.name == "n"


def test_features_that_no_pod_can_need_are_left_out() -> None:
    declared = ["UserNamespacesHostNetworkSupport", "Other", "RestartAllContainersOnContainerExits"]
    features = node(status={"declaredFeatures": declared}).features
    assert features == (declared[2], declared[0])


def test_an_amount_that_is_no_quantity_is_not_offered() -> None:
    assert node(status={"allocatable": {"cpu": "many", "pods": "3"}}).allocatable == (("pods", 3),)


def test_of_a_node_so_many_resources_are_read() -> None:
    names = [f"example.com/r{number:04}" for number in range(5000)]
    offered = {**dict.fromkeys(names, "1"), "cpu": "4", "pods": "110", "memory": "1Gi"}
    found = node(status={"allocatable": offered}).allocatable
    assert len(found) == NODE_RESOURCES.most
    assert dict(found).items() >= {"cpu": 4000, "pods": 110, "memory": 2**30}.items()
    assert [*found] == sorted(found)
    as_many = dict.fromkeys(names[: NODE_RESOURCES.most], "1")
    assert [*dict(node(status={"allocatable": as_many}).allocatable)] == [*as_many]


def test_the_words_of_its_agent_are_read() -> None:
    words = '{"v":1,"held":[{"uid":"u","ns":"a","pod":"b","cards":["GPU-1"]}]}'
    found = node(metadata={"name": "n", "annotations": {"kubeshare.io/node-agent": words}})
    assert found.agent.picks == (KubeletPick(PodUid("u"), (GpuUuid("GPU-1"),)),)
