"""The inventory of a chaos cluster, as a file: a restart is cheap, and losing a card one write."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode


@dataclass(slots=True)
class CardsFile:
    """The cards of these nodes but for those that are lost, by uuid."""

    path: Path
    nodes: Sequence[SimulatedNode]
    lost: set[str] = field(default_factory=set)

    def write(self) -> None:
        """Write the cards that are not lost."""
        document = {
            "nodes": [
                {
                    "names": [str(node.name)],
                    "cards": [
                        {"model": card.model, "memory": card.memory_bytes, "uuid": str(card.uuid)}
                        for card in node.cards
                        if card.uuid not in self.lost
                    ],
                }
                for node in self.nodes
            ]
        }
        new = self.path.with_suffix(".new")
        new.write_text(yaml.safe_dump(document))
        new.replace(self.path)
