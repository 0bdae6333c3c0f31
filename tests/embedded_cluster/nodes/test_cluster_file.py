"""What a cluster file becomes, and how its mistakes are named."""

from pathlib import Path

import pytest

from kubeshare_py.documents.yaml_text import DocumentProblem
from kubeshare_py.domain.node import Taint
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import node_object, read_cluster

DEMO = Path(__file__).parents[3] / "config" / "demo-cluster.yaml"


def test_the_demo_cluster_has_its_twenty_six_cards() -> None:
    nodes = read_cluster(DEMO.read_text(), "demo-cluster.yaml")
    assert [(node.name, len(node.cards)) for node in nodes] == [
        ("a100-1", 8),
        ("a100-2", 8),
        ("t4-1", 4),
        ("t4-2", 4),
        ("rtx-1", 2),
        ("cpu-1", 0),
    ]
    assert nodes[0].cards[0].memory_bytes == 40 * 2**30
    assert {card.model for node in nodes for card in node.cards} == {
        "NVIDIA-A100-SXM4-40GB",
        "Tesla-T4",
        "NVIDIA-GeForce-RTX-4090",
    }


def test_uuids_are_unique_and_the_same_on_every_start() -> None:
    first, second = (read_cluster(DEMO.read_text()) for _ in range(2))
    uuids = [card.uuid for node in first for card in node.cards]
    assert first == second
    assert len(set(uuids)) == len(uuids) == 26
    assert uuids[0] == "GPU-ee57847e-5f07-548e-b0b6-956aeb0e0847"


def test_a_node_may_hold_several_models_taints_and_other_resources() -> None:
    (node,) = read_cluster("""
nodes:
  - name: mixed
    taints: [{key: gpu, value: only, effect: NoSchedule}]
    allocatable: {cpu: 8, nvidia.com/gpu: 3}
    gpus:
      - {model: Tesla T4, memory: 16106127360}
      - {model: A10, count: 2, memory: 24Gi}
""")
    assert [(card.index, card.model, card.memory_bytes) for card in node.cards] == [
        (0, "Tesla-T4", 16106127360),
        (1, "A10", 24 * 2**30),
        (2, "A10", 24 * 2**30),
    ]
    assert node.taints == (Taint(key="gpu", value="only", effect="NoSchedule"),)
    assert node.allocatable["cpu"] == "8"
    assert node.allocatable["nvidia.com/gpu"] == "3"
    assert node.allocatable["pods"] == "110"
    assert node.labels["kubernetes.io/hostname"] == "mixed"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes: [", "c.yaml: line 2, column 1: is not YAML: did not find expected node"),
        ("{}", "c.yaml: Object missing required field `nodes`"),
        ("nodes: [{name: a, colour: red}]", "c.yaml: nodes[0]: Object contains unknown field"),
        ("nodes: [{name: a}, {name: b, count: x}]", "c.yaml: nodes[1].count: Expected `int`"),
        ("nodes: [{name: a, count: 2}]", "c.yaml: nodes[0].name: needs {n}"),
        ("nodes: [{name: 'a-{n}', count: -1}]", "c.yaml: nodes[0].count: -1 is not within 0…20000"),
        ("nodes: [{name: A_b}]", "c.yaml: nodes[0].name: 'A_b' cannot be the name"),
        ("nodes: [{name: a}, {name: a}]", "c.yaml: nodes[1].name: node a is there twice"),
        (
            "nodes: [{name: a, allocatable: {cpu: lots}}]",
            "c.yaml: nodes[0].allocatable.cpu: 'lots' is not a quantity",
        ),
        (
            "nodes: [{name: a, taints: [{key: k, effect: Never}]}]",
            "c.yaml: nodes[0].taints[0].effect: is none of NoSchedule",
        ),
        (
            "nodes: [{name: a, gpus: [{model: m, memory: 5 elephants}]}]",
            "c.yaml: nodes[0].gpus[0].memory: '5 elephants' is not an amount of memory",
        ),
        (
            "nodes: [{name: a, gpus: [{model: m, memory: 0}]}]",
            "c.yaml: nodes[0].gpus[0].memory: 0 is not more than 0 bytes",
        ),
        (
            "nodes: [{name: a, gpus: [{model: '', memory: 1GiB}]}]",
            "c.yaml: nodes[0].gpus[0].model: is empty",
        ),
        (
            f"nodes: [{{name: a, gpus: [{{model: m, memory: {2**53}}}]}}]",
            f"c.yaml: nodes[0].gpus[0].memory: {2**53} is not within 1…{2**48}",
        ),
        (
            "nodes: [{name: a, gpus: [{model: m, memory: 1GiB, count: 99999999}]}]",
            "c.yaml: nodes[0].gpus[0].count: 99999999 is not within 0…128",
        ),
        (
            "nodes: [{name: a, gpus: [&m {model: m, memory: 1GiB, count: 100}, *m]}]",
            "c.yaml: nodes[0].gpus: 200 is not within 0…128",
        ),
        (
            "nodes: [{name: 'a{n}', count: 1000000000}]",
            "c.yaml: nodes[0].count: 1000000000 is not within 0…20000",
        ),
        (
            "nodes: [{name: 'a{n}', count: 15000}, {name: 'b{n}', count: 15000}]",
            "c.yaml: nodes[1].count: 20001 is not within 0…20000",
        ),
        (
            "nodes: [{name: a, gpus: [{model: m, memory: 1GiB, count: -2}]}]",
            "c.yaml: nodes[0].gpus[0].count: -2 is not within 0…128",
        ),
    ],
)
def test_mistakes_name_file_field_and_rule(text: str, problem: str) -> None:
    with pytest.raises(DocumentProblem) as raised:
        read_cluster(text, "c.yaml")
    assert str(raised.value).startswith(problem)


def test_annotations_are_those_of_the_registered_node() -> None:
    [plain, noted] = read_cluster("nodes: [{name: a}, {name: b, annotations: {x.io/y: z}}]")
    assert "annotations" not in node_object(plain, "10.0.0.1", 0.0)["metadata"]
    assert node_object(noted, "10.0.0.2", 0.0)["metadata"]["annotations"] == {"x.io/y": "z"}
