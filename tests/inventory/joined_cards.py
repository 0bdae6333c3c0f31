"""The page of a collector whose node has two cards that are joined, for tests that garble it."""

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.nodes.collectors import Collectors
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster

_NODE = """
- name: {node}
  gpus: [{{model: T4, memory: 1GiB, count: 2}}]
  topology: |
    GPU0 GPU1 CPU NUMA
    GPU0 X NV2 0-3 0
    GPU1 NV2 X 0-3 0
"""


def joined_cards(node: NodeName) -> str:
    """What the node's collector answers at second 100."""
    collectors = Collectors(read_cluster(f"nodes:{_NODE.format(node=node)}"))
    collectors.use_card(node, 0, 50, 2**20)
    page, _ = collectors.page(node, 100.0) or (b"", "")
    return page.decode()
