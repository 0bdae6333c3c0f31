"""Two nodes with cards; each test counts its own child processes only."""

import pytest

from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode, read_cluster
from tests.edges.inventory.children import leave_out_others


@pytest.fixture(autouse=True)
def _own_children() -> None:
    leave_out_others()


@pytest.fixture
def nodes() -> tuple[SimulatedNode, ...]:
    return read_cluster("""
nodes:
  - {name: a, gpus: [{model: T4, memory: 1GiB, count: 2}]}
  - {name: b, gpus: [{model: T4, memory: 1GiB}]}
""")
