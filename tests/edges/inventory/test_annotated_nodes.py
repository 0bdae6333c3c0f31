"""Cards that collectors write on their Nodes, read from the scheduler's own watch of nodes."""

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.annotated_nodes import AnnotatedNodes, CollectorReports
from kubeshare_py.inventory.node_annotations import ANNOTATION, write_cards
from kubeshare_py.manifests import node, watch
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.node import NodeFields
from tests.making import some_gpus

N1, N2 = NodeName("n1"), NodeName("n2")
ODD = watch.Problem(text="odd", name="n2")


def a_node(name: str) -> NodeFields:
    annotations = {ANNOTATION: write_cards(some_gpus(name, 1))}
    return NodeFields(metadata=ObjectMeta(name=name, annotations=annotations))


def listed(nodes: AnnotatedNodes, *names: str, problems: tuple[watch.Problem, ...] = ()) -> None:
    found = [a_node(name) for name in names]
    for one in found:
        nodes.seen(one)
    items = [node.to_domain(one) for one in found]
    nodes.changed(watch.ListResult(items=items, problems=[*problems], asked_at=0.0))


def changed(nodes: AnnotatedNodes, *lines: watch.WatchLine[NodeFields]) -> None:
    nodes.changed(watch.Changes(changed=[*lines]))


def both() -> AnnotatedNodes:
    nodes = AnnotatedNodes(CollectorReports())
    listed(nodes, N1, N2)
    assert dict(nodes.reported.read().changed) == {N1: some_gpus(N1, 1), N2: some_gpus(N2, 1)}
    return nodes


def test_nodes_come_and_go() -> None:
    nodes = both()
    listed(nodes, N1)
    assert nodes.reported.read().changed == ((N2, ()),)
    changed(
        nodes,
        watch.WatchLine(type=watch.ADDED, item=a_node(N2)),
        watch.WatchLine(type=watch.DELETED, item=a_node(N1)),
    )
    assert nodes.reported.read().changed == ((N1, ()), (N2, some_gpus(N2, 1)))


def test_a_node_that_cannot_be_decoded_keeps_its_cards() -> None:
    nodes = both()
    listed(nodes, N1, problems=(ODD,))
    changed(nodes, watch.WatchLine(type=watch.MODIFIED, problem=ODD))
    assert nodes.reported.read().changed == ()


def test_a_deletion_counts_even_if_the_node_cannot_be_decoded() -> None:
    nodes = both()
    changed(nodes, watch.WatchLine(type=watch.DELETED, problem=ODD))
    assert nodes.reported.read().changed == ((N2, ()),)
