"""Where nodes are: fabric, rack, zone and region, as their labels say, as a tree."""

from collections.abc import Iterable, Sequence

import networkx as nx

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node

#: From the widest place to the narrowest. Zone and region are Kubernetes' well-known labels, the
#: clique is NVIDIA's GPU Feature Discovery's: cards of nodes with the same one are joined by NVLink
#: (IMEX domain). For racks there is no word that all agree on.
LABELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/rack",
    "nvidia.com/gpu.clique",
)

_ALL = ("cluster", "")


def place_graph(nodes: Iterable[Node], labels: Sequence[str] = LABELS) -> nx.Graph:
    """A tree: ("cluster", ""), a vertex for each place, ("node", name) for each node.

    A place is its label and the values down to it, since racks of two zones may have one name. A
    label that a node does not have is passed over; an empty value counts as none.
    """
    graph = nx.Graph()
    graph.add_node(_ALL)
    for node in nodes:
        above, path = _ALL, ""
        for label in labels:
            value = node.labels.get(label)
            if value:
                path = f"{path}/{value}"
                graph.add_edge(above, (label, path))
                above = (label, path)
        graph.add_edge(above, ("node", str(node.name)))
    return graph


def hops_from(graph: nx.Graph, name: NodeName) -> dict[NodeName, int]:
    """How many edges of the tree are between one node and each: 0 itself, 2 in the same place."""
    lengths = nx.single_source_shortest_path_length(graph, ("node", str(name)))
    return {NodeName(at): length for (kind, at), length in lengths.items() if kind == "node"}
