"""Valid files of all kinds that people write, and what they are used for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import ConfigurationError, read
from kubeshare_py.documents.yaml_text import DocumentProblem
from kubeshare_py.domain.events import InventoryRead, NodesListed
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.inventory.card_file import cards_by_node, read_card_file
from kubeshare_py.topology.cells import CellsError, leaves_by_node, read_cells, with_cells
from tests.making import a_machine, a_node, some_gpus
from tests.odd_input import as_json

CONFIG = Path(__file__).parents[2] / "config"
REFUSED = (DocumentProblem, ConfigurationError, CellsError)
CONFIGURATIONS = [
    next(yaml.safe_load_all((CONFIG / f"{name}.yaml").read_text()))
    for name in ("scheduler", "binpack", "kubeshare", "models", "isolation", "topology", "random")
]
INVENTORY = {
    "nodes": [
        {"names": ["n1", "x-*"], "cards": [{"model": "T4", "memory": "16GiB", "count": 2}]},
        {
            "names": ["n2"],
            "cards": [{"model": "A100", "memory": 42949672960, "uuid": "GPU-1", "healthy": True}],
            "topology": "GPU0 CPU NUMA\nGPU0 X 0-9 1",
        },
    ]
}
CLUSTER = {
    "nodes": [
        {
            "name": "n-{n}",
            "count": 2,
            "labels": {"zone": "a"},
            "taints": [{"key": "k", "effect": "NoSchedule", "value": ""}],
            "allocatable": {"cpu": "32", "memory": "1Gi", "pods": 5},
            "gpus": [{"model": "T4", "memory": "16GiB", "count": 2}],
            "topology": "GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X",
        }
    ]
}
CELLS = {
    "cellTypes": {
        "PAIR": {"childCellType": "m", "childCellNumber": 2, "childCellPriority": 5},
        "BOX": {"childCellType": "PAIR", "childCellNumber": 2, "isNodeLevel": True},
        "RACK": {"childCellType": "BOX", "childCellNumber": 2},
    },
    "cells": [{"cellType": "RACK", "cellChildren": [{"cellId": "n1"}, {"cellId": "n2"}]}],
}


def configuration(document: object) -> None:
    profiles(read(document), IN_TREE)


def inventory_text(text: bytes, source: str) -> None:
    found = cards_by_node(read_card_file(text, source), [NodeName("n1")])
    machine = a_machine()
    machine.handle(NodesListed(tuple(a_node(name) for name in found)), 0.0)
    machine.handle(InventoryRead(tuple(found.items())), 0.0)


def inventory(document: object) -> None:
    inventory_text(as_json(document), "inventory.yaml")


def cells(document: object) -> None:
    leaves = leaves_by_node(read_cells(document))
    for node in [*leaves][:4]:
        with_cells(leaves, node, some_gpus("n1", 3))


def cluster(document: object) -> None:
    read_cluster(as_json(document), "cluster.yaml")


KINDS: dict[str, tuple[Callable[[object], None], list[Any]]] = {
    "configuration": (configuration, CONFIGURATIONS),
    "inventory": (inventory, [INVENTORY]),
    "cells": (cells, [CELLS]),
    "cluster": (cluster, [CLUSTER]),
}
