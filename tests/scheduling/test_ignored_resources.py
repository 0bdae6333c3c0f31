"""Extended resources that a profile ignores: neither the filter nor the ledger refuses them."""

from typing import Any

import pytest

from kubeshare_plugins.kubernetes.node_resources_fit import NodeResourcesFit
from kubeshare_py.domain.events import NodeSeen
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.plugin import ArgumentError
from tests.making import Driver, a_group, a_machine, a_node, a_pod, a_shape

NIC, DISK = "example.com/nic", "example.org/disk"
STRATEGY = {"type": "MostAllocated", "resources": [{"name": NIC}]}


def ignoring(**args: Any) -> Driver:
    """A profile that scores by the NICs in use, with these arguments of NodeResourcesFit."""
    given = {"name": "NodeResourcesFit", "args": {"scoringStrategy": STRATEGY, **args}}
    scores = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}
    document = {"profiles": [{"plugins": {"score": scores}, "pluginConfig": [given]}]}
    return Driver({}, machine=a_machine(document))


def node(name: str, nics: int) -> Node:
    found = a_node(name)
    return a_node(name, allocatable=(*found.allocatable, (NIC, nics)))


def asking(name: str, resource: str, amount: int = 3, **fields: Any) -> Pod:
    return a_pod(name, a_shape(resources=(("cpu", 100), (resource, amount))), **fields)


@pytest.mark.parametrize(
    ("args", "is_placed"),
    [
        ({}, False),
        ({"ignoredResources": [NIC]}, True),
        ({"ignoredResources": [DISK]}, False),
        ({"ignoredResourceGroups": ["example.com"]}, True),
        ({"ignoredResourceGroups": ["example.org"]}, False),
    ],
)
def test_what_is_ignored_need_not_be_free(args: dict[str, Any], is_placed: bool) -> None:
    driver = ignoring(**args)
    driver.tell(NodeSeen(node("n1", 2)))
    assert bool(driver.show(asking("p", NIC))) == is_placed


def test_the_resources_of_kubernetes_itself_are_never_ignored() -> None:
    ignores = NodeResourcesFit(
        ignoredResources=["cpu", "hugepages-2Mi"], ignoredResourceGroups=["x.kubernetes.io"]
    ).ignores_resource
    assert ignores is not None
    assert not any(map(ignores, ("cpu", "hugepages-2Mi", "x.kubernetes.io/y")))


def test_members_of_a_gang_may_ask_for_more_than_there_is() -> None:
    driver = ignoring(ignoredResources=[NIC])
    driver.tell(NodeSeen(node("n1", 2)))
    group = a_group(2)
    pods = [asking(f"g-{number}", NIC, group=group) for number in range(2)]
    assert len(driver.show(*pods)) == 2


def test_what_is_ignored_counts_in_scores() -> None:
    driver = ignoring(ignoredResources=[NIC])
    driver.tell(NodeSeen(node("n1", 100)), NodeSeen(node("n2", 10)))
    assert [bind.node for bind in driver.show(asking("p", NIC, 1))] == ["n2"]


def test_a_domain_is_named_without_a_slash() -> None:
    with pytest.raises(ArgumentError, match=r"^ignoredResourceGroups: example\.com/nic must not"):
        NodeResourcesFit(ignoredResourceGroups=[NIC])
