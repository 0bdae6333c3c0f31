"""Plugins may decide by a pod's namespace and labels, if they declare which."""

from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import ConfigurationError, read
from kubeshare_py.domain.events import PodSeen
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.plugin import NodeState, PerNodeFilter
from kubeshare_py.scheduling.machine import Machine
from tests.making import NO_PREEMPTION, Driver, a_share

NODES = {"a-1": 2, "b-1": 2}


class TeamNodes(PerNodeFilter):
    """Nodes belong to the team whose name they begin with: by a label, or by the namespace."""

    reads_namespace = True
    reads_labels: Any = ("team",)

    def __init__(self) -> None:
        super().__init__("TeamNodes", _is_theirs, reason="node(s) of another team")


def _is_theirs(shape: Shape, node: NodeState) -> bool:
    return node.name.startswith(f"{shape.label('team') or shape.namespace}-")


class Misspelt(TeamNodes):
    reads_labels = "team"


def a_driver(plugin: type[TeamNodes] = TeamNodes) -> Driver:
    plugins = {**NO_PREEMPTION["profiles"][0]["plugins"]}
    plugins["filter"] = {"enabled": [{"name": "TeamNodes"}]}
    document = read({"profiles": [{"plugins": plugins}]})
    machine = Machine(profiles(document, {**IN_TREE, "TeamNodes": plugin}), "test")
    return Driver(NODES, machine=machine)


def of(name: str, namespace: str, **labels: str) -> Pod:
    pod = a_share(name, 500, labels=tuple(sorted(labels.items())))
    return replace(pod, key=PodKey(namespace, name))


def nodes(driver: Driver, *pods: Pod) -> dict[str, str]:
    return {bind.key.name: str(bind.node) for bind in driver.show(*pods)}


def test_a_filter_may_depend_on_the_pods_namespace_and_labels() -> None:
    found = nodes(a_driver(), of("p", "a"), of("q", "b"), of("r", "a", team="b", app="x"))
    assert found == {"p": "a-1", "q": "b-1", "r": "b-1"}


def test_what_no_plugin_reads_makes_no_shapes() -> None:
    driver = a_driver()
    shapes = {driver.machine.shape_of(of(f"p{n}", "a", app=str(n), team="b")) for n in range(9)}
    assert len(shapes) == 1
    plain = Driver(NODES).machine
    shapes = {plain.shape_of(of(f"p{n}", f"ns-{n}", team=str(n))) for n in range(9)}
    assert [(one.namespace, one.labels) for one in shapes] == [("", ())]


def test_a_label_that_changes_while_the_pod_waits_counts_at_once() -> None:
    driver = a_driver()
    driver.show(of("p", "none"))
    assert not nodes(driver)
    driver.tell(PodSeen(of("p", "none", team="a")))
    assert nodes(driver) == {"p": "a-1"}


def test_a_wrong_declaration_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"TeamNodes: reads_labels must be keys"):
        a_driver(Misspelt)
